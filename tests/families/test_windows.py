"""Windows, chunks, sinks, clamps and temperatures against transformers' own functions, beyond every window."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
from transformers.masking_utils import chunked_causal_mask_function, sliding_window_causal_mask_function
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as attention_with_sinks
from transformers.models.step3p7.modeling_step3p7 import Step3p7Experts

from day0.blocks.gqa import factors
from day0.kernels.paged_attention_window_torch import launch
from day0.ops.gated_activation import gated_activation
from day0.ops.paged_attention import paged_attention, visible
from day0.parts.gqa import Temperature
from day0.spec.activation import Activation
from day0.spec.step import Segment

LENGTH, WINDOW, HEADS, KEYS, WIDTH = 150, 13, 6, 2, 12
EXACT = {"rtol": 0, "atol": 1e-9}


def theirs(kind: str) -> torch.Tensor:
    """Which key each query sees, [LENGTH, LENGTH]."""
    padding = torch.zeros(1, dtype=torch.int64)
    sees = sliding_window_causal_mask_function(WINDOW) if kind == "window" else chunked_causal_mask_function(WINDOW, padding)
    return torch.tensor([[bool(sees(0, 0, torch.tensor(q), torch.tensor(k))) for k in range(LENGTH)] for q in range(LENGTH)])


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def attended(kind: str, sinks: torch.Tensor) -> torch.Tensor:
    """transformers' gpt-oss attention, [LENGTH, HEADS, WIDTH]."""
    q, k, v = (drawn(LENGTH, n, WIDTH).transpose(0, 1)[None] for n in (HEADS, KEYS, KEYS))
    mask = torch.zeros(LENGTH, LENGTH, dtype=torch.float64).masked_fill(~theirs(kind), float("-inf"))
    module = SimpleNamespace(num_key_value_groups=HEADS // KEYS, sinks=sinks, training=False)
    return attention_with_sinks(module, q, k, v, mask, scaling=0.3)[0][0]


def segment(before: int, count: int) -> Segment:
    positions = torch.arange(before, before + count)
    return Segment(
        phase="prefill" if count > 1 else "decode", tokens_T=positions, positions_T=positions, queries=(count,), lengths=(before + count,),
        entries_N={}, table_BP=torch.zeros(1, 1, dtype=torch.int64), runs=(None,), slots=(0,),
    )  # fmt: skip


def ring(values: torch.Tensor, end: int, size: int) -> torch.Tensor:
    """The last `size` of the first `end` entries, at their places in a ring; the rest is poisoned."""
    pool = torch.full((1, size, *values.shape[1:]), float("nan"), dtype=values.dtype)
    for position in range(max(0, end - size), end):
        pool[0, position % size] = values[position]
    return pool


@pytest.mark.parametrize("kind", ["window", "chunk"])
def test_what_a_query_sees(kind: str) -> None:
    positions = torch.arange(LENGTH)
    assert torch.equal(visible(positions, positions, WINDOW, kind == "chunk"), theirs(kind))


@pytest.mark.parametrize("kind", ["window", "chunk"])
@pytest.mark.parametrize("function", [paged_attention, launch], ids=["reference", "kernel"])
@pytest.mark.parametrize("chunks", [
    pytest.param([LENGTH], id="whole"), pytest.param([40, 1, 1, 70, 38], id="mixed"),
    pytest.param([1] * LENGTH, id="single", marks=pytest.mark.slow),
])  # fmt: skip
def test_windows_with_sinks(function: Any, kind: str, chunks: list[int]) -> None:
    """From rings no larger than a step needs, however the prompt is cut."""
    sinks = drawn(HEADS)
    q, k, v = drawn(LENGTH, HEADS, WIDTH), drawn(LENGTH, KEYS, WIDTH), drawn(LENGTH, KEYS, WIDTH)
    size, found, start = WINDOW - 1 + max(chunks), [], 0
    for count in chunks:
        pools = (ring(values, start + count, size) for values in (k, v))
        found.append(function(q[start : start + count], *pools, segment(start, count), 0.3, sinks, WINDOW, kind == "chunk"))
        start += count
    torch.testing.assert_close(torch.cat(found), attended(kind, sinks), **EXACT)


@pytest.mark.parametrize("limit", [0.7, 7.0])
def test_clamps(limit: float) -> None:
    """gpt-oss clamps before its function, Step-3.7 after it."""
    gate, up = 5 * drawn(40, 24), 5 * drawn(40, 25)[:, :24]
    before = GptOssExperts._apply_gate(SimpleNamespace(limit=limit, alpha=1.702), torch.stack((gate, up), dim=-1).flatten(-2))
    act = SimpleNamespace(limit=limit, act_fn=torch.nn.functional.silu)
    after = Step3p7Experts._apply_gate(act, torch.cat((gate, up), dim=-1))
    ours = Activation(kind="silu", limit=limit, alpha=1.702, offset=1.0)
    torch.testing.assert_close(gated_activation(gate, up, ours), before, **EXACT)
    torch.testing.assert_close(gated_activation(gate, up, Activation(kind="silu", limit=limit, limit_after=True)), after, **EXACT)
    assert (before - after).abs().max() > 0.1


def test_temperature_is_one_until_the_first_step() -> None:
    """1 + scale · log(1 + ⌊(p + 1) / floor⌋): positions 0 … floor - 2 are left alone (arXiv 2501.19399)."""
    found = factors(Temperature(floor=16, scale=0.3), segment(0, 40)).flatten()
    assert torch.equal(found[:15], torch.ones(15))
    torch.testing.assert_close(found[[15, 30, 31]], 1 + 0.3 * torch.tensor([2.0, 2.0, 3.0]).log())
