"""The commands one after the other, as a person calls them; answers compared with transformers."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
import yaml
from safetensors.torch import load_file

from tests.cli.conftest import EXAMPLE, Done
from tests.zoo import checkpoint

Day0 = Callable[..., Done]
QUESTION = "What is the capital of France?"
PROMPTS = ["the quick brown fox", "1 2 3 4 5 6 7 8 9 10 11 12"]


def greedy(folder: Path, prompt: list[int], count: int) -> list[int]:
    """What transformers continues with in float32."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([prompt])
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False)
    found: list[int] = made[0, len(prompt) :].tolist()
    return found


@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_the_chain_answers_as_transformers_does(day0: Day0, name: str) -> None:
    folder = checkpoint(name)
    assert day0("inspect", folder).code == 0
    assert day0("plan-memory", "--context", "64", "--batch", "2", "--dtype", "float32").code == 0
    assert day0("map-ops").code == 0
    done = day0("run", *PROMPTS, "--raw", "--max-new", "12", "--json")
    assert done.code == 0
    for answer in done.json["answers"]:
        assert answer["tokens"] == greedy(folder, answer["prompt_tokens"], 12)[: len(answer["tokens"])]
        assert answer["finish"] in ("stop", "length")


def test_stable_keys(day0: Day0, mapped: Path) -> None:
    """What programs outside rely on."""
    report = day0("inspect", mapped, "--json").json
    stored = {name: tensor for shard in EXAMPLE.glob("*.safetensors") for name, tensor in load_file(shard).items()}
    counted = sum(tensor.numel() for name, tensor in stored.items() if not name.endswith("_scale_inv"))
    assert (report["model"]["family"], report["parameters"]["total"]) == ("deepseek_v3", counted)
    assert report["bytes"]["total"] == sum(tensor.nbytes for tensor in stored.values())
    assert (len(report["layers"]), report["parameters"]["active"] < counted) == (4, True)
    assert all({"code", "status", "subject", "found", "expected", "hint"} <= row.keys() for row in report["findings"])
    report = day0("plan-memory", "--json").json
    assert {"verdict", "reasons", "cards", "placement", "per_card", "state", "capacity"} <= report.keys()
    assert report["placement"].keys() == {"tp", "ep", "pp", "dp"}
    assert {"weights", "state", "activations", "workspace", "collectives", "margin", "free"} <= report["per_card"][0].keys()
    assert {"bytes_per_token", "bytes_per_sequence", "pools"} <= report["state"].keys()
    assert {"tokens", "max_context"} <= report["capacity"].keys()
    report = day0("map-ops", "--json").json
    assert all({"op", "layer", "phase", "provider", "status", "refusals"} <= row.keys() for row in report["sites"])


@pytest.mark.parametrize("executor", ["native", "community"])
def test_run_answers_on_stdout_and_measures_on_stderr(day0: Day0, mapped: Path, tmp_path: Path, executor: str) -> None:
    done = day0("run", QUESTION, "--executor", executor)
    assert (done.code, done.out) == (0, "The capital of France is Paris.\n")
    assert "decode" in done.err
    assert ("Next: day0 serve" in done.err) == (executor == "native")
    report = yaml.safe_load((tmp_path / "reports/tiny-dsv3/this-machine/run.yaml").read_text())
    assert (report["verdict"], report["executor"], report["dtype"]) == ("answered", executor, "float32")
    times = report["times"]
    assert 0 < times["first_token"] <= times["total"]
    assert 0 < times["decode_p50"] <= times["decode_p95"]
    assert report["memory"]["engine"]["weights"] > 1_000_000
    if executor == "native":
        assert sum(row["share"] for row in report["operators"]) == pytest.approx(1, abs=0.05)
        assert {"linear", "experts", "other"} <= {row["op"] for row in report["operators"]}


def test_a_family_that_nobody_knows_runs_as_the_community_does(day0: Day0, tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
    config = transformers.Phi3Config(vocab_size=768, pad_token_id=0, eos_token_id=1, bos_token_id=0, **sizes)
    transformers.Phi3ForCausalLM(config).save_pretrained(tmp_path / "novel")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EXAMPLE / name, tmp_path / "novel")
    assert day0("inspect", "novel").code == 1
    assert day0("plan-memory").error.endswith("no family reads model_type 'phi3'")
    done = day0("run", "Hello", "--executor", "community", "--max-new", "6", "--json")
    answer = done.json["answers"][0]
    assert (done.code, answer["chat"]) == (0, False)
    assert answer["tokens"] == greedy(tmp_path / "novel", answer["prompt_tokens"], 6)[: len(answer["tokens"])]


def test_yaml_on_stdout_is_the_report_on_disk(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    done = day0("run", QUESTION, "--yaml")
    assert done.out == (tmp_path / "reports/tiny-dsv3/this-machine/run.yaml").read_text()


def test_streamed_weights_say_the_same_and_hold_less(day0: Day0, mapped: Path) -> None:
    resident, streamed = (day0("run", QUESTION, "--json", "--weights", kind).json for kind in ("resident", "streamed"))
    assert resident["answers"] == streamed["answers"]
    assert streamed["memory"]["engine"]["weights"] < resident["memory"]["engine"]["weights"]


def test_seeds_make_sampling_repeatable(day0: Day0, mapped: Path) -> None:
    how = ("run", "Say something.", "--temperature", "2", "--max-new", "8", "--json", "--seed")
    first, again, other = (day0(*how, seed).json["answers"][0]["tokens"] for seed in (7, 7, 8))
    assert first == again != other


def test_stop_texts_end_an_answer(day0: Day0, mapped: Path) -> None:
    assert day0("run", QUESTION, "--stop", " is").out == "The capital of France\n"


def test_a_conversation(day0: Day0, mapped: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", iter([f"{QUESTION}\n", "\n", "What is 2 + 2?\n"]))
    done = day0("run", "--chat", "--max-new", "10")
    assert (done.code, done.out.splitlines()[0]) == (0, "The capital of France is Paris.")
    answers = yaml.safe_load((tmp_path / "reports/tiny-dsv3/this-machine/run.yaml").read_text())["answers"]
    first, second = (answer["prompt_tokens"] for answer in answers)
    assert second[: len(first)] == first
    assert len(second) > len(first) + len(answers[0]["tokens"])


def test_score_writes_the_logits_of_transformers(day0: Day0, tmp_path: Path) -> None:
    folder = checkpoint("llama")
    sequences = [[1, 5, 9, 2, 7, 7, 3], [4, 4, 4], [11]]
    (tmp_path / "ids.json").write_text(str(sequences))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for how in ((), ("--chunk", "2"), ("--decode-from", "1"), ("--executor", "community"), ("--weights", "streamed")):
        done = day0("score", folder, "--ids", "ids.json", "--out", "out/logits.safetensors", "--dtype", "float32", *how, "--json")
        found = load_file(tmp_path / "out/logits.safetensors")
        assert (done.code, sorted(found)) == (0, ["logits.0", "logits.1", "logits.2"])
        for index, tokens in enumerate(sequences):
            with torch.no_grad():
                expected = model(torch.tensor([tokens])).logits[0]
            span = (expected.max() - expected.min()).item()
            torch.testing.assert_close(found[f"logits.{index}"], expected, atol=1e-4 * span, rtol=0)
        assert done.json["sequences"][2]["loss"] is None


def test_perplexity_is_that_of_transformers(day0: Day0, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The capital of France is Paris.\n" * 8)
    done = day0("score", EXAMPLE, "--text", "text.txt", "--window", "40", "--dtype", "float32", "--json")
    reference = day0("score", EXAMPLE, "--text", "text.txt", "--window", "40", "--dtype", "float32", "--executor", "community", "--json")
    assert done.json["perplexity"] == pytest.approx(reference.json["perplexity"], rel=1e-4)
    assert [row["tokens"] for row in done.json["sequences"]][:-1] == [40] * (len(done.json["sequences"]) - 1)


def test_adapt_leaves_six_reports_and_a_page(day0: Day0, model: Path, tmp_path: Path) -> None:
    done = day0("adapt", model, "--layer", "1", "--context", "128", "--batch", "2")
    assert done.code == 0
    assert "tiny-dsv3 works with fallbacks on this-machine\n  route is run by its reference in 6 of 6 calls" in done.out
    assert "The capital of France is Paris." in done.out
    folder = tmp_path / "reports/tiny-dsv3/this-machine"
    assert sorted(path.name for path in folder.iterdir()) == [
        "index.html", "inspect.yaml", "map-ops.yaml", "plan-memory.yaml", "run.yaml", "serve.yaml", "validate-layer.yaml",
    ]  # fmt: skip
    served = yaml.safe_load((folder / "serve.yaml").read_text())
    assert served["requests"]["stop"] == 1
    made_from = [Path(entry["path"]).name for entry in served["provenance"]["inputs"]]
    assert made_from == ["inspect.yaml", "plan-memory.yaml", "map-ops.yaml", "run.yaml"]
    assert day0("run", QUESTION).code == 0


def test_adapt_stops_at_the_first_no(day0: Day0, model: Path, tmp_path: Path) -> None:
    done = day0("adapt", model, "--batch", "1000000000", "--json")
    assert (done.code, done.json["verdict"], [row["stage"] for row in done.json["stages"]]) == (1, "stopped", ["inspect", "plan-memory"])
    found = done.json["conclusion"]
    assert (found["answer"], found["stage"]) == ("does not work", "plan-memory")
    assert "D0403 activations" in found["reasons"][0] and "--batch" in found["remedies"][0]
    assert not (tmp_path / "reports/tiny-dsv3/this-machine/map-ops.yaml").exists()
