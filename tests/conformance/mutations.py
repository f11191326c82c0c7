"""Faults in operators, parts and state, small ones that happened elsewhere and one in each, as a list."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch

from day0.engine.bind import Function
from day0.engine.state import LayerState, State
from day0.spec.activation import Activation
from day0.spec.model import PartSpec
from day0.spec.registry import ops
from day0.spec.rope import yarn_mscale

PREFILL, CHUNKS, DECODE = dict(), dict(chunk=20), dict(decode_from=20)


class Mutation(NamedTuple):
    checkpoint: str
    manner: dict[str, int]  # of feeding: what exercises it
    call: Mapping[str, Callable[[Function], Function]] = MappingProxyType({})  # operator → its function made wrong
    part: Mapping[str, Callable[[Any], PartSpec]] = MappingProxyType({})  # part → its record made wrong
    state: Callable[[pytest.MonkeyPatch], None] | None = None  # the state manager made wrong


def scaled(function: Function) -> Function:
    return lambda *args, **kwargs: function(*args, **kwargs) * 1.05


def scaled_first(function: Function) -> Function:
    """The first of several results."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return (result[0] * 1.05, *result[1:]) if isinstance(result, tuple) else result * 1.05

    return call


def given(**changes: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """The function with some of its positional arguments, "a0", "a1", …, changed."""
    places = {int(name[1:]): change for name, change in changes.items()}
    return lambda function: lambda *args: function(*(places.get(i, lambda x: x)(one) for i, one in enumerate(args)))


def exchanged(i: int, j: int) -> Callable[[Function], Function]:
    def change(function: Function) -> Function:
        def call(*args: Any) -> Any:
            order = list(args)
            order[i], order[j] = order[j], order[i]
            return function(*order)

        return call

    return change


def rule(**fields: Any) -> Callable[[Any], PartSpec]:
    return lambda f: replace(f, router=replace(f.router, **fields))


def rope(**fields: Any) -> Callable[[Any], PartSpec]:
    return lambda m: replace(m, rope=replace(m.rope, **fields))


def epsilon(eps: float) -> Callable[[Any], PartSpec]:
    return lambda p: replace(p, norm=replace(p.norm, eps=eps))


def one_less(m: Any) -> PartSpec:
    """Of the tokens or blocks that are chosen."""
    changed: PartSpec = replace(m, top_k=m.top_k - 1)
    return changed


def positions(late: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Positions after the first step are off by `late`; places in the pages are right."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = State.segment

        def segment(self: State, phase: Any, news: Any) -> Any:
            later = any(sequence.length for sequence, _ in news)
            found = right(self, phase, news)
            found.positions_T += late * later
            return found

        monkeypatch.setattr(State, "segment", segment)

    return patch


def rolled(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """The new entries of a step are written into each other's places."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = LayerState.append

        def append(self: LayerState, which: str, values_N: torch.Tensor, segment: Any) -> None:
            right(self, which, values_N.roll(1, 0) if which == name and len(values_N) > 1 else values_N, segment)

        monkeypatch.setattr(LayerState, "append", append)

    return patch


def no_causality(function: Function) -> Function:
    """The first of several tokens sees the second."""

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
        out = function(q, k, v, scale)
        if len(q) > 1:
            out = torch.cat((function(q[:2], k[: len(k) - len(q) + 2], v[: len(k) - len(q) + 2], scale)[1:], out[1:]))
        return out

    return call


def missing_mscale(m: Any) -> PartSpec:
    return replace(m, scale=m.scale / yarn_mscale(8, 0.7) ** 2)


MUTATIONS: dict[str, Mutation] = {
    "embedding: the next row": Mutation("llama", PREFILL, {"embedding": given(a1=lambda t: (t + 1) % 286)}),
    "linear: scaled": Mutation("llama", PREFILL, {"linear": scaled}),
    "linear: bias dropped": Mutation("llama_tied", PREFILL, {"linear": given(a2=lambda bias: None)}),
    "linear: bias of a group dropped": Mutation("qwen2", PREFILL, {"linear": given(a2=lambda bias: None)}),
    "rms_norm: scaled": Mutation("llama", PREFILL, {"rms_norm": scaled}),
    "rms_norm: epsilon of another release": Mutation("llama", PREFILL, {"rms_norm": given(a2=lambda eps: eps / 10)}),
    "rotary: layout": Mutation("llama", PREFILL, {"rotary": given(a2=lambda interleaved: not interleaved)}),
    "rotary: layout of a latent's key": Mutation("deepseek_v3", PREFILL, {"rotary": given(a2=lambda interleaved: not interleaved)}),
    "rotary: scaled": Mutation("mixtral", PREFILL, {"rotary": scaled}),
    "paged_attention: scale": Mutation("llama", PREFILL, {"paged_attention": given(a4=lambda scale: scale * 1.05)}),
    "paged_attention: scale, one token at a time": Mutation("llama", DECODE, {"paged_attention": given(a4=lambda scale: scale * 1.05)}),
    "paged_attention: keys as values": Mutation("qwen2", DECODE, {"paged_attention": exchanged(1, 2)}),
    "attention: scale": Mutation("deepseek_v3", PREFILL, {"attention": given(a3=lambda scale: scale * 1.05)}),
    "attention: a later token is seen": Mutation("deepseek_v3", CHUNKS, {"attention": no_causality}),
    "latent_attention: scale": Mutation("deepseek_v3", DECODE, {"latent_attention": given(a4=lambda scale: scale * 1.05)}),
    "latent_attention: without the rotated key": Mutation("kimi_k2", DECODE, {"latent_attention": given(a1=torch.zeros_like)}),
    "absorb_query: scaled": Mutation("deepseek_v3", DECODE, {"absorb_query": scaled}),
    "expand_value: scaled": Mutation("deepseek_v3-fp8", DECODE, {"expand_value": scaled}),
    "gated_activation: gate and up exchanged": Mutation("llama", PREFILL, {"gated_activation": exchanged(0, 1)}),
    "gated_activation: another function": Mutation("llama", PREFILL, {"gated_activation": given(a2=lambda a: Activation(kind="gelu"))}),
    "experts: gate and up exchanged": Mutation("mixtral", PREFILL, {"experts": exchanged(3, 4)}),
    "experts: the next expert": Mutation("olmoe", DECODE, {"experts": given(a2=lambda experts_TK: (experts_TK + 1) % 7)}),
    "experts: scaled": Mutation("qwen3_moe-fp8", PREFILL, {"experts": scaled}),
    "experts: factors in another order": Mutation("qwen3_moe", PREFILL, {"experts": given(a1=lambda w: w.flip(-1))}),
    "route: correction bias in the factor": Mutation("deepseek_v3", PREFILL, {"route": lambda function: biased_weights}),
    "gqa: missing query norm": Mutation("qwen3", PREFILL, part={"gqa": lambda m: replace(m, qk_norm=None)}),
    "gqa: attention factor": Mutation("llama_yarn", PREFILL, part={"gqa": rope(attention_factor=1.0)}),
    "gqa: rope of another base": Mutation("llama", PREFILL, part={"gqa": rope(theta=1000.0 * 0.98)}),
    "gqa: rope not stretched": Mutation("llama", PREFILL, part={"gqa": rope(stretch="none")}),
    "gqa: ramp of yarn": Mutation("llama_yarn", PREFILL, part={"gqa": rope(truncate=False)}),
    "mla: missing mscale": Mutation("deepseek_v3", PREFILL, part={"mla": missing_mscale}),
    "mla: missing mscale, one token at a time": Mutation("deepseek_v3", DECODE, part={"mla": missing_mscale}),
    "mla: attention factor": Mutation("deepseek_v3", DECODE, part={"mla": rope(attention_factor=1.0)}),
    "mla: epsilon of the latents": Mutation("kimi_k2", PREFILL, part={"mla": lambda m: replace(m, norm=replace(m.norm, eps=1e-2))}),
    "dense_ffn: bias dropped": Mutation("llama_tied", PREFILL, part={"dense_ffn": lambda f: replace(f, bias=False)}),
    "moe_ffn: factors not normalised": Mutation("mixtral", PREFILL, part={"moe_ffn": rule(renormalise=False)}),
    "moe_ffn: factors normalised": Mutation("olmoe", PREFILL, part={"moe_ffn": rule(renormalise=True)}),
    "moe_ffn: correction bias dropped": Mutation("deepseek_v3", PREFILL, part={"moe_ffn": rule(bias=False)}),
    "moe_ffn: groups ignored": Mutation("deepseek_v3", PREFILL, part={"moe_ffn": rule(groups=1)}),
    "moe_ffn: factor of the routed experts": Mutation("deepseek_v3", PREFILL, part={"moe_ffn": rule(scale=2.4)}),
    "moe_ffn: one expert less": Mutation("kimi_k2", DECODE, part={"moe_ffn": lambda f: replace(f, top_k=f.top_k - 1)}),
    "moe_ffn: shared experts dropped": Mutation("deepseek_v3_noq", PREFILL, part={"moe_ffn": lambda f: replace(f, shared_width=0)}),
    "pre_norm: epsilon": Mutation("qwen3", PREFILL, part={"pre_norm": epsilon(1e-4)}),
    "sandwich_norm: epsilon": Mutation("afmoe", PREFILL, part={"sandwich_norm": epsilon(1e-2)}),
    "norm_residual: factors exchanged": Mutation(
        "minimax_text_01", PREFILL, part={"norm_residual": lambda p: replace(p, mixer=p.mixer[::-1])}),
    "shortcut: experts never land": Mutation("longcat_flash", PREFILL, part={"shortcut": lambda p: replace(p, lands=False)}),
    "hyper_connection: one round of Sinkhorn": Mutation(
        "deepseek_v4", PREFILL, part={"hyper_connection": lambda p: replace(p, iterations=1)}),
    "gated_residual: epsilon": Mutation("qwen4_exp", PREFILL, part={"gated_residual": lambda p: replace(p, eps=1e-2)}),
    "attention_residuals: epsilon": Mutation("kimi_k3", PREFILL, part={"attention_residuals": epsilon(1e-2)}),
    "ngram_embedding: epsilon": Mutation("qwen4_exp", PREFILL, part={"ngram_embedding": lambda p: replace(p, eps=1e-2)}),
    "gqa: window one token short": Mutation("gpt_oss", PREFILL, part={"gqa": lambda m: replace(m, window=m.window and m.window - 1)}),
    "gqa: window one token short, one token at a time": Mutation(
        "mimo_v2_flash", DECODE, part={"gqa": lambda m: replace(m, window=m.window and m.window - 1)}),
    "gated_attention: scale": Mutation("qwen3_next", PREFILL, part={"gated_attention": lambda m: replace(m, scale=m.scale * 1.05)}),
    "gated_attention: rope layout": Mutation("qwen3_next", DECODE, part={"gated_attention": rope(interleaved=True)}),
    "dsa: one token less": Mutation("deepseek_v32", DECODE, part={"dsa": one_less}),
    "dsa: rope layout of the indexer": Mutation("deepseek_v32", PREFILL, part={
        "dsa": lambda m: replace(m, indexer=replace(m.indexer, interleaved=not m.indexer.interleaved))}),
    "qsa: one block less": Mutation("qwen4_exp", PREFILL, part={"qsa": one_less}),
    "block_sparse: one block less": Mutation("minimax_m3", PREFILL, part={"block_sparse": one_less}),
    "compressed_attention: scale": Mutation(
        "deepseek_v4", DECODE, part={"compressed_attention": lambda m: replace(m, scale=m.scale * 1.05)}),
    "compressed_attention: window one token short": Mutation(
        "deepseek_v4", PREFILL, part={"compressed_attention": lambda m: replace(m, window=m.window - 1)}),
    "compressed_attention: rope layout": Mutation("deepseek_v4", PREFILL, part={"compressed_attention": rope(interleaved=False)}),
    "kda: epsilon": Mutation("kimi_linear", PREFILL, part={"kda": epsilon(1e-2)}),
    "gdn: another gate": Mutation("qwen3_next", CHUNKS, part={"gdn": lambda m: replace(m, gate="sigmoid")}),
    "lightning: decay scaled": Mutation(
        "minimax_text_01", DECODE, part={"lightning": lambda m: replace(m, slopes=tuple(slope * 1.05 for slope in m.slopes))}),
    "mamba2: epsilon": Mutation("nemotron_h", CHUNKS, part={"mamba2": epsilon(1e-2)}),
    "delta_rule: scaled": Mutation("kimi_linear", DECODE, {"delta_rule": scaled_first}),
    "short_convolution: scaled": Mutation("nemotron_h", CHUNKS, {"short_convolution": scaled_first}),
    "state: positions after a chunk": Mutation("llama", CHUNKS, state=positions(1)),
    "state: positions of new tokens": Mutation("deepseek_v3", DECODE, state=positions(-1)),
    "state: keys in each other's place": Mutation("llama", CHUNKS, state=rolled("k")),
    "state: latents in each other's place": Mutation("deepseek_v3", CHUNKS, state=rolled("latent")),
}


def biased_weights(logits_TE: torch.Tensor, top_k: int, rule: Any, bias_E: torch.Tensor | None = None, *rest: Any) -> Any:
    """Factors from the scores that the correction was added to."""
    _, experts_TK = ops().get("route").reference(logits_TE, top_k, rule, bias_E, *rest)
    scores_TE = logits_TE.sigmoid() + (0 if bias_E is None else bias_E)
    chosen_TK = scores_TE.gather(-1, experts_TK)
    return chosen_TK / chosen_TK.sum(-1, keepdim=True) * rule.scale, experts_TK
