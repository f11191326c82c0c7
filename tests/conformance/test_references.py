"""References against what we did not write: torch's own functions and the modules of transformers, on the operators' own cases."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor
from transformers.activations import ACT2FN
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
from transformers.models.llama import modeling_llama as llama
from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter
from transformers.models.olmoe.modeling_olmoe import OlmoeTopKRouter
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts, Qwen3MoeTopKRouter

from day0.checkpoint.config import Config
from day0.checkpoint.rope import read_rope
from day0.engine.arguments import widened
from day0.parts.moe_ffn import Router
from day0.spec.activation import activation
from day0.spec.registry import ops
from day0.spec.rope import Rope, yarn_mscale
from day0.spec.state import PAGED


def cases(name: str) -> Iterator[dict[str, Any]]:
    """Arguments in float64, packed weights decoded."""
    for case in ops().get(name).cases():
        yield widened(case.make("float64"))


def reference(name: str, **arguments: Any) -> Any:
    return ops().get(name).reference(**arguments)


def close(found: Tensor, right: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(found.double(), right.double(), rtol=tolerance, atol=tolerance)


def test_rms_norm() -> None:
    for made in cases("rms_norm"):
        weight_D, width = made["weight_D"], made["x"].shape[-1:]
        if made["plus_one"]:
            theirs = GemmaRMSNorm(len(weight_D), eps=made["eps"])
            theirs.weight.data = weight_D
            close(reference("rms_norm", **made), theirs(made["x"]).detach(), 1e-5)  # theirs is in float32
            weight_D = weight_D + 1
        close(reference("rms_norm", **made), F.rms_norm(made["x"], width, weight_D, made["eps"]))


def test_linear() -> None:
    for made in cases("linear"):
        weight_OI, bias_O = (torch.cat(one) if isinstance(one, tuple) else one for one in (made["weight_OI"], made["bias_O"]))
        close(reference("linear", **made), F.linear(made["x_TI"], weight_OI, bias_O))


def test_embedding() -> None:
    for made in cases("embedding"):
        assert torch.equal(reference("embedding", **made), F.embedding(made["tokens_T"], made["table_WD"]))


@pytest.mark.parametrize("spelling", ["silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu2"])
def test_activations(spelling: str) -> None:
    gate_TF, up_TF = torch.linspace(-9, 9, 301, dtype=torch.float64).view(7, 43), torch.full((7, 43), 1.5, dtype=torch.float64)
    right = ACT2FN[spelling.replace("relu2", "relu_squared") if "relu2" not in ACT2FN else spelling](gate_TF)
    close(reference("gated_activation", gate_TF=gate_TF, up_TF=up_TF, activation=activation(spelling)), right * 1.5, 1e-7)
    close(reference("activation", x_TF=gate_TF, activation=activation(spelling, gated=False)), right, 1e-7)


def sdpa(q_THQ: Tensor, k_SNQ: Tensor, v_SNV: Tensor, scale: float) -> Tensor:
    """The T queries are the last of S tokens."""
    T, S = q_THQ.shape[0], k_SNQ.shape[0]
    q, k, v = (x.transpose(0, 1)[None] for x in (q_THQ, k_SNQ, v_SNV))
    seen_TS = torch.arange(S) <= torch.arange(S - T, S)[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen_TS, scale=scale, enable_gqa=True)[0].transpose(0, 1)


def test_attention() -> None:
    for made in cases("attention"):
        close(reference("attention", **made), sdpa(**made))


def gathered(pages: Tensor, segment: Any, b: int) -> Tensor:
    """Entries of one sequence, one by one from its table."""
    size = pages.shape[1]
    return torch.stack([pages[segment.table_BP[b, i // size], i % size] for i in range(segment.lengths[b])])


def test_paged_attention() -> None:
    for made in cases("paged_attention"):
        segment, right = made["segment"], []
        for b, q_THQ in enumerate(made["q_THQ"].split(segment.queries)):
            end, window = segment.lengths[b], made["window"]
            positions = torch.arange(max(0, end - len(q_THQ) - (window or end) + 1), end)
            if window is None:
                k, v = (gathered(made[name], segment, b) for name in ("k_pages", "v_pages"))
            else:
                k, v = (made[name][segment.slots[b]][positions % made[name].shape[1]] for name in ("k_pages", "v_pages"))
            right.append(with_sinks(q_THQ, k, v, positions, made))
        close(reference("paged_attention", **made), torch.cat(right))


def with_sinks(q_THQ: Tensor, k_SNQ: Tensor, v_SNV: Tensor, positions_S: Tensor, made: dict[str, Any]) -> Tensor:
    """By torch, or by gpt-oss where heads have sinks; what a query sees is counted position by position."""
    T, H = q_THQ.shape[:2]
    window, queries = made["window"], positions_S[-T:, None]
    seen_TS = positions_S <= queries
    if window is not None:
        seen_TS &= positions_S // window == queries // window if made["chunked"] else queries - positions_S < window
    q, k, v = (x.transpose(0, 1)[None] for x in (q_THQ, k_SNQ, v_SNV))
    if made["sinks_H"] is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen_TS, scale=made["scale"], enable_gqa=True)[0].transpose(0, 1)
    module = SimpleNamespace(num_key_value_groups=H // k_SNQ.shape[1], sinks=made["sinks_H"], training=False)
    mask = torch.zeros(seen_TS.shape, dtype=torch.float64).masked_fill(~seen_TS, float("-inf"))[None, None]
    return gpt_oss.eager_attention_forward(module, q, k, v, mask, scaling=made["scale"])[0][0]


def test_absorbed_attention_is_expanded_attention() -> None:
    """Scores against latents and attended latents, against keys and values of every head by torch (arXiv 2405.04434, §2.1.2)."""
    N, V = 16, 20
    for made in cases("latent_attention"):
        segment, (H, C) = made["segment"], made["q_THC"].shape[1:]
        kv_b_OC = torch.randn(H * (N + V), C, dtype=torch.float64, generator=torch.Generator().manual_seed(C)) * C**-0.5
        q_THN = torch.randn(len(made["q_THC"]), H, N, dtype=torch.float64, generator=torch.Generator().manual_seed(H))
        right = []
        for b, (q, rotated) in enumerate(zip(q_THN.split(segment.queries), made["q_THR"].split(segment.queries), strict=True)):
            latent_SC, key_SR = gathered(made["pages"], segment, b).split((C, rotated.shape[-1]), dim=-1)
            k_SHN, v_SHV = F.linear(latent_SC, kv_b_OC).unflatten(-1, (H, N + V)).split((N, V), dim=-1)
            keys = torch.cat((k_SHN, key_SR[:, None].expand(-1, H, -1)), dim=-1)
            right.append(sdpa(torch.cat((q, rotated), dim=-1), keys, v_SHV, made["scale"]))
        absorbed_THC = reference("absorb_query", q_THQ=q_THN, kv_b_OC=kv_b_OC, v_dim=V)
        attended_THC = reference("latent_attention", **made | {"q_THC": absorbed_THC})
        close(reference("expand_value", o_THC=attended_THC, kv_b_OC=kv_b_OC, v_dim=V), torch.cat(right))


def test_rotary() -> None:
    """Interleaved pairs too: transformers moves them to halves, and that is only a new order of dimensions."""
    for made in cases("rotary"):
        R, x = 2 * made["turn"].cos_TA.shape[1], made["x_THQ"]
        cos, sin = (torch.cat((one, one), dim=-1)[None].double() for one in (made["turn"].cos_TA, made["turn"].sin_TA))
        turned = x[None, ..., :R]
        theirs = deepseek.apply_rotary_pos_emb_interleave if made["interleaved"] else llama.apply_rotary_pos_emb
        right = theirs(turned, turned, cos, sin, unsqueeze_dim=2)[0][0]
        found = reference("rotary", **made)
        assert torch.equal(found[..., R:], x[..., R:])
        first = found[..., :R]
        close(torch.cat((first[..., 0::2], first[..., 1::2]), dim=-1) if made["interleaved"] else first, right)


ROPES: dict[str, dict[str, Any]] = {
    "plain": {"rope_theta": 10000.0},
    "linear": {"rope_theta": 500000.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "llama3": {"rope_theta": 500000.0, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
    "yarn": {"rope_theta": 10000.0, "rope_scaling": {
        "type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 0.8, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": 4096}},
    "yarn, narrow ramp": {"rope_theta": 50000.0, "rope_scaling": {
        "type": "yarn", "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 1.0, "beta_slow": 1.0,
        "original_max_position_embeddings": 4096}},
    "yarn, not truncated": {"rope_theta": 150000.0, "rope_scaling": {
        "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 4096}},
}  # fmt: skip


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("dim", [64, 128])
def test_frequencies(name: str, dim: int) -> None:
    keys = {"model_type": "llama", "hidden_size": 4 * dim, "num_attention_heads": 4, "max_position_embeddings": 131072} | ROPES[name]
    rope = read_rope(Config(keys), dim)
    theirs = transformers.LlamaConfig(**{key: value for key, value in keys.items() if key != "model_type"})
    if rope.stretch == "none":
        right, factor = llama.LlamaRotaryEmbedding(theirs).inv_freq, 1.0
    else:
        right, factor = ROPE_INIT_FUNCTIONS[rope.stretch](theirs, "cpu")
    torch.testing.assert_close(torch.tensor(rope.frequencies()), right, rtol=2e-6, atol=0)
    assert rope.attention_factor == pytest.approx(factor)


def test_unstretched_frequencies_are_those_of_the_paper() -> None:
    """RoFormer, arXiv 2104.09864, equation 15."""
    assert Rope(dim=8, theta=10000.0).frequencies() == pytest.approx([1.0, 0.1, 0.01, 0.001])


@pytest.mark.parametrize(("factor", "mscale"), [(40, 1.0), (32, 0.7), (1, 1.0), (0.5, 1.0)])
def test_mscale(factor: float, mscale: float) -> None:
    assert yarn_mscale(factor, mscale) == pytest.approx(deepseek.yarn_get_mscale(factor, mscale))


ROUTERS: dict[str, tuple[Any, dict[str, Any], Router]] = {
    "mixtral": (MixtralTopKRouter, {"num_local_experts": 8}, Router(score="softmax", renormalise=True)),
    "qwen3_moe": (Qwen3MoeTopKRouter, {"num_experts": 8, "norm_topk_prob": True}, Router(score="softmax", renormalise=True)),
    "olmoe": (OlmoeTopKRouter, {"num_experts": 8, "norm_topk_prob": False}, Router(score="softmax")),
    "deepseek_v3": (
        deepseek.DeepseekV3TopkRouter,
        {"num_local_experts": 8, "routed_scaling_factor": 2.5, "n_group": 4, "topk_group": 2, "norm_topk_prob": True},
        Router(score="sigmoid", bias=True, groups=4, top_groups=2, renormalise=True, epsilon=1e-20, scale=2.5),
    ),
    "kimi_k2": (
        deepseek.DeepseekV3TopkRouter,
        {"num_local_experts": 8, "routed_scaling_factor": 2.827, "n_group": 1, "topk_group": 1, "norm_topk_prob": True},
        Router(score="sigmoid", bias=True, renormalise=True, epsilon=1e-20, scale=2.827),
    ),
}


@pytest.mark.parametrize("name", ROUTERS)
@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_route(name: str, top_k: int) -> None:
    """As sets of experts with their factors: the order of a token's experts has no meaning."""
    kind, keys, rule = ROUTERS[name]
    generator = torch.Generator().manual_seed(top_k)
    theirs = kind(SimpleNamespace(hidden_size=24, num_experts_per_tok=top_k, **keys))
    theirs.weight.data = torch.randn(8, 24, generator=generator)
    bias_E = torch.randn(8, generator=generator) * 0.3 if rule.bias else None
    if bias_E is not None:
        theirs.e_score_correction_bias.copy_(bias_E)
    with torch.no_grad():
        logits_TE, weights_TK, experts_TK = theirs(torch.randn(63, 24, generator=generator))
    found_TK, chosen_TK = reference("route", logits_TE=logits_TE, top_k=top_k, rule=rule, bias_E=bias_E)
    right_TE, found_TE = (torch.zeros(63, 8).scatter(1, e, w.float()) for e, w in ((experts_TK, weights_TK), (chosen_TK, found_TK)))
    assert torch.equal(chosen_TK.sort(-1).values, experts_TK.sort(-1).values)
    close(found_TE, right_TE, 1e-6)


def test_ties_go_to_the_lower_index() -> None:
    """A rule of ours; torch.topk promises none."""
    rule = Router(score="softmax")
    assert reference("route", logits_TE=torch.zeros(2, 300), top_k=3, rule=rule)[1].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_experts() -> None:
    for made in cases("experts"):
        if made["gate_EFD"] is None or not made["activation"].plain or made.get("identity_from") is not None or made["scale_input"]:
            continue
        (E, F_, D) = made["gate_EFD"].shape
        config = SimpleNamespace(
            num_experts=E, num_local_experts=E, hidden_size=D, moe_intermediate_size=F_, hidden_act="silu", _experts_implementation="eager"
        )
        theirs = Qwen3MoeExperts(config).double()
        theirs.gate_up_proj.data = torch.cat((made["gate_EFD"], made["up_EFD"]), dim=1)
        theirs.down_proj.data = made["down_EDF"]
        with torch.no_grad():
            right = theirs(made["x_TD"], made["experts_TK"], made["weights_TK"].double())
        close(reference("experts", **made), right)


def test_pages_are_read_in_the_order_of_the_table() -> None:
    """What the references above read by `Segment.entries`, entry by entry."""
    for made in cases("latent_attention"):
        for b in range(len(made["segment"].queries)):
            assert torch.equal(made["segment"].entries(made["pages"], b, PAGED), gathered(made["pages"], made["segment"], b))
