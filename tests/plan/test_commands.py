"""The commands: planning needs no torch; exit codes, stable keys, one report for the next stage."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from day0.cli.app import main
from day0.render.numbers import size
from day0.render.plan_memory import plan_memory as view
from tests.plan import truth
from tests.zoo import checkpoint

TINY_CARD = "name: tiny\ntitle: Tiny\nbackend: cuda\nmarketing_gb: 0.5\n"


@pytest.fixture
def reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Folder of reports that holds an inspect report of a zoo model."""
    assert main(["inspect", str(checkpoint("deepseek_v3")), "--reports", str(tmp_path)]) == 0
    capsys.readouterr()
    return str(tmp_path)


def printed(capsys: pytest.CaptureFixture[str]) -> dict:  # type: ignore[type-arg]
    data = json.loads(capsys.readouterr().out)
    assert isinstance(data, dict)
    return data


def test_the_first_lines_say_on_how_many_cards_and_what_each_lacks(reports: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a cut that the model does not allow nothing is said but that: no step of it was, or could be, rehearsed."""
    (tmp_path / "tiny.yaml").write_text(TINY_CARD)
    machine = ["plan-memory", "--reports", reports, "--machine"]
    assert main([*machine, f"{tmp_path}/tiny.yamlx2", "--tp", "2"]) == 1
    title, _, least, *_ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"deepseek_v3 does not fit on 2 × Tiny: .+ a card too few", title) and least.startswith("its bytes need at least")
    assert main([*machine, "h200x8", "--tp", "3"]) == 1
    told = capsys.readouterr().out
    title, _, *rest = told.splitlines()
    assert title == "deepseek_v3 refused on 3 × NVIDIA H200 SXM" and "D0405" in told and "3 of the 8 cards are used" in rest
    assert not any(word in told for word in ("rehears", "too few", "at least", "the least that fit"))
    assert main([*machine, "h200x8"]) == 0
    assert "1 of the 8 cards are used: the least that fit" in capsys.readouterr().out
    assert main([*machine, "h200x8", "--tp", "2"]) == 0
    assert "2 of the 8 cards are used" in capsys.readouterr().out.splitlines(), "nobody looked for fewer"


def test_the_bill_is_that_of_the_fullest_card() -> None:
    found = truth.reported("deepseek-v3", "h200_sxmx16", tp=8, pp=2, context=4096, batch=1)
    least, most = sorted({card.free for card in found.per_card})
    console = Console(file=io.StringIO(), width=120)
    console.print(view(found))
    assert least < most and re.search(rf"^ +free +{re.escape(size(least))} ", console.file.getvalue(), re.MULTILINE)  # type: ignore[attr-defined]
    assert size(least) != size(most)


def test_planning_imports_no_torch(tmp_path: Path) -> None:
    model = checkpoint("deepseek_v3-fp8")
    commands = [["inspect", str(model)], ["plan-memory", "--machine", "h200x8"], ["map-ops"], ["plan-memory"], ["map-ops", "--json"]]
    code = (
        f"import sys; from day0.cli.app import main; codes = [main([*c, '--reports', {str(tmp_path)!r}]) for c in {commands!r}]; "
        "print(codes, [m for m in ('torch', 'transformers') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr.splitlines()[-1] == "[0, 0, 0, 0, 0] []", done.stderr


def test_keys_that_others_rely_on(reports: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan-memory", "--reports", reports, "--json", "--context", "128", "--batch", "2"]) == 0
    plan = printed(capsys)
    assert (plan["verdict"], plan["reasons"], plan["cards"]) == ("fits", [], 1)
    assert plan["placement"] == {"tp": 1, "ep": 1, "pp": 1, "dp": 1}
    assert set(plan["per_card"][0]) == {"weights", "state", "activations", "workspace", "collectives", "images", "margin", "free"}
    assert {"bytes_per_token", "bytes_per_sequence", "pools"} <= set(plan["state"])
    assert {"tokens", "max_context"} <= set(plan["capacity"])
    assert (plan["workload"]["context"], plan["workload"]["batch"]) == (128, 2)
    assert main(["map-ops", "--reports", reports, "--json"]) == 0
    assert {"op", "layer", "phase", "provider", "status", "refusals"} <= set(printed(capsys)["sites"][0])


def test_no_is_1(reports: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY_CARD)
    assert main(["plan-memory", "--machine", str(tmp_path / "tiny.yaml"), "--reports", reports, "--json"]) == 1
    plan = printed(capsys)
    assert (plan["verdict"], plan["reasons"][0]["code"]) == ("does not fit", "D0401")
    assert plan["per_card"][0]["free"] < 0
    assert main(["plan-memory", "--machine", "ascend_910b", "--reports", reports]) == 0
    assert main(["map-ops", "--reports", reports]) == 1


@pytest.mark.parametrize("options", [[], ["--weights", "streamed", "--dtype", "float32"], ["--machine", "b300x8", "--context", "128k"]])
def test_what_a_person_sees(reports: str, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert main(["plan-memory", "--reports", reports, *options]) == 0
    seen = capsys.readouterr().out
    assert "deepseek_v3 fits on 1 ×" in seen.splitlines()[0]
    assert all(part in seen for part in ("weights", "state", "activations", "margin", "free", "latent"))
    assert main(["map-ops", "--reports", reports]) == 0
    seen = capsys.readouterr().out
    assert "complete" in seen.splitlines()[0]
    assert "latent_attention" in seen


@pytest.mark.parametrize(("options", "told"), [
    (["--machine", "h300"], "no machine named"), (["--context", "long"], "not a number of tokens"),
    (["--dtype", "fp4"], "cannot compute in"), (["--batch", "0"], "batch"), (["--machine", "rtx"], "rtx4090"),
])  # fmt: skip
def test_a_wrong_option_is_2(reports: str, capsys: pytest.CaptureFixture[str], options: list[str], told: str) -> None:
    assert main(["plan-memory", "--reports", reports, *options]) == 2
    assert told in capsys.readouterr().err


def test_a_stage_before_its_predecessor_is_2(tmp_path: Path, reports: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map-ops", "--reports", reports, "--machine", "h200"]) == 2
    assert "plan-memory" in capsys.readouterr().err


def test_every_option_of_a_plan_has_an_effect(reports: str, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["plan-memory", "--reports", reports, "--json", "--machine", "b300x8", "--context", "256", "--batch", "4"]
    options: list[list[str]] = [
        [], ["--kv-dtype", "fp8", "--engine", "vllm"], ["--engine", "vllm"], ["--tp", "2"], ["--dp", "2"], ["--pp", "2"],
        ["--tp", "2", "--ep", "1"], ["--tp", "2", "--cp", "2"], ["--with-mtp"], ["--utilisation", "0.5"],
        ["--dp", "5", "--tp", "1", "--ep", "5", "--redundant-experts", "3"],
    ]  # fmt: skip
    seen = []
    for extra in options:
        assert main([*base, *extra]) == 0, extra
        plan = printed(capsys)
        kept = ("placement", "cp", "redundant_experts", "per_card", "state", "weights")
        seen.append({name: plan[name] for name in kept})
    same = [(options[a], options[b]) for a, one in enumerate(seen) for b, other in enumerate(seen[:a]) if one == other]
    assert same == []


def test_a_cut_that_is_not_legal_is_refused(reports: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan-memory", "--reports", reports, "--json", "--machine", "b300x8", "--tp", "3"]) == 1
    plan = printed(capsys)
    assert plan["verdict"] == "refused"
    assert "D0405" in {reason["code"] for reason in plan["reasons"]}
    assert main(["plan-memory", "--reports", reports, "--engine", "none"]) == 2
    assert main(["plan-memory", "--reports", reports, "--kv-dtype", "fp7"]) == 2
