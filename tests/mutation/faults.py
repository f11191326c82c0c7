"""Faults of formulas, wiring and choices: what a family's file, a block or a router can get wrong."""

from dataclasses import replace

from day0.spec.rope import yarn_mscale
from tests.mutation.fault import Planted, layer, model, norm, rope, rule
from tests.validate.planted import exchanged, part

LAYERS = dict(until="layers")
FLOAT32 = dict(until="layers", dtype="float32")

FORMULAS = {
    "eps of a layer's norms": Planted(
        "llama", "layers", 1, "residual", part(1, "residual", norm(eps=1e-2)), operator="rms_norm", wanted=LAYERS),
    "eps of latent norms": Planted(
        "deepseek_v3", "layers", 2, "mixer", part(2, "mixer", norm(eps=1e-2)), operator="rms_norm", wanted=LAYERS),
    "eps of the recurrent output's norm": Planted(
        "kimi_linear", "layers", 1, "mixer", part(1, "mixer", norm(eps=1e-1)), operator="gated_rms_norm", wanted=FLOAT32),
    "query norm dropped": Planted("qwen3", "layers", 0, "mixer", part(0, "mixer", lambda m: replace(m, qk_norm=None)), wanted=LAYERS),
    "one is not added to norm weights": Planted(
        "qwen3_next", "layers", 2, "residual", part(2, "residual", norm(plus_one=False)), operator="rms_norm", wanted=FLOAT32),
    "one is not added to the last norm's weight": Planted(
        "qwen3_next", "model", None, "norm", lambda r: model(norm=replace(r.model.norm, plus_one=False))(r),
        pattern="right with one added to the weight", wanted=dict(dtype="float32")),
    "embeddings scaled": Planted("llama", "model", None, "logits", model(embed_scale=2.0), wanted=dict(dtype="float32")),
    "logits scaled": Planted(
        "llama", "model", None, "logits", model(logit_scale=1.02), pattern="scaled by 1.02", wanted=dict(dtype="float32")),
    "gate and up exchanged": Planted(
        "llama", "layers", 2, "ffn", exchanged("layers.2.ffn.gate", "layers.2.ffn.up"), operator="gated_activation", wanted=LAYERS),
    "experts' gate and up exchanged": Planted(
        "qwen3_moe", "layers", 2, "ffn", exchanged("layers.2.ffn.experts.gate", "layers.2.ffn.experts.up"), operator="experts",
        wanted=LAYERS),
    "activation not clamped": Planted(
        "gpt_oss", "layers", 1, "ffn", part(1, "ffn", lambda f: replace(f, activation=replace(f.activation, limit=None))),
        operator="experts", wanted=LAYERS),
    "one is not added to up": Planted(
        "gpt_oss", "layers", 0, "ffn", part(0, "ffn", lambda f: replace(f, activation=replace(f.activation, offset=0.0))),
        operator="experts", wanted=LAYERS),
    "biases of queries, keys and values dropped": Planted(
        "qwen2", "layers", 1, "mixer", part(1, "mixer", lambda m: replace(m, bias=False)), operator="linear", wanted=LAYERS),
    "shared experts left out": Planted(
        "deepseek_v3", "layers", 1, "ffn", part(1, "ffn", lambda f: replace(f, shared_width=0)), wanted=FLOAT32),
    "shared expert not gated": Planted(
        "qwen3_next", "layers", 0, "ffn", part(0, "ffn", lambda f: replace(f, shared_gate=False)), wanted=FLOAT32),
}  # fmt: skip

POSITIONS = {
    "attention scaled by 1.05": Planted(
        "mixtral", "layers", 1, "mixer", part(1, "mixer", lambda m: replace(m, scale=m.scale * 1.05)), operator="paged_attention",
        wanted=LAYERS),
    "second attention scaled by 1.05": Planted(
        "longcat_flash", "layers", 1, "mixer", part(1, "mixer", lambda m: replace(m, scale=m.scale * 1.05)), wanted=FLOAT32),
    "sinks left out": Planted(
        "gpt_oss", "layers", 0, "mixer", part(0, "mixer", lambda m: replace(m, sinks=False)), operator="paged_attention", wanted=LAYERS),
    "values not scaled": Planted(
        "mimo_v2_flash", "layers", 0, "mixer", part(0, "mixer", lambda m: replace(m, value_scale=1.0)), wanted=FLOAT32),
    "window one token too wide": Planted(
        "gpt_oss", "layers", 2, "mixer", part(2, "mixer", lambda m: replace(m, window=m.window + 1)), operator="paged_attention",
        pattern="mask", wanted=LAYERS),
    "window one token too narrow": Planted(
        "mimo_v2_flash", "layers", 1, "mixer", part(1, "mixer", lambda m: replace(m, window=m.window - 1)), operator="paged_attention",
        pattern="mask", wanted=LAYERS),
    "window never given": Planted(
        "gpt_oss", "layers", 0, "mixer", part(0, "mixer", lambda m: replace(m, window=None)), pattern="mask", wanted=FLOAT32),
    "rotation by the other pairs": Planted(
        "llama", "layers", 0, "mixer", part(0, "mixer", rope(interleaved=True)), operator="rotary", wanted=LAYERS),
    "rotation two percent faster": Planted(
        "llama", "layers", 0, "rotary", part(0, "mixer", lambda m: replace(m, rope=replace(m.rope, theta=m.rope.theta * 0.98))),
        pattern="position", wanted=LAYERS),
    "context not stretched": Planted(
        "llama_yarn", "layers", 0, "rotary", part(0, "mixer", rope(stretch="none")), pattern="position", wanted=LAYERS),
    "factor on cosine and sine left out": Planted(
        "llama_yarn", "layers", 0, "rotary", part(0, "mixer", rope(attention_factor=1.0)), pattern="position", wanted=LAYERS),
    "mscale left out of the softmax": Planted(
        "deepseek_v3", "layers", 0, "mixer", part(0, "mixer", lambda m: replace(m, scale=m.scale / yarn_mscale(8, 0.7) ** 2)),
        operator="attention", wanted=LAYERS),
}  # fmt: skip

CHOICES = {
    "routed experts scaled by 2.4": Planted(
        "deepseek_v3", "layers", 2, "router", part(2, "ffn", rule(scale=2.4)), pattern="rule", wanted=LAYERS),
    "correction bias dropped": Planted(
        "deepseek_v3", "layers", 2, "router", part(2, "ffn", rule(bias=False)), pattern="rule", wanted=LAYERS),
    "groups ignored": Planted(
        "deepseek_v3", "layers", 1, "router", part(1, "ffn", rule(groups=1, top_groups=1)), pattern="rule", wanted=LAYERS),
    "one group too few": Planted("kimi_linear", "layers", 1, "router", part(1, "ffn", rule(top_groups=1)), pattern="rule", wanted=FLOAT32),
    "weights not renormalised": Planted(
        "qwen3_moe", "layers", 0, "router", part(0, "ffn", lambda f: rule(renormalise=not f.router.renormalise)(f)), pattern="rule",
        wanted=LAYERS),
    "softmax over all experts instead of the chosen": Planted(
        "gpt_oss", "layers", 0, "router", part(0, "ffn", rule(choice_first=False)), pattern="rule", wanted=LAYERS),
    "softmax instead of sigmoid": Planted(
        "minimax_m2", "layers", 0, "router", part(0, "ffn", rule(score="softmax")), pattern="rule", wanted=FLOAT32),
    "indexer rotated by the other pairs": Planted(
        "deepseek_v32", "layers", 1, "reads",
        part(1, "mixer", lambda m: replace(m, indexer=replace(m.indexer, interleaved=not m.indexer.interleaved))), pattern="choice",
        wanted=FLOAT32),
    "index shared from another layer": Planted(
        "glm_moe_dsa-shared", "layers", 3, "reads", layer(3, index_source=0), pattern="choice", wanted=FLOAT32),
}  # fmt: skip

STREAMS = {
    "routed experts never added": Planted(
        "longcat_flash", "layers", 1, "residual", part(1, "residual", lambda p: replace(p, lands=False)), wanted=FLOAT32),
    "streams mixed by a matrix that is not doubly stochastic": Planted(
        "deepseek_v4", "layers", 1, "residual", part(1, "residual", lambda p: replace(p, iterations=1)), wanted=FLOAT32),
    "mixers of both sublayers exchanged": Planted(
        "glm5_next", "layers", 0, "residual", exchanged("layers.0.residual.mixer_base", "layers.0.residual.ffn_base"), wanted=FLOAT32),
    "residual block begins one layer late": Planted(
        "kimi_k3", "layers", 4, "residual", part(4, "residual", lambda p: replace(p, place="inside")),
        wanted=dict(only=["layers"], tokens=16)),
    "bound of the decay left out": Planted(
        "kimi_k3", "layers", 1, "mixer", part(1, "mixer", lambda m: replace(m, floor=None)), wanted=dict(only=["layers"], tokens=16)),
    "norm of the experts' latent left out": Planted(
        "kimi_k3", "layers", 1, "ffn", part(1, "ffn", lambda f: replace(f, latent_norm=None)), wanted=dict(only=["layers"], tokens=16)),
}  # fmt: skip
