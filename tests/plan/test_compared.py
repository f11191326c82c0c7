"""Pictures of plans, plans under other workloads, and plans beside what engines printed."""

import csv
import io
import json
from pathlib import Path

import pytest

from day0.cli.app import main
from day0.render.bars import alike, bar, shares
from day0.render.compared import frontier
from day0.spec.errors import Day0Error
from day0.spec.reports.plan_memory import CardRow
from day0.stages.calibrate import calibrate
from day0.stages.what_if import parsed
from tests.plan import truth
from tests.zoo import checkpoint

GIB = 1 << 30
VLLM = """\
INFO 02-03 model_runner.py:1115] Loading model weights took 21.2100 GB
INFO 02-03 worker.py:266] model weights take 21.21GiB; non_torch_memory takes 0.20GiB; PyTorch activation peak memory takes 0.37GiB; \
the rest of the memory reserved for KV Cache is 1.57GiB.
INFO 02-03 GPU KV cache size: 23,968 tokens
INFO 02-03 Graph capturing finished in 14 secs, took 0.33 GiB
"""
SGLANG = """\
[TP0] Load weight end. type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail mem=58.30 GB, mem usage=79.40 GB.
[TP0] max_total_num_tokens=655360, chunked_prefill_size=8192, max_prefill_tokens=16384
[TP0] Capture cuda graph end. Time elapsed: 9.67 s. mem usage=2.03 GB. avail mem=9.50 GB.
"""


def card(**sizes: int) -> CardRow:
    return CardRow(**{"weights": 0, "state": 0, "activations": 0, "workspace": 0, "collectives": 0, "margin": 0, "free": 0} | sizes)


@pytest.mark.parametrize("columns", [8, 60, 133])
def test_a_bar_is_as_long_as_the_card_and_shows_what_is_small(columns: int) -> None:
    full = card(weights=70 * GIB, state=5 * GIB, activations=1, margin=2 * GIB, free=3 * GIB - 1)
    found = shares(full, 80 * GIB, columns)
    assert sum(count for _, count in found) == columns == len(bar(full, 80 * GIB, columns).plain)
    assert all(count >= 1 for name, count in found if name != "free") and ("activations", 1) in found


def test_a_card_that_is_short_is_full() -> None:
    short = card(weights=100 * GIB, margin=GIB, free=-21 * GIB)
    assert "free" not in dict(shares(short, 80 * GIB, 60))


def test_cards_that_hold_the_same_are_shown_once() -> None:
    one, other = card(weights=1), card(weights=2)
    assert [name for name, _ in alike([one, one, other, one])] == ["0-1", "2", "3"]


def test_the_frontier_is_csv() -> None:
    report = truth.reported("llama-3.1-8b", "h100_sxm")
    rows = list(csv.DictReader(io.StringIO(frontier(report))))
    assert [(int(row["context"]), int(row["batch"])) for row in rows] == [(point.context, point.batch) for point in report.frontier]
    assert rows and all(int(row["tokens"]) == int(row["context"]) * int(row["batch"]) for row in rows)


@pytest.mark.parametrize("text", ["context", "context=", "context=-1", "batch=1,batch=2", "cards=99999", "speed=3", ""])
def test_what_if_says_what_it_does_not_know(text: str) -> None:
    with pytest.raises(Day0Error):
        parsed(text)


def test_what_if_reads_changes() -> None:
    assert parsed("context=128k, batch=4,cards=16") == {"context": 131072, "batch": 4, "cards": 16}


def test_a_vllm_log_beside_the_plan(tmp_path: Path) -> None:
    """DeepSeek-R1 in AWQ on 16 cards: the first line of a pool counts, and the residual of weights is small."""
    (tmp_path / "log").write_text(VLLM)
    report = truth.reported("deepseek-r1-awq", "rtx4090x16", engine="vllm", tp=16, ep=1)
    found = {row.pool: row for row in calibrate(report, tmp_path / "log")}
    assert found.keys() == {"weights", "activations", "runtime", "room for state", "tokens", "graphs"}
    assert found["weights"].measured == round(21.21 * GIB) and found["weights"].line == 2
    assert found["tokens"].measured == 23968 and found["tokens"].unit == "tokens"
    assert found["runtime"].planned is None and found["runtime"].share is None
    share = found["weights"].share
    assert share is not None and abs(share) < 0.02


def test_a_sglang_log_means_gib_when_it_writes_gb(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(SGLANG)
    found = {row.pool: row for row in calibrate(truth.reported("deepseek-v3", "h200x8", engine="sglang", tp=8), tmp_path / "log")}
    assert {name: row.measured for name, row in found.items()} == {
        "weights": round(79.40 * GIB), "tokens": 655360, "graphs": round(2.03 * GIB),
    }  # fmt: skip
    assert found["weights"].share is not None and abs(found["weights"].share) < 0.02


def test_a_log_of_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\xff\x00 nothing here\n" * 10)
    with pytest.raises(Day0Error, match="no line"):
        calibrate(truth.reported("llama-3.1-8b", "h100_sxm"), tmp_path / "log")
    with pytest.raises(Day0Error, match="cannot be read"):
        calibrate(truth.reported("llama-3.1-8b", "h100_sxm"), tmp_path / "absent")


def test_the_command_compares_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--what-if`, `--log` and `--csv` beside the plan; a wrong change is exit code 2."""
    (tmp_path / "log").write_text(VLLM)
    reports = ["--reports", str(tmp_path / "reports")]
    assert main(["inspect", str(checkpoint("llama")), *reports]) == 0
    capsys.readouterr()
    files = ["--csv", str(tmp_path / "frontier.csv"), "--log", str(tmp_path / "log")]
    command = ["plan-memory", *reports, "--machine", "h100_sxm", "--batch", "2", *files]
    assert main([*command, "--what-if", "batch=4", "--what-if", "context=64,cards=2", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [(each["change"], each["verdict"]) for each in plan["what_if"]] == [("batch=4", "fits"), ("context=64,cards=2", "fits")]
    assert [each["pool"] for each in plan["calibration"]][:2] == ["weights", "activations"]
    assert {each["phase"] for each in plan["roofline"]["phases"]} == {"prefill", "decode"}
    assert (tmp_path / "frontier.csv").read_text().startswith("context,batch,tokens\n")
    assert main(command) == 0
    assert "card 0" in (shown := capsys.readouterr().out) and "█" in shown
    assert main([*command, "--what-if", "speed=9"]) == 2
    assert main([*command, "--csv", str(tmp_path)]) == 2
