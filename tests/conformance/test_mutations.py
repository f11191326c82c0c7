"""Faults in operators, parts and state, small ones that happened elsewhere and one in each: the comparison of logits sees them all."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch

from day0.engine.bind import Function, Place
from day0.engine.model import Forward
from day0.engine.score import score
from day0.engine.state import LayerState, State
from day0.spec.activation import Activation
from day0.spec.model import Layer, PartSpec
from day0.spec.registry import blocks, ops
from day0.spec.rope import yarn_mscale
from tests.engine.opened import assembled, described, expected, load, planned
from tests.engine.test_logits import TOLERANCE
from tests.zoo import checkpoint, names

FLOOR = 1e-4  # what is promised: ten times what the other tests allow
PREFILL, CHUNKS, DECODE = dict(), dict(chunk=20), dict(decode_from=20)


class Mutation(NamedTuple):
    checkpoint: str
    manner: dict[str, int]  # of feeding: what exercises it
    call: Mapping[str, Callable[[Function], Function]] = MappingProxyType({})  # operator → its function made wrong
    part: Mapping[str, Callable[[Any], PartSpec]] = MappingProxyType({})  # part → its record made wrong
    state: Callable[[pytest.MonkeyPatch], None] | None = None  # the state manager made wrong


def scaled(function: Function) -> Function:
    return lambda *args, **kwargs: function(*args, **kwargs) * 1.05


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
    "pre_norm: epsilon": Mutation("qwen3", PREFILL, part={"pre_norm": lambda p: replace(p, norm=replace(p.norm, eps=1e-4))}),
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


def broken(folder: Path, mutation: Mutation) -> tuple[Forward, State]:
    """The model as the map says, with the mutation in every layer."""

    def wrap(place: Place, op: str, function: Function) -> Function:
        return mutation.call[op](function) if op in mutation.call else function

    def changed(layer: Layer) -> Layer:
        return replace(layer, **{place: mutation.part[part.kind](part) for place, part in layer.parts() if part.kind in mutation.part})

    return assembled(folder, wrap=wrap, change=lambda model: replace(model, layers=tuple(map(changed, model.layers))))


def deviation(mutation: Mutation, tokens: int = 60) -> float:
    """Of the logits of the first `tokens` of each prompt."""
    folder = checkpoint(mutation.checkpoint)
    right = expected(folder).first(tokens)
    return right.deviation(score(*broken(folder, mutation), right.prompts, **mutation.manner))


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    if mutation.state:
        mutation.state(monkeypatch)
    assert deviation(mutation) > FLOOR


@pytest.mark.parametrize("manner", [PREFILL, CHUNKS, DECODE], ids=["prefill", "chunks", "decode"])
def test_without_a_mutation_there_is_nothing_to_see(manner: dict[str, int]) -> None:
    for name in {mutation.checkpoint for mutation in MUTATIONS.values()}:
        assert deviation(Mutation(name, manner)) <= TOLERANCE


def disturbed(result: Any) -> Any:
    """Every other element of the last axis half as large again; the choice of another token where the result is a choice."""
    if isinstance(result, tuple):
        return tuple(map(disturbed, result))
    if not result.is_floating_point():
        return result.roll(1, 0)
    factors = torch.ones(result.shape[-1], dtype=result.dtype)
    factors[::2] = 1.5
    return result * factors


def disturbing(function: Function) -> Function:
    return lambda *args, **kwargs: disturbed(function(*args, **kwargs))


def first_call(op: str) -> tuple[str, dict[str, int]] | None:
    """The first checkpoint that calls an operator, and a manner of feeding in which it does."""
    for name in names():
        phases = {site.phase for site in planned(checkpoint(name), load())[1].sites if site.op == op}
        if phases:
            return name, CHUNKS if "prefill" in phases else DECODE
    return None


@pytest.mark.parametrize("op", ops().names())
def test_no_operator_can_be_disturbed_unseen(op: str) -> None:
    found = first_call(op)
    if found is None:
        pytest.skip("no checkpoint calls it")
    assert deviation(Mutation(*found, call={op: disturbing}), tokens=130) > FLOOR, "with fewer tokens a choice may be all there is"


@pytest.mark.parametrize("kind", blocks().names())
def test_no_block_can_be_disturbed_unseen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mixer or a network adds, what a residual gives to the next sublayer."""
    holders = [name for name in names() if kind in {part.kind for layer in described(name).layers for _, part in layer.parts()}]
    if not holders:
        pytest.skip("no checkpoint has it in a layer")
    block = blocks().get(kind)
    wrong = {name: disturbing(getattr(block, name)) for name in ("prefill", "decode", "run", "before") if hasattr(block, name)}
    monkeypatch.setitem(blocks()._loaded, kind, replace(block, **wrong))
    assert deviation(Mutation(holders[0], CHUNKS)) > FLOOR
