"""What went wrong in public when memory was planned, each as the smallest model that shows it."""

from functools import cache
from typing import Any

import pytest

from day0.engine import transient
from day0.engine.demand import Demand
from day0.engine.offload import offload
from day0.spec.errors import Day0Error
from day0.spec.machine import Card, Machine
from day0.spec.ops import Site
from day0.spec.placement import Placement
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.workload import Workload
from day0.stages.plan_memory import degrees, report
from tests.plan import truth

GIB = 1 << 30
GROUPED = {
    "model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 4,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "vocab_size": 1024, "max_position_embeddings": 1 << 20, "torch_dtype": "bfloat16",
}  # fmt: skip
DENSE = {
    "model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 4, "num_attention_heads": 40,
    "num_key_value_heads": 40, "vocab_size": 1024, "max_position_embeddings": 1 << 20, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-6,
}  # fmt: skip
BITS4 = {"num_bits": 4, "group_size": 128, "symmetric": True, "strategy": "group", "type": "int"}
INT4 = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head", "re:.*mlp.gate$"],
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": BITS4}},
}  # fmt: skip


@cache
def machine(gib: float, cards: int, host: float | None = None) -> Machine:
    memory = None if host is None else int(host * GIB)
    return Machine(name="test", backend="cuda", card=Card(name="test", memory=int(gib * GIB), arch="sm_90"), cards=cards, host_memory=memory)


def demand(config: dict[str, Any], gib: float = 1000, cards: int = 1, host: float | None = None, **ask: Any) -> Demand:
    from day0.engine.search import plan
    from day0.stages.plan_memory import complete

    release, workload = truth.opened(config), Workload(**ask)
    return plan(Demand(release, complete(workload, release), machine(gib, cards, host)), degrees(workload))


def planned(config: dict[str, Any], gib: float = 1000, cards: int = 1, host: float | None = None, **ask: Any) -> PlanMemoryReport:
    workload = Workload(**ask)
    return report(demand(config, gib, cards, host, **ask), workload, degrees(workload))


def said(found: PlanMemoryReport, code: str) -> str:
    return " ".join(f"{row.subject} {row.expected} {row.found} {row.hint}" for row in found.reasons if row.code == code)


def test_a_group_of_four_bit_codes_is_not_cut() -> None:
    """vllm 17604, lmdeploy 666 and 896: inputs over ranks that are no whole groups failed while loading, or on the first request."""
    found = planned({**DENSE, "intermediate_size": 13696, "quantization_config": INT4}, cards=2, tp=2)
    assert found.verdict == "refused"
    assert "13696 over 2 ranks is 6848" in said(found, "D0406")
    experts = planned({**GROUPED, "quantization_config": INT4}, cards=8, tp=8, ep=1)
    assert experts.verdict == "refused"
    assert "1536 over 8 ranks is 192" in said(experts, "D0406")
    assert planned({**GROUPED, "quantization_config": INT4}, cards=8, tp=4, dp=1, ep=4).verdict == "fits"


def test_key_heads_that_are_fewer_than_ranks_are_copied() -> None:
    """exo 1669, torchtitan 2574: two key heads on four cards are two copies, and a card's state does not shrink below one head."""
    found = planned({**GROUPED, "num_key_value_heads": 2}, cards=4, tp=4, context=1024, batch=1)
    assert {pool.copies for pool in found.state.pools} == {2}
    assert found.per_card[0].state == 1024 * 4 * 2 * 128 * 2, "one head of keys and one of values in four layers"
    assert found.state.bytes_per_token == 2 * found.state.card_bytes_per_token
    uneven = planned({**GROUPED, "num_key_value_heads": 6, "num_attention_heads": 36}, cards=4, tp=4)
    assert "tp one of 1, 2, 3, 6, or a multiple of 6" in said(uneven, "D0405")


def test_a_norm_over_all_key_heads_follows_them() -> None:
    """sglang 20967, vllm 38191: the norm of eight key heads on sixteen ranks is that of one head."""
    model = truth.demand("minimax-m2", machine="b300_sxmx16", tp=16, ep=16)
    norm = next(each for name, each in model.inventory.kinds[0].items() if name == "mixer.k_norm")
    assert model.cut.shape(norm.spec, None, 1) == (128,)


@pytest.mark.parametrize(
    ("ask", "codes"),
    [({"tp": 3, "ep": 3}, {"D0405", "D0407"}), ({"tp": 5, "ep": 5}, {"D0405", "D0407"}), ({"tp": 8, "ep": 3}, {"D0407"})],
)
def test_all_that_does_not_divide_is_said_at_once(ask: dict[str, int], codes: set[str]) -> None:
    """vllm 52435: first the experts failed, then, patched, the heads."""
    found = planned({**GROUPED, "num_attention_heads": 64, "num_experts": 256}, cards=8, **ask)
    assert found.verdict == "refused"
    assert codes <= {row.code for row in found.reasons}


def test_what_would_divide_is_named() -> None:
    found = planned({**GROUPED, "num_attention_heads": 64, "num_experts": 256}, cards=3, tp=3, ep=3)
    hint = said(found, "D0407")
    assert "258 over 3" in hint and "pp 3" in hint and "2 redundant experts" in hint and "tp 2" in hint
    works = planned({**GROUPED, "num_attention_heads": 64, "num_experts": 256}, cards=3, tp=1, dp=3, ep=3, redundant=2)
    assert (works.verdict, works.redundant_experts) == ("fits", 2)


def test_28_heads_on_8_cards() -> None:
    found = planned({**DENSE, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584}, cards=8, tp=8)
    assert "tp one of 1, 2, 4, 7, 14, 28" in said(found, "D0405")


def test_the_latent_is_charged_as_it_is_and_the_formula_is_printed() -> None:
    """TensorRT-LLM 16707: charged as full heads, 25 times too much."""
    found = truth.reported("deepseek-v3", "b300_sxmx8", context=4096)
    assert found.state.bytes_per_token == 70272
    assert found.state.pools[0].formula == "61 layers × 1152 bytes on a card (its part of 576 elements) a token"


def test_the_latent_lies_on_every_rank_and_copies_of_attention_take_their_own_sequences() -> None:
    """kaito 2139, unified-cache-management 1217."""
    ranks = truth.reported("deepseek-v3", "b300_sxmx8", tp=8, context=4096, batch=8)
    copies = truth.reported("deepseek-v3", "b300_sxmx8", tp=1, dp=8, context=4096, batch=8)
    assert ranks.state.card_bytes_per_token == copies.state.card_bytes_per_token == 70272
    assert (ranks.state.pools[0].copies, copies.state.pools[0].copies) == (8, 1)
    assert ranks.per_card[0].state == 8 * copies.per_card[0].state == 8 * 4096 * 70272


def test_only_attending_layers_of_a_hybrid_keep_tokens() -> None:
    """gguf-parser-go 28, continuum 4156: 64 layers, every fourth attends."""
    config = {"num_hidden_layers": 64, "full_attention_interval": 4, "num_key_value_heads": 4, "head_dim": 256}
    stated = {"layer_types": ["full_attention" if layer % 4 == 3 else "linear_attention" for layer in range(64)]}
    base = truth.models()["qwen3.5-35b"]
    inner = {key: value for key, value in base["text_config"].items() if key not in ("layer_types", "full_attention_interval")}
    for words in (config, {**config, **stated}):
        found = planned({**base, "text_config": {**inner, **words}})
        assert found.state.bytes_per_token == 65536
        assert found.state.bytes_per_sequence > 0
        assert {pool.kind for pool in found.state.pools} == {"paged", "recurrent", "conv"}


def test_pooled_entries_are_not_charged_as_tokens() -> None:
    """omlx 2626: 84 KB a token were charged where a window and compressed entries are kept."""
    found = truth.reported("deepseek-v4-flash", "b300_sxmx8")
    assert found.state.bytes_per_token < 16_000
    with pytest.raises(Day0Error, match="no family reads model_type"):
        truth.opened({**truth.models()["deepseek-v4-flash"], "model_type": "pooled_anew", "kv_lora_rank": None})


def test_the_type_of_the_state_counts_in_every_answer() -> None:
    """vllm 25350: tokens doubled in one message and not in the next; a cache that stops growing has no slope."""
    windows = {**truth.models()["gpt-oss-120b"], "max_position_embeddings": 1 << 20}
    ask = {"gib": 100, "engine": "vllm", "batch": 1}
    wide, narrow = (planned(windows, **ask, kv_dtype=kind) for kind in ("bf16", "fp8"))
    assert narrow.state.bytes_per_token * 2 == wide.state.bytes_per_token
    assert narrow.capacity.max_context > 1.9 * wide.capacity.max_context
    assert (narrow.per_card[0].weights, narrow.per_card[0].activations) == (wide.per_card[0].weights, wide.per_card[0].activations)
    short, long = (demand(windows, **ask, context=tokens).card().state for tokens in (4096, 131072))
    assert long < 32 * short, "half of the layers keep a window only"


def test_a_scheme_of_state_that_nothing_has_is_refused_by_name() -> None:
    """vllm 45312."""
    scheme = {**INT4, "kv_cache_scheme": {"num_bits": 4, "type": "int"}}
    found = planned({**DENSE, "quantization_config": scheme})
    assert found.verdict != "fits"
    assert "num_bits 4" in said(found, "D0410")
    assert planned({**DENSE, "quantization_config": scheme}, kv_dtype="bf16").verdict == "fits"


def test_the_peak_of_loading_is_a_line_of_its_own() -> None:
    """vllm 47851, sglang 31898: 1 GiB of packed experts takes 2 GiB more while it is laid out anew."""
    bank = {"num_experts": 256, "hidden_size": 4096, "moe_intermediate_size": 1024}  # gate and up: 2^31 codes
    config = {**GROUPED, **bank, "num_hidden_layers": 8, "quantization_config": INT4}
    ask = {"engine": "sglang", "context": 256, "batch": 1, "utilisation": 1.0}
    roomy = planned(config, gib=100, **ask)
    assert roomy.load is not None and roomy.load.transient == pytest.approx(2 * GIB, rel=0.04)
    assert roomy.load.peak == roomy.per_card[0].weights + roomy.load.transient
    tight = (roomy.per_card[0].weights + 1.8 * GIB + 0.5 * GIB) / GIB
    assert "are given back" in said(planned(config, gib=tight, **ask), "D0409")


def test_memory_that_is_pinned_is_counted_in_powers_of_two() -> None:
    """vllm 58178: 405 GiB of experts in tensors of 4.5 and 2.25 GiB take 720 GiB of the host."""
    config = {**GROUPED, "num_experts": 256, "hidden_size": 3072, "moe_intermediate_size": 1536, "num_hidden_layers": 60}
    found = offload(demand(config, gib=24, context=256, batch=1), host=494 * GIB)
    (tier,) = found.tiers
    assert tier.bytes / GIB == pytest.approx(405, rel=0.05)
    assert tier.needed_p95 / GIB == pytest.approx(720, rel=0.05)
    assert "map them from the files" in found.reason


def test_experts_are_divided_by_the_ranks_that_hold_them() -> None:
    """inference-sim 1660: 512 experts on 32 cards were divided by 16."""
    config = {**GROUPED, "num_experts": 512, "num_attention_heads": 32}
    for ep in (32, 2):
        groups = {group.role: group for group in planned(config, cards=32, tp=16, dp=2, ep=ep).groups}
        assert groups["expert"].per_card * 32 == groups["expert"].bytes
        assert (groups["expert"].copies, groups["router"].copies) == (1, 32)
        assert groups["embed"].copies == 2


def test_a_shortage_is_signed_and_overhead_grows() -> None:
    """kaito 2139, llama.cpp 22319: a negative rest was printed as 1.7e13 MiB."""
    card = planned(DENSE, context=4096, batch=1).per_card[0]
    short = planned(DENSE, gib=(card.needed - GIB) / GIB, context=4096, batch=1)
    assert short.per_card[0].free == pytest.approx(-GIB, abs=1 << 20)
    assert planned({**DENSE, "num_hidden_layers": 8}, context=4096, batch=1).per_card[0].margin > card.margin


def test_a_tower_is_whole_on_its_card_and_images_are_stated() -> None:
    """vllm 20123, Kimi-VL 57: towers are not cut, and the largest image decides what encoding takes."""
    from tests.zoo import checkpoint

    release = truth.Release.open(checkpoint("kimi_k25"))
    assert release.towers["vision"]
    ask = {"vision": True, "context": 256, "batch": 1, "engine": "vllm"}
    few, many = (truth.demand("", release, "b300", **ask, images=images, image_tokens=768) for images in (1, 12))
    tower = few.holdings.weights(0)["towers"]
    assert tower == sum(release.checkpoint.stored[name].bytes for name in release.towers["vision"])
    assert few.placed(Placement(tp=2)).holdings.weights(0)["towers"] == tower
    assert many.transients["image embeddings"] == 12 * few.transients["image embeddings"]
    assert "towers" not in truth.demand("", release, "b300", context=256, batch=1).holdings.weights(0)


def test_scores_of_every_head_are_not_held_and_the_chunk_that_fits_is_named() -> None:
    """transformers 48788: 4096 queries, 131,072 keys and 32 heads in float32 are 64 GiB; the sum over the heads alone is 2 GiB."""
    config = {**truth.models()["glm-5.2-fp8"], "index_n_heads": 32}
    ask = {"cards": 8, "tp": 8, "context": 131072, "batch": 1, "chunk": 4096}
    site = Site(op="index_scores", label="scores", phase="prefill", sizes={"H": 32})
    assert transient.scores(site, 131072, 4096) == 64 << 30
    step = sum(part.bytes for part in planned(config, gib=139.8, **ask).transients)
    assert 4 * 4096 * 131072 < step < 64 << 29
    short = planned(config, gib=96, **ask)
    chunk = int(said(short, "D0403").partition("--chunk ")[2].partition("`")[0])
    assert 0 < chunk < 4096
    assert planned(config, gib=96, **{**ask, "chunk": chunk}).state.bytes_per_token == 78 * 1152 + 21 * 256
    assert said(planned(config, gib=96, **{**ask, "chunk": chunk}), "D0403") == ""


def test_scales_have_a_line_and_figures_come_from_headers() -> None:
    """sglang 26701, runpod 839: four bits an element are not half a byte."""
    found = truth.reported("deepseek-v4-pro", "b300_sxmx8", tp=8)
    experts = next(group for group in found.groups if group.role == "expert")
    codes = 61 * 384 * 3 * 7168 * 3072 // 2
    assert experts.scales_stored == codes // 16 == experts.scales
    assert experts.stored == codes + codes // 16
