"""Logits and greedy continuations of every checkpoint, fed in every manner, against what transformers computed in float32."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from day0.blocks import mla
from day0.parts.mla import Mla
from day0.spec.request import Request
from tests.engine.opened import described, expected, families_first, logits, mixed, resident, run, start
from tests.zoo import cache, checkpoint, every, names

TOLERANCE, PROMISED = 1e-5, 1e-4  # of the range of the logits
SHARED = Path(__file__).parents[2].parent / "shared" / "zoo"
SHARED_NAMES = ("llama", "qwen3_moe", "mixtral", "olmoe", "deepseek_v3")
SHARED_OTHERS = (
    "axk1", "deepseek_v32", "deepseek_v4", "dots1", "ernie4_5_moe", "glm4_moe", "glm5_next", "glm_moe_dsa", "gpt_oss", "hy_v3",
    "kimi_k25", "kimi_linear", "llama4_text", "longcat_flash", "mimo_v2_flash", "minimax_m2", "minimax_m3_text", "minimax_text_01",
    "mistral4", "nemotron_h", "qwen3_5_moe_text", "qwen3_next", "qwen3_vl_moe", "qwen4_exp_text", "solar_open", "step3p7",
    *(f"{family}-{scheme}" for family in ("qwen3_moe", "deepseek_v3", "kimi_k25") for scheme in ("fp8", "mxfp4", "int4", "nvfp4")),
    "gpt_oss-mxfp4",
)  # fmt: skip


def shared(name: str) -> Path:
    """A checkpoint that another builder wrote, once per machine."""
    if not SHARED.is_dir():
        pytest.skip("the other builder of tiny checkpoints does not lie beside the project")

    def build(name: str, scratch: Path) -> Path:
        family, _, scheme = name.partition("-")
        command = [sys.executable, "build_zoo.py", str(scratch), family, *(["--quant", scheme] if scheme else [])]
        subprocess.run(command, cwd=SHARED, check=True, capture_output=True)
        return scratch / name

    return cache.once(f"other-{cache.fingerprint(SHARED)}", name, build)


def errors(folder: Path, **changes: object) -> dict[str, float]:
    """Manner of feeding → error. Prompts whole and alone; side by side in chunks and one by one; four of different lengths in mixed phases.

    With `changes` to how the engine is started, only the first and the last.
    """
    engine, right = start(folder, **changes) if changes else resident(folder), expected(folder)
    four = right.with_prefix(61)
    found = {"whole": right.deviation([logits(engine, [prompt])[0] for prompt in right.prompts])}
    if not changes:
        few, most = four.first(40), four.first(80)
        found |= {
            "chunks of 1": few.deviation(logits(engine, few.prompts, chunk=1)),
            "chunks of 7": four.deviation(logits(engine, four.prompts, chunk=7)),
            "chunks of 64": four.deviation(logits(engine, four.prompts, chunk=64)),
            "decode": most.deviation(logits(engine, most.prompts, decode_from=1)),
        }
    found["mixed"] = four.deviation(mixed(engine.forward, engine.state, four.prompts, borders=[2, 1, 90, 41], chunk=13))
    return found


def tolerance(name: str) -> float:
    """Where the reference computed in float64, rounding to float32 is in the error too."""
    return TOLERANCE if name in names() else PROMISED


def deviations(folder: Path, limit: float = TOLERANCE, **changes: object) -> dict[str, float]:
    """Those above the limit."""
    return {manner: error for manner, error in errors(folder, **changes).items() if not error <= limit}


@pytest.mark.parametrize("name", families_first(every()))
def test_resident(name: str) -> None:
    assert deviations(checkpoint(name), tolerance(name)) == {}


@pytest.mark.parametrize("name", [name for name in every() if "-" in name])
def test_variants_of_a_family(name: str) -> None:
    """Whole prompts, and mixed phases; other manners of feeding are the family's."""
    assert deviations(checkpoint(name), tolerance(name), weights="resident") == {}


@pytest.mark.parametrize("name", families_first(every()))
def test_streamed(name: str) -> None:
    """Read layer by layer, in pages of one token."""
    assert deviations(checkpoint(name), tolerance(name), weights="streamed", page_size=1) == {}


@pytest.mark.parametrize("name", families_first(every()))
def test_float64(name: str) -> None:
    assert deviations(checkpoint(name), tolerance(name), dtype="float64", page_size=64) == {}


def latent(name: str) -> Mla | None:
    """The first sublayer of a model that attends latents."""
    parts = (getattr(layer.mixer, "attention", layer.mixer) for layer in described(name).layers)
    return next((part for part in parts if isinstance(part, Mla)), None)


@pytest.mark.parametrize("name", families_first(name for name in every() if (part := latent(name)) and part.heads > 2))
def test_heads_are_expanded_a_few_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of wide models; here that of all others, whose maps are cut by rows that begin and end within blocks of scales."""
    monkeypatch.setattr(mla, "WIDTH", 80)
    part = latent(name)
    assert part and mla.at_once(part) < part.heads
    assert deviations(checkpoint(name), tolerance(name), weights="resident") == {}


@pytest.mark.parametrize("name", [*SHARED_NAMES, *(pytest.param(name, marks=pytest.mark.slow) for name in SHARED_OTHERS)])
def test_checkpoints_of_another_builder(name: str) -> None:
    folder = shared(name)
    assert deviations(folder) == {}
    assert deviations(folder, weights="streamed") == {}
    assert greedy_equal(folder)


@pytest.mark.parametrize("name", every())
def test_greedy(name: str) -> None:
    assert greedy_equal(checkpoint(name))


def greedy_equal(folder: Path) -> bool:
    """Whether continuations are those of transformers, of each prompt alone and of all in one batch."""
    engine, right = resident(folder), expected(folder)
    continued = [(prompt, tokens) for prompt, tokens in zip(right.prompts, right.greedy, strict=True) if tokens]
    requests = [Request(id=str(i), tokens=tuple(prompt), max_new=len(tokens)) for i, (prompt, tokens) in enumerate(continued)]
    alone = [run(engine, request)[request.id] for request in requests]
    together = run(engine, *requests)
    assert {answer.finish for answer in together.values()} == {"length"}
    return [answer.tokens for answer in alone] == [together[one.id].tokens for one in requests] == [tokens for _, tokens in continued]


def test_the_published_table_has_every_checkpoint_within_the_limits() -> None:
    """`python -m tests.accuracy docs/accuracy.md NAME` adds a line."""
    from tests.accuracy import published

    rows = published((Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8"))
    assert sorted(rows) == every()
    assert {name: row for name, row in rows.items() if max(row[0].values()) > tolerance(name) or not row[1]} == {}


def is_dense(name: str) -> bool:
    return all(layer.ffn is None or layer.ffn.kind == "dense_ffn" for layer in described(name).layers)


@pytest.mark.parametrize("name", [name for name in every() if is_dense(name)])
def test_bfloat16_errs_no_more_than_transformers(name: str) -> None:
    """Where no expert is chosen: a choice that flips is an error of its own kind, which `validate` judges."""
    folder = checkpoint(name)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager").eval()
    right, engine = expected(folder), start(folder, dtype="bfloat16")
    with torch.no_grad():
        theirs = [model(torch.tensor([prompt])).logits[0].float() for prompt in right.prompts]
    for manner in (dict(), dict(decode_from=1)):
        assert rms(logits(engine, right.prompts, **manner), right.logits) <= 1.2 * rms(theirs, right.logits)


def rms(found: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    """Root mean square error over all logits."""
    return torch.cat([(one - other).flatten() for one, other in zip(found, right, strict=True)]).square().mean().sqrt().item()
