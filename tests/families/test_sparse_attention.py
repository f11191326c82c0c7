"""The indexer's choice and attention to chosen tokens, against transformers' own modules and against dense attention under a mask."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from day0.blocks import dsa
from day0.checkpoint.config import Config
from day0.engine import footprint
from day0.engine.model import frequencies, turn
from day0.engine.state import State
from day0.families.glm_moe_dsa import index_kinds
from day0.ops.index_select import index_select
from day0.parts.dsa import Dsa, Indexer
from day0.parts.mla import Mla
from day0.parts.pre_norm import PreNorm
from day0.spec.model import Layer, Model, Norm
from day0.spec.registry import kernels, ops
from day0.spec.rope import Rope
from day0.spec.step import Segment

transformers = pytest.importorskip("transformers")
from transformers.models.deepseek_v32 import modeling_deepseek_v32 as deepseek  # noqa: E402
from transformers.models.glm_moe_dsa import modeling_glm_moe_dsa as glm  # noqa: E402

TOP_K, TOKENS = 9, 70
SIZES = dict(
    hidden_size=48, q_lora_rank=32, kv_lora_rank=28, qk_rope_head_dim=12, qk_nope_head_dim=16, v_head_dim=20, num_attention_heads=4,
    num_key_value_heads=4, index_n_heads=20, index_head_dim=30, index_topk=TOP_K, num_hidden_layers=2, max_position_embeddings=256,
)  # fmt: skip
NORM = Norm(eps=1e-6)


def model(*, interleaved: bool) -> Model:
    """One layer with the sizes above, around which nothing matters."""
    attention = Mla(
        heads=4, q_lora_rank=32, kv_lora_rank=28, qk_nope_head_dim=16, qk_rope_head_dim=12, v_head_dim=20, scale=28**-0.5,
        rope=Rope(dim=12, theta=10000.0, interleaved=True), norm=NORM,
    )  # fmt: skip
    indexer = Indexer(heads=20, head_dim=30, interleaved=interleaved, norm=Norm(eps=1e-6, kind="layer"))
    layer = Layer(index=0, mixer=Dsa(attention=attention, top_k=TOP_K, indexer=indexer), ffn=None, residual=PreNorm(norm=NORM))
    return Model(family="", hidden=48, vocab=9, layers=(layer,), norm=NORM, tied=True, context=256, dtype="float32", read_keys={})


def opened(m: Model, page: int) -> State:
    sizes = {"pages": -(-TOKENS // page), "page_size": page, "sequences": 1, "context": TOKENS}
    return State(m.layers, footprint.state(m, "float32", chunk=TOKENS, **sizes), device=torch.device("cpu"), **sizes)


def implementations(provider: str | None) -> Any:
    """Operators by name: their references, or what a provider offers for some of them."""
    found = {name: op.reference for name, op in ops().items()}
    offered = {impl.op: impl.fn for _, impl in kernels().items() if impl.provider == provider and impl.op.startswith(("index", "sparse"))}
    return SimpleNamespace(**found | offered)


@pytest.mark.parametrize("chunks", [[TOKENS], [23, 40, 1, 1, 5]], ids=["whole", "chunks"])
@pytest.mark.parametrize("provider", [None, "torch"])
@pytest.mark.parametrize(("module", "interleaved"), [(deepseek.DeepseekV32Indexer, False), (glm.GlmMoeDsaIndexer, True)])
def test_indexer_chooses_what_transformers_chooses(
    module: type[nn.Module], interleaved: bool, provider: str | None, chunks: list[int]
) -> None:
    torch.manual_seed(3)
    theirs = module(transformers.DeepseekV32Config(**SIZES), 0).requires_grad_(False)
    for parameter in theirs.parameters():
        parameter.copy_(torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 1.0))
    x_TD, query_TC = torch.randn(TOKENS, 48), torch.randn(TOKENS, 32)
    m, angles = model(interleaved=interleaved), torch.arange(TOKENS)[:, None] * 10000.0 ** -(torch.arange(6) / 6)
    later = torch.full((TOKENS, TOKENS), float("-inf")).triu(1)
    tables = tuple(torch.cat((f(angles), f(angles)), dim=-1)[None] for f in (torch.cos, torch.sin))
    expected = theirs(x_TD[None], query_TC[None], tables, later[None], None)[0]

    state = opened(m, page=4)
    sequence = state.admit(TOKENS)
    assert sequence is not None
    w = SimpleNamespace(indexer=SimpleNamespace(
        q=theirs.wq_b.weight, k=theirs.wk.weight, k_norm=theirs.k_norm.weight, k_norm_bias=theirs.k_norm.bias,
        weights=theirs.weights_proj.weight,
    ))  # fmt: skip
    start = 0
    for count in chunks:
        segment = state.segment("prefill", [(sequence, [0] * count)])
        segment.rotary = turn(segment.positions_T, frequencies(m, torch.device("cpu")))
        rows = slice(start, start + count)
        chosen = dsa.choose(x_TD[rows], query_TC[rows], m.layers[0].mixer, w, state.layer(0), segment, implementations(provider))
        for t in range(start, start + count):
            wanted = sorted(expected[t].tolist())[: t + 1] if t < TOP_K else sorted(expected[t].tolist())
            assert chosen is not None
            assert [position for position in chosen[t - start].tolist() if position >= 0] == [p for p in wanted if p <= t]
        start += count


def test_nothing_is_scored_while_every_token_is_read() -> None:
    m = model(interleaved=True)
    state = opened(m, page=16)
    sequence = state.admit(TOKENS)
    assert sequence is not None
    segment = state.segment("prefill", [(sequence, [0] * TOP_K)])
    segment.rotary = turn(segment.positions_T, frequencies(m, torch.device("cpu")))
    weights = {"q": (600, 32), "k": (30, 48), "k_norm": (30,), "k_norm_bias": (30,), "weights": (20, 48)}
    w = SimpleNamespace(indexer=SimpleNamespace(**{name: torch.randn(shape) for name, shape in weights.items()}))
    x_TD, query_TC = torch.randn(TOP_K, 48), torch.randn(TOP_K, 32)
    assert dsa.choose(x_TD, query_TC, m.layers[0].mixer, w, state.layer(0), segment, implementations(None)) is None
    assert state.layer(0).entries("index_keys", segment, 0).abs().sum(-1).gt(0).all()


@pytest.mark.parametrize("select", [index_select, kernels().get("index_select_torch").fn])
def test_ties_go_to_the_lower_position(select: Any) -> None:
    low = float("-inf")
    scores_TS = torch.tensor([[0.0, 2.0, 0.0, 0.0, 1.0], [1.0, low, low, low, low], [0.0, 0.0, 0.0, 0.0, low]])
    assert select(scores_TS, 3).tolist() == [[0, 1, 4], [0, -1, -1], [0, 1, 2]]
    assert select(scores_TS, 9).tolist() == [[0, 1, 2, 3, 4], [0, -1, -1, -1, -1], [0, 1, 2, 3, -1]]


@pytest.mark.parametrize("op", [ops().get("sparse_latent_attention").reference, kernels().get("sparse_latent_attention_torch").fn])
def test_chosen_tokens_are_attended_as_under_a_mask(op: Any) -> None:
    torch.manual_seed(0)
    q_THE, entries_SE = torch.randn(TOKENS, 4, 40), torch.randn(80, 40)
    nine = torch.arange(9)
    indices_TK = torch.stack([nine * (t // 9) if t > 8 else nine.where(nine <= t, -1) for t in range(TOKENS)])
    order = torch.randperm(20)
    pages = torch.empty(20, 4, 40)
    pages[order] = entries_SE.view(20, 4, 40)
    got_THC = op(q_THE[..., :28], q_THE[..., 28:], pages, whole(order), indices_TK, 0.2)
    mask_TS = torch.zeros(TOKENS, TOKENS + 1, dtype=torch.bool).scatter_(1, indices_TK.where(indices_TK >= 0, TOKENS), True)[:, :TOKENS]
    key = entries_SE[:TOKENS].expand(4, -1, -1)
    right = nn.functional.scaled_dot_product_attention(q_THE.transpose(0, 1), key, key[..., :28], attn_mask=mask_TS, scale=0.2)
    torch.testing.assert_close(got_THC, right.transpose(0, 1), rtol=0, atol=1e-5)


def whole(order: Tensor) -> Segment:
    """All tokens of one sequence, whose pages of four lie in this order."""
    return Segment(
        phase="prefill", tokens_T=torch.zeros(TOKENS, dtype=torch.int64), positions_T=torch.arange(TOKENS), queries=(TOKENS,),
        lengths=(TOKENS,), entries_N={}, table_BP=order[None], runs=(None,), slots=(0,),
    )  # fmt: skip


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"index_topk_freq": 4, "index_skip_topk_offset": 3},
        {"index_topk_freq": 4},
        {"index_topk_pattern": "FFSFSSFSFSFS"},
        {"index_topk_pattern": ["full", "shared"] * 6, "index_topk_freq": 3},
        {"indexer_types": ["full"] * 3 + ["shared"] * 9},
    ],
)
def test_layers_that_share_are_those_of_transformers(keys: dict[str, Any]) -> None:
    right = transformers.GlmMoeDsaConfig(num_hidden_layers=12, **keys).indexer_types
    assert index_kinds(Config({"num_hidden_layers": 12, **keys})) == right
