"""Residual streams, choices of blocks and n-grams against the modules of transformers that they stand for."""

from types import SimpleNamespace

import pytest
import torch

from day0.ops.choose_blocks import choose_blocks
from day0.ops.hyper_collapse import hyper_collapse
from day0.ops.hyper_expand import hyper_expand, sinkhorn
from day0.ops.hyper_inject import hyper_inject
from day0.ops.hyper_mix import hyper_mix
from day0.ops.ngram_embedding import ngram_embedding
from day0.spec.step import Segment

transformers = pytest.importorskip("transformers")
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as deepseek  # noqa: E402
from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as minimax  # noqa: E402
from transformers.models.qwen4_exp import modeling_qwen4_exp as qwen  # noqa: E402


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


def drawn(module: torch.nn.Module) -> torch.nn.Module:
    """The module with normal weights of unit fan-in."""
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=weight.shape[-1] ** -0.5 if weight.dim() > 1 else 0.5)
    return module.eval()


@pytest.mark.parametrize(("streams", "width", "iterations"), [(2, 20, 1), (4, 28, 20), (3, 12, 7)])
def test_hyper_connections(streams: int, width: int, iterations: int) -> None:
    config = SimpleNamespace(hc_mult=streams, hidden_size=width, hc_sinkhorn_iters=iterations, hc_eps=1e-3, rms_norm_eps=1e-5)
    module = drawn(deepseek.DeepseekV4HyperConnection(config))
    x_TMD, y_TD = torch.randn(9, streams, width) * 3, torch.randn(9, width)
    post, comb, collapsed = module(x_TMD[None])
    expanded = post[..., None] * y_TD[None, :, None] + comb.transpose(-1, -2) @ x_TMD[None]
    rows, M = (module.fn, module.base, module.scale), streams
    ours = hyper_collapse(x_TMD, rows[0][:M], rows[1][:M], rows[2][:1], 1e-3, 1e-5)
    torch.testing.assert_close(ours, collapsed[0], rtol=1e-5, atol=1e-5)
    ours = hyper_expand(x_TMD, y_TD, rows[0][M:], rows[1][M:], rows[2][1:], iterations, 1e-3, 1e-5)
    torch.testing.assert_close(ours, expanded[0], rtol=1e-5, atol=1e-5)
    head = drawn(deepseek.DeepseekV4HyperHead(config))
    ours = hyper_collapse(x_TMD, head.hc_fn, head.hc_base, head.hc_scale, 1e-3, 1e-5)
    torch.testing.assert_close(ours, head(x_TMD[None])[0], rtol=1e-5, atol=1e-5)


def test_sinkhorn_ends_doubly_stochastic() -> None:
    comb = sinkhorn(torch.randn(50, 4, 4).double() * 3, 200, 0.0)
    assert (comb.sum(1) - 1).abs().max() < 1e-9 and (comb.sum(2) - 1).abs().max() < 1e-3


def test_gated_residual() -> None:
    config = SimpleNamespace(hc_count=3, hidden_size=20, hc_lowrank=7, rms_norm_eps=1e-5)
    module = drawn(qwen.Qwen4ExpTextGatedResidual(config))
    x_TMD, y_TD = torch.randn(9, 3, 20) * 3, torch.randn(9, 20)
    mixed, kept, factors = module(x_TMD.flatten(1)[None])
    norm = module.hc_norm.weight
    ours = hyper_mix(x_TMD, norm, module.input_mix_weight_down.weight, module.input_mix_weight_up.weight, 1e-5)
    torch.testing.assert_close(ours, mixed[0], rtol=1e-5, atol=1e-5)
    ours = hyper_inject(x_TMD, y_TD, norm, module.block_inject_weight.weight, 1e-5)
    expected = kept[0].view_as(x_TMD) + y_TD[:, None] * factors[0][..., None]
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunks", [[40], [1] * 40, [3, 30, 1, 6]], ids=["whole", "single", "chunks"])
def test_ngrams_stop_at_the_end_of_a_text(chunks: list[int]) -> None:
    """Of two sequences side by side, in steps of any size, with the token that ends a text in both."""
    config = SimpleNamespace(
        ngram_size=4, heads_per_ngram=2, vocab_size=50, ngram_vocab_size_base=30, seed=5, eos_token_id=3, make_ngram_vocab_size_divisible_by=8
    )  # fmt: skip
    module = drawn(qwen.Qwen4ExpTextNGramEmbedding(config, 24, 0))
    ids = torch.randint(0, 8, (2, 40))
    expected = module(ids, None)
    hashes = (module.layer_multipliers, module.ngram_heads_vocab_sizes, module.ngram_heads_offsets)
    context, found, start = torch.zeros(2, 3, dtype=torch.int64), [], 0
    for count in chunks:
        new = ids[:, start : start + count].flatten()
        rows, context = ngram_embedding(new, context, module.ngram_embedding.weight[None], *hashes, 3, (count, count))
        found.append(rows.flatten(1).view(2, count, -1))
        start += count
    assert torch.equal(torch.cat(found, dim=1), expected)
    assert (ids == 3).sum() > 4, "no text ends"


@pytest.mark.parametrize("local", [1, 3])
@pytest.mark.parametrize("queries", [1, 7, 83])
def test_blocks(queries: int, local: int) -> None:
    """The last `queries` of 83 tokens; keys in scattered pages."""
    config = SimpleNamespace(
        index_head_dim=24, index_n_heads=3, index_block_size=5, index_topk_blocks=4, index_local_blocks=local, hidden_size=24, rms_norm_eps=1e-6
    )  # fmt: skip
    module, tokens = drawn(minimax.MiniMaxM3VLIndexer(config, 0)), 83
    hidden = torch.randn(1, tokens, 24)
    still = (torch.ones(1, tokens, 12), torch.zeros(1, tokens, 12))
    expected = module(hidden, still, None, torch.arange(tokens)[None])[0, :, -queries:].transpose(0, 1)
    q_THQ = module.q_norm(module.q_proj(hidden).view(tokens, 3, 24))[-queries:]
    keys_SQ = module.k_norm(module.k_proj(hidden))[0]
    order = torch.randperm(6)
    pages = torch.full((6, 16, 24), float("nan"))
    pages[order] = torch.nn.functional.pad(keys_SQ, (0, 0, 0, 13), value=float("nan")).view(6, 16, 24)
    segment = Segment(
        phase="prefill", tokens_T=torch.zeros(queries), positions_T=torch.arange(tokens)[-queries:], queries=(queries,), lengths=(tokens,),
        entries_N={}, table_BP=order[None], runs=(None,), slots=(0,),
    )  # fmt: skip
    found = choose_blocks(q_THQ, pages, segment, 5, 4, local)
    assert torch.equal(found.sort(-1).values, expected.sort(-1).values)
