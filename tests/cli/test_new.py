"""Drafts: a family for a model that nobody knows, and a file of every other kind; each imports, is tidy, and is not taken for finished."""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from day0.checkpoint.folder import Checkpoint
from day0.engine.nearest import nearest
from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.registry import families
from day0.stages import new
from tests.cli.conftest import Done
from tests.conformance.test_drafts import REGISTRIES, unfilled
from tests.engine.opened import expected, logits, start
from tests.zoo import checkpoint

Day0 = Callable[..., Done]
ROOT = Path(__file__).parents[2]
RUFF = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--config", "lint.isort.known-first-party=['day0']"]


def novel(target: Path, base: str, *, tensors: dict[str, str] | None = None, keys: dict[str, str] | None = None, **more: object) -> Path:
    """A copy of a checkpoint under a made-up model_type, with parts of tensor names and configuration keys renamed, and keys added."""
    shutil.copytree(checkpoint(base), target)
    config = json.loads((target / "config.json").read_text())
    config = {(keys or {}).get(key, key): value for key, value in config.items()} | {"model_type": "novelty_x1"} | more
    (target / "config.json").write_text(json.dumps(config))
    index = json.loads((target / "model.safetensors.index.json").read_text())
    index["weight_map"] = {}
    for path in sorted(target.glob("model-*.safetensors")):
        content = {renamed(name, tensors or {}): tensor for name, tensor in load_file(path).items()}
        save_file(content, path, metadata={"format": "pt"})
        index["weight_map"] |= dict.fromkeys(content, path.name)
    (target / "model.safetensors.index.json").write_text(json.dumps(index))
    return target


def renamed(name: str, changes: dict[str, str]) -> str:
    for old, new_name in changes.items():
        name = name.replace(old, new_name)
    return name


@pytest.fixture
def drafted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose families/, ops/, … hold files beside those of the project, for one test."""
    before = {package: set(registry.names()) for package, registry in REGISTRIES.items()}
    for package in REGISTRIES:
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(tmp_path / "drafts" / package.rpartition(".")[2])])
    yield tmp_path / "drafts"
    for package, registry in REGISTRIES.items():
        for name in set(registry.names()) - before[package]:
            registry._loaded.pop(name, None)
            sys.modules.pop(f"{package}.{name}", None)


def tidy(folder: Path) -> None:
    done = subprocess.run([*RUFF, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    long = [line for path in folder.rglob("*.py") for line in path.read_text().splitlines() if len(line) > 140]
    assert long == []


def error(model: Path) -> float:
    """Of the logits of all prompts, relative to their range."""
    return expected(model).deviation(logits(start(model), expected(model).prompts))


@pytest.mark.parametrize("base", ["dots1", "deepseek_v3", "gpt_oss", "llama"])
def test_a_model_under_another_name_runs_from_its_draft(day0: Day0, tmp_path: Path, drafted: Path, base: str) -> None:
    """Nothing is unknown but the name: the logits are those that transformers computed for the model it is."""
    model = novel(tmp_path / "novel", base)
    done = day0("new", "family", "novelty", "--from", model, "--out", drafted)
    assert done.code == 0 and f"closest known family: {base} " in done.out
    assert "wrote" in done.out and "Next: day0 inspect" in done.err
    tidy(drafted)
    release = Release.open(model)
    release.require_complete()
    assert (release.model.family, release.unclaimed, release.model.unread_keys) == ("novelty", [], ())
    assert error(model) < 1e-5


def test_a_draft_lists_what_is_unknown_and_can_be_filled(day0: Day0, tmp_path: Path, drafted: Path) -> None:
    names, keys = {"mlp.gate.weight": "mlp.router.weight"}, {"moe_intermediate_size": "expert_intermediate"}
    model = novel(tmp_path / "novel", "dots1", tensors=names, keys=keys, attention_sink_size=3)
    assert day0("new", "family", "novelty", "--from", model, "--out", drafted).code == 0
    tidy(drafted)
    path = drafted / "families" / "novelty.py"
    text = path.read_text()
    for said in (
        "#   moe_intermediate_size: is it expert_intermediate?", "#   expert_intermediate = 28", "#   attention_sink_size = 3",
        "#   layers.*.ffn.router [8, 56] in 3 layers", '#   "mlp.router": "",  # 3 of [8, 56]; shaped like ffn.router',
        'recognises=frozenset({"novelty_x1"})',
    ):  # fmt: skip
        assert said in text
    assert day0("inspect", model).code == 1
    with pytest.raises(Day0Error, match="moe_intermediate_size is missing"):
        Release.open(model)
    assert [line for line in unfilled(families()) if line.startswith("day0.families.novelty, line ") and "tensors that nothing claims" in line]

    text = text.replace('#   "mlp.router": "",', '"mlp.router": "ffn.router",')
    text = text.replace("CLOSEST.read(config)", 'CLOSEST.read(config.spelled(moe_intermediate_size="expert_intermediate"))')
    path.write_text(text)
    families()._loaded.pop("novelty")
    sys.modules.pop("day0.families.novelty")
    assert Release.open(model).model.unread_keys == ("attention_sink_size",)
    assert error(model) < 1e-5


def test_layers_under_another_prefix(day0: Day0, tmp_path: Path, drafted: Path) -> None:
    model = novel(tmp_path / "novel", "olmoe", tensors={"model.layers.": "decoder.blocks.", "model.": "decoder."})
    assert day0("new", "family", "novelty", "--from", model, "--out", drafted).code == 0
    text = (drafted / "families" / "novelty.py").read_text()
    assert 'layer="decoder.blocks.{i}."' in text and '"decoder.embed_tokens.weight": ""' in text
    assert Release.open(model).missing == ["embed", "norm"]
    tidy(drafted)


HOSTILE = 'x"}) + exec("1/0")\nraise SystemExit #\u202e'


def test_text_of_a_release_cannot_become_code(day0: Day0, tmp_path: Path, drafted: Path) -> None:
    names = {"mlp.gate.weight": f"mlp.{HOSTILE.splitlines()[0]}.weight"}  # a line break in a name is damage, and refused as such
    model = novel(tmp_path / "novel", "dots1", tensors=names, model_type=HOSTILE, **{HOSTILE: HOSTILE, "deep": {HOSTILE: [HOSTILE]}})
    assert day0("new", "family", "novelty", "--from", model, "--out", drafted).code == 0
    tidy(drafted)
    assert families().get("novelty").recognises == {HOSTILE}
    assert (drafted / "families" / "novelty.py").read_text().isascii()


def test_what_cannot_be_drafted(day0: Day0, tmp_path: Path) -> None:
    assert "family llama reads model_type 'llama'" in day0("new", "family", "x", "--from", checkpoint("llama")).error
    model = novel(tmp_path / "novel", "dots1")
    for words, problem in (
        (("family", "x"), "a family is drafted from a model"),
        (("op", "x", "--from", model), "--from goes with a family"),
        (("family", "../x", "--from", model), "cannot be the name of a file"),
        (("op", "class"), "cannot be the name of a file"),
        (("op", "rms_norm"), "the file is there already"),
        (("part", "mla"), "the file is there already"),
        (("kernel", "no_such_triton"), "begins with no operator's name"),
        (("check", "rope_range"), "cannot be the name of a check"),
        (("check", "d0301_rope"), "code D0301 is taken by d0301_family"),
    ):
        done = day0("new", *words)
        assert done.code == 2 and problem in done.error and done.hint


def test_an_unknown_model_is_told_what_to_do(day0: Day0, tmp_path: Path) -> None:
    """The same words where the model is opened and where it is inspected."""
    model = novel(tmp_path / "novel", "dots1")
    with pytest.raises(Day0Error) as raised:
        Release.open(model)
    assert raised.value.hint and raised.value.hint.startswith("closest known family: dots1 (22 of 22 kinds")
    assert f"`day0 new family NAME --from {model}`" in raised.value.hint
    found = day0("inspect", model, "--json").json["findings"]
    assert [one["hint"] for one in found if one["status"] == "fail"] == [raised.value.hint]


@pytest.mark.parametrize("base", ["axk1", "glm4_moe", "gpt_oss", "hy_v3", "longcat_flash", "minimax_m2", "mixtral", "solar_open"])
def test_a_family_is_closest_to_itself(tmp_path: Path, base: str) -> None:
    found = nearest(Checkpoint.open(novel(tmp_path / "novel", base)))
    assert found and found.family == base and found.read == found.keys


DRAFTS = {
    "op": "soft_cap", "part": "gated_memory", "format": "int3", "check": "d0399_rope_range", "backend": "musa", "kernel": "linear_triton",
}  # fmt: skip


@pytest.mark.parametrize("kind", DRAFTS)
def test_other_drafts_import_and_are_not_finished(day0: Day0, drafted: Path, kind: str) -> None:
    name = DRAFTS[kind]
    assert day0("new", kind, name, "--out", drafted).code == 0
    assert day0("new", kind, name, "--out", drafted).error.endswith("the file is there already")
    tidy(drafted)
    packages = [package for package in REGISTRIES if (drafted / package.rpartition(".")[2]).is_dir()]
    assert len(packages) == (2 if kind == "part" else 1)
    for package in packages:
        assert REGISTRIES[package].get(name) is not None
        left = [line for line in unfilled(REGISTRIES[package]) if line.startswith(f"{package}.{name}, line ")]
        assert left and all("fill: " in line for line in left)


def test_a_draft_harms_nobody(day0: Day0, drafted: Path) -> None:
    """With a draft of every kind in place, a known model is still read."""
    for kind, name in DRAFTS.items():
        assert day0("new", kind, name, "--out", drafted).code == 0
    assert day0("inspect", checkpoint("llama")).code == 0
    assert day0("plan-memory", "--context", "64", "--batch", "2", "--dtype", "float32").code == 0
    assert day0("map-ops").code == 0


def test_an_installed_package_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("day0.ops"), "__path__", [str(tmp_path / "site-packages" / "day0" / "ops")])
    with pytest.raises(Day0Error, match="installed as a package"):
        new.home("op")
