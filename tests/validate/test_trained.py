"""The trained model that travels with the source, packed as released and unpacked to bfloat16: it passes, and knows what it knows elsewhere."""

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from safetensors.torch import save_file

from day0.checkpoint.folder import Checkpoint
from day0.community.decode import independent
from day0.community.executor import Community
from day0.engine.text import Tokenizer
from day0.spec.request import Request
from day0.stages.prompt import Reader
from day0.stages.score import Manner, score
from tests.engine.opened import Answer, hear, start
from tests.validate.planted import validate

TRAINED = Path(__file__).parents[2] / "examples" / "tiny-dsv3"
CAPITALS = {  # of countries that its tasks ask for
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo", "Norway": "Oslo",
    "Poland": "Warsaw", "Greece": "Athens", "Peru": "Lima",
}  # fmt: skip
FORMS = ["packed", "plain"]


@cache
def questions() -> dict[str, tuple[int, ...]]:
    """Country → tokens of the question."""
    reader = Reader(Tokenizer.open(TRAINED), 128, max_new=16)
    return {country: reader.read(f"What is the capital of {country}?").tokens for country in CAPITALS}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The release, and the same values in bfloat16, unpacked by the definition of its format."""
    plain = tmp_path_factory.mktemp("plain") / "tiny-dsv3-bf16"
    shutil.copytree(TRAINED, plain, ignore=shutil.ignore_patterns("*.safetensors*"))
    config = json.loads((plain / "config.json").read_text())
    config.pop("quantization_config")
    (plain / "config.json").write_text(json.dumps(config))
    released, tensors = Checkpoint.open(TRAINED), {}
    for stored in released.stored.values():
        found = independent(released, stored)
        assert found is not None
        tensors[stored.name] = found[0].bfloat16() if stored.format != "plain" or stored.parts["data"].dtype == "BF16" else found[0]
    save_file(tensors, plain / "model.safetensors")
    return {"packed": TRAINED, "plain": plain}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_it_passes(monkeypatch: pytest.MonkeyPatch, folders: dict[str, Path], form: str) -> None:
    report = validate(monkeypatch, folders[form])
    assert report.verdict == "pass", report.first_divergence
    assert [rung.verdict for rung in report.rungs] == ["pass"] * 4


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_its_perplexity_is_the_reference_executors(folders: dict[str, Path], form: str) -> None:
    """The band is what bfloat16 itself costs the reference, and one part in a thousand."""
    known = [list(tokens) for tokens in questions().values()]

    def perplexity(executor: str, dtype: str) -> float:
        found = score(folders[form], known, Manner(executor=executor, dtype=dtype, batch=1)).perplexity  # type: ignore[arg-type]
        assert found is not None
        return found

    truth, theirs, ours = perplexity("community", "float32"), perplexity("community", "bfloat16"), perplexity("native", "bfloat16")
    assert perplexity("native", "float32") == pytest.approx(truth, rel=1e-4)
    assert abs(ours - truth) <= 2 * abs(theirs - truth) + 1e-3 * truth


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_its_answers_are_right_as_often_as_the_reference_executors(folders: dict[str, Path], form: str) -> None:
    folder, tokenizer = folders[form], Tokenizer.open(TRAINED)
    theirs = Community.open(Checkpoint.open(folder), torch.bfloat16, tokenizer=tokenizer)
    right = {}
    for name, engine in {"ours": start(folder, text=True, dtype="bfloat16"), "theirs": theirs}.items():
        heard: dict[str, Answer] = {}
        for country, tokens in questions().items():
            engine.add(Request(id=country, tokens=tokens, max_new=16))
        while engine.busy:
            hear(heard, engine.step())
        right[name] = sum(CAPITALS[country] in answer.text for country, answer in heard.items())
    assert right["theirs"] >= 9
    assert right["ours"] == right["theirs"]
