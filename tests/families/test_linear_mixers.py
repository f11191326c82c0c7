"""Linear mixers against transformers' own functions, and their implementations against one another at lengths beyond every chunk."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.minimax import modeling_minimax as minimax
from transformers.models.nemotron_h import modeling_nemotron_h as nemotron
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from day0.parts.lightning import slopes
from day0.spec.registry import kernels, ops

TOKENS = 150  # more than two chunks of the chunked forms


def implementations(op: str) -> list[Callable[..., Any]]:
    """The operator's meaning, and what runs on a processor."""
    return [ops().get(op).reference, *(impl.fn for _, impl in kernels().items() if impl.op == op and impl.provider == "torch")]


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def split(function: Callable[..., tuple[Tensor, Tensor]], tokens: dict[str, Tensor], state: Tensor, sizes: list[int], **rest: Any) -> Tensor:
    """The same tokens in several calls that hand the state on, as one result."""
    outputs, start = [], 0
    name = next(STATES[token] for token in STATES if token in tokens)
    for size in sizes:
        part = {token: value[start : start + size] for token, value in tokens.items()}
        o, state = function(**part, **rest, **{name: state}, queries=(size,))
        outputs.append(o)
        start += size
    return torch.cat(outputs)


STATES = {"v_TNV": "state_BNQV", "v_THV": "state_BHQV", "x_THV": "state_BHQV"}
SIZES = ([TOKENS], [1, 70, 1, 78], [1] * 20 + [TOKENS - 20])


@pytest.mark.parametrize("run", implementations("delta_rule"))
@pytest.mark.parametrize("sizes", SIZES)
def test_delta_rule_with_decays_by_channel(run: Callable[..., Any], sizes: list[int]) -> None:
    H, Q, V = 3, 20, 12
    q, k, v = normal(TOKENS, H, Q), normal(TOKENS, H, Q, seed=1), normal(TOKENS, H, V, seed=2)
    decay, beta = -normal(TOKENS, H, Q, seed=3).exp(), normal(TOKENS, H, seed=4).sigmoid()
    right, _ = kimi.recurrent_kimi_delta_attention(
        *(x[None] for x in (q, k, v)), g=decay[None], beta=beta[None], initial_state=None, output_final_state=False,
        use_qk_l2norm_in_kernel=True,
    )  # fmt: skip
    tokens = {"q_THQ": q, "k_THQ": k, "v_TNV": v, "decay_TNC": decay, "beta_TN": beta}
    torch.testing.assert_close(split(run, tokens, torch.zeros(1, H, Q, V), sizes), right[0], atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("run", implementations("delta_rule"))
@pytest.mark.parametrize("sizes", SIZES)
def test_delta_rule_with_decays_by_head(run: Callable[..., Any], sizes: list[int]) -> None:
    H, N, Q, V = 2, 6, 20, 12
    q, k, v = normal(TOKENS, H, Q), normal(TOKENS, H, Q, seed=1), normal(TOKENS, N, V, seed=2)
    decay, beta = -normal(TOKENS, N, seed=3).exp(), normal(TOKENS, N, seed=4).sigmoid()
    right, _ = qwen.torch_recurrent_gated_delta_rule(
        *(x[None] for x in (q, k, v)), g=decay[None], beta=beta[None], use_qk_l2norm_in_kernel=True
    )
    tokens = {"q_THQ": q, "k_THQ": k, "v_TNV": v, "decay_TNC": decay[..., None], "beta_TN": beta}
    torch.testing.assert_close(split(run, tokens, torch.zeros(1, N, Q, V), sizes), right[0], atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("run", implementations("selective_scan"))
@pytest.mark.parametrize("sizes", SIZES)
def test_selective_scan(run: Callable[..., Any], sizes: list[int]) -> None:
    """Some steps are at their lower limit."""
    H, G, Q, V, least = 6, 2, 20, 12, 0.3
    x, step, b, c = normal(TOKENS, H, V), normal(TOKENS, H, seed=1), normal(TOKENS, G, Q, seed=2), normal(TOKENS, G, Q, seed=3)
    rate, bias, skip = normal(H, seed=4), normal(H, seed=5), normal(H, seed=6)
    right = nemotron.mamba2_chunk_scan(
        x[None], step[None], -rate.exp(), b[None], c[None], chunk_size=16, D=skip, dt_bias=bias, dt_softplus=True,
        dt_limit=(least, float("inf")),
    )  # fmt: skip
    assert (torch.nn.functional.softplus(step + bias) < least).any()
    tokens = {"x_THV": x, "step_TH": step, "b_TGQ": b, "c_TGQ": c}
    found = split(run, tokens, torch.zeros(1, H, Q, V), sizes, rate_log_H=rate, bias_H=bias, skip_H=skip, least=least)
    torch.testing.assert_close(found, right[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("run", implementations("lightning_attention"))
@pytest.mark.parametrize("sizes", SIZES)
def test_lightning_attention(run: Callable[..., Any], sizes: list[int]) -> None:
    """The layer as a whole, its maps being identities and its gate one half: of its parts none is a function."""
    config = minimax.MiniMaxConfig(
        hidden_size=24, num_attention_heads=2, head_dim=12, num_hidden_layers=5, block_size=16, layer_types=["linear_attention"] * 5
    )
    torch.manual_seed(0)
    layer = minimax.MiniMaxLightningAttention(config, layer_idx=3).eval()
    layer.act_fn, layer.norm, layer.out_proj = torch.nn.Identity(), torch.nn.Identity(), torch.nn.Identity()
    x = normal(TOKENS, 24, scale=0.5)
    with torch.no_grad():
        layer.output_gate.weight.zero_()
        right, _ = layer(x[None], None, None)
        q, k, v = layer.qkv_proj(x).view(TOKENS, 2, 36).chunk(3, dim=-1)
    tokens = {"q_THQ": q, "k_THQ": k, "v_THV": v}
    found = split(run, tokens, torch.zeros(1, 2, 12, 12), sizes, slopes=slopes(2, 3, 5))
    torch.testing.assert_close(found.flatten(1), 2 * right[0], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("run", implementations("short_convolution"))
@pytest.mark.parametrize("sizes", SIZES)
def test_short_convolution(run: Callable[..., Any], sizes: list[int]) -> None:
    x, weight, bias = normal(TOKENS, 20), normal(20, 4, seed=1), normal(20, seed=2)
    right = nemotron.causal_conv1d_fn(x.T[None], weight, bias, activation="silu")[0].T
    outputs, carried, start = [], torch.zeros(1, 3, 20), 0
    for size in sizes:
        y, carried = run(x[start : start + size], weight, carried, (size,), bias)
        outputs.append(y)
        start += size
    torch.testing.assert_close(torch.cat(outputs), right)
    assert torch.equal(carried[0], x[-3:])


def test_log_decay() -> None:
    """With a floor the decay stays above it, whatever the rate; without, it is the released formula."""
    reference = ops().get("log_decay").reference
    x, rate, bias = normal(9, 3, 5, scale=30), normal(3, seed=1), normal(3, 5, seed=2)
    found = reference(x, rate, bias, -5.0)
    assert found.min() >= -5 and found.max() <= 0
    pushed = x + bias
    right = -rate.double().exp()[:, None] * (1 + pushed.double().exp()).log()
    torch.testing.assert_close(reference(x, rate, bias).double(), right, atol=1e-5, rtol=1e-5)
