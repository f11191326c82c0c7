"""Reports lie together, know what they were made from, and are refused when that has changed."""

import shutil
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field

from day0.spec.errors import Day0Error
from day0.spec.reports.base import Report, file_input
from day0.stages.chain import Chain


class Seen(Report):
    STAGE: ClassVar[str] = "inspect"
    COMMAND: ClassVar[str] = "day0 inspect"
    layers: int = Field(description="layers")


class Planned(Report):
    STAGE: ClassVar[str] = "plan-memory"
    COMMAND: ClassVar[str] = "day0 plan-memory"
    fits: bool = Field(default=True, description="verdict")


class Mapped(Report):
    STAGE: ClassVar[str] = "map-ops"
    COMMAND: ClassVar[str] = "day0 map-ops"


@pytest.fixture
def released(tmp_path: Path) -> Path:
    folder = tmp_path / "My Model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def inspect(root: Path, released: Path, target: str | None = None, layers: int = 2) -> Path:
    report = Seen(layers=layers)
    report.provenance.inputs = [file_input(released / "config.json")]
    report.provenance.command = ["day0", "inspect", str(released)]
    return Chain.of(root, released, target).write(report)


def plan(root: Path, target: str | None = None) -> Path:
    chain = Chain.find(root, None, target)
    chain.read(Seen)
    report = Planned()
    report.provenance.command = ["day0", "plan-memory", "--batch", "3"]
    return chain.write(report)


def map_ops(root: Path) -> Path:
    chain = Chain.find(root)
    chain.read(Seen), chain.read(Planned)
    return chain.write(Mapped())


@pytest.fixture
def root(tmp_path: Path, released: Path) -> Path:
    """Reports of a chain whose first three stages were run."""
    root = tmp_path / "reports"
    inspect(root, released), plan(root), map_ops(root)
    return root


def test_reports_of_a_model_on_a_target_lie_together(root: Path) -> None:
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    folder = "My-Model/this-machine"
    assert names == {f"{folder}/inspect.yaml", f"{folder}/plan-memory.yaml", f"{folder}/map-ops.yaml", "latest.json"}


def test_later_commands_need_no_path(root: Path) -> None:
    chain = Chain.find(root)
    assert (chain.model, chain.target, chain.read(Seen).layers) == ("My-Model", "this-machine", 2)


def test_a_report_names_what_it_was_made_from(root: Path) -> None:
    report = Chain.find(root).read(Mapped)
    folder = root / "My-Model" / "this-machine"
    expected = [file_input(folder / name).model_dump() for name in ("inspect.yaml", "plan-memory.yaml")]
    assert [entry.model_dump() for entry in report.provenance.inputs] == expected


def test_without_any_report_the_first_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(Day0Error) as caught:
        Chain.find(tmp_path / "none")
    assert caught.value.hint == "run `day0 inspect MODEL` first"


def test_a_missing_report_names_its_command(tmp_path: Path, released: Path) -> None:
    inspect(tmp_path / "r", released)
    with pytest.raises(Day0Error, match="there is no plan-memory report") as caught:
        Chain.find(tmp_path / "r").read(Planned)
    assert "`day0 plan-memory`" in (caught.value.hint or "")


def test_stale_when_a_predecessor_changed(root: Path, released: Path) -> None:
    inspect(root, released, layers=3)
    with pytest.raises(Day0Error, match=r"stale: .*inspect\.yaml has changed") as caught:
        Chain.find(root).read(Planned)
    assert caught.value.hint == "run `day0 plan-memory --batch 3` again"


def test_stale_through_two_stages(root: Path, released: Path) -> None:
    inspect(root, released, layers=3)
    with pytest.raises(Day0Error, match=r"stale") as caught:
        Chain.find(root).read(Mapped)
    assert "map-ops.yaml" in (caught.value.where or "")


@pytest.mark.parametrize("kind", [Seen, Planned, Mapped])
def test_stale_when_a_file_of_the_release_changed(root: Path, released: Path, kind: type[Report]) -> None:
    (released / "config.json").write_text('{"x": 1}')
    with pytest.raises(Day0Error, match=r"stale: .*config\.json has changed") as caught:
        Chain.find(root).read(kind)
    assert caught.value.hint == f"run `day0 inspect '{released}'` again"


def test_same_size_and_other_content_is_a_change(root: Path, released: Path) -> None:
    (released / "config.json").write_text("[]")
    with pytest.raises(Day0Error, match="stale"):
        Chain.find(root).read(Seen)


def test_the_same_answer_again_leaves_later_reports_valid(root: Path, released: Path) -> None:
    report = Seen(layers=2)
    report.provenance.inputs = [file_input(released / "config.json")]
    report.provenance.command = ["day0", "inspect", "elsewhere"]
    Chain.of(root, released).write(report)
    assert Chain.find(root).read(Mapped)


def test_a_report_of_another_model_is_refused(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    inspect(root, other)
    source = root / "My-Model" / "this-machine" / "plan-memory.yaml"
    shutil.copy(source, root / "other" / "this-machine" / "plan-memory.yaml")
    with pytest.raises(Day0Error, match="belongs to another model") as caught:
        Chain.find(root, other).read(Planned)
    assert caught.value.hint == f"run `day0 plan-memory {other}`"


def test_another_folder_of_the_same_name_is_another_model(root: Path, tmp_path: Path, released: Path) -> None:
    twin = tmp_path / "elsewhere" / released.name
    shutil.copytree(released, twin)
    with pytest.raises(Day0Error, match=f"it is about {released}") as caught:
        Chain.find(root, twin).read(Planned)
    assert caught.value.hint == f"run `day0 inspect '{twin}'`"


def test_another_target_takes_over_what_the_model_is(root: Path) -> None:
    path = plan(root, "b300x8")
    assert path == root / "My-Model" / "b300x8" / "plan-memory.yaml"
    assert path.with_name("inspect.yaml").read_bytes() == (root / "My-Model" / "this-machine" / "inspect.yaml").read_bytes()
    assert Chain.find(root).target == "b300x8"


def test_a_new_look_at_the_model_reaches_every_target(root: Path, released: Path) -> None:
    plan(root, "b300x8")
    inspect(root, released, layers=5)
    assert Chain.find(root, None, "this-machine").read(Seen).layers == Chain.find(root, None, "b300x8").read(Seen).layers == 5


@pytest.mark.parametrize(("text", "problem"), [
    ("{", "not YAML"), ("- 1", "expected schema day0.plan-memory/v1, found None"),
    ("schema: day0.plan-memory/v2", "found 'day0.plan-memory/v2'"),
    ("schema: day0.plan-memory/v1\nprovenance: 7", "made by another version of day0"),
    (f"schema: day0.plan-memory/v1\nprovenance: {{layout: {Planned.layout()}}}\nunheard: 1", "unheard: Extra inputs"),
])  # fmt: skip
def test_a_damaged_report_is_named(root: Path, text: str, problem: str) -> None:
    path = Chain.find(root).path(Planned)
    path.write_text(text)
    with pytest.raises(Day0Error) as caught:
        Chain.find(root).read(Planned)
    assert (caught.value.where, problem in caught.value.problem) == (str(path), True)


def test_a_report_whose_fields_had_another_meaning_is_refused(root: Path, released: Path) -> None:
    """The version of its schema is the same, but the code that wrote it described its fields differently."""

    class Older(Seen):
        layers: int = Field(default=1, description="number of layers")

    chain = Chain.of(root, released)
    assert chain.read(Seen).provenance.layout == Seen.layout() != Older.layout()
    old = Older(layers=chain.read(Seen).layers)
    old.provenance.command = ["day0", "inspect", "My Model"]
    old.write(chain.path(Seen))
    with pytest.raises(Day0Error, match="made by another version of day0") as caught:
        Chain.of(root, released).read(Seen)
    assert caught.value.hint == "run `day0 inspect 'My Model'` again"


def test_names_stay_inside_the_reports_folder(tmp_path: Path) -> None:
    (tmp_path / "latest.json").write_text('{"model": "../../etc", "target": ".."}')
    chain = Chain.find(tmp_path)
    assert tmp_path in chain.folder.resolve().parents


def test_a_shard_counts_by_its_header(root: Path, released: Path) -> None:
    shard = released / "model.safetensors"
    header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    shard.write_bytes(len(header).to_bytes(8, "little") + header + b"1")
    from day0.checkpoint.headers import read_shard

    report = Seen(layers=2)
    digest = read_shard(released, shard.name).digest
    report.provenance.inputs = [file_input(released / "config.json"), file_input(shard).model_copy(update={"sha256": digest})]
    Chain.of(root, released).write(report)
    assert Chain.find(root).read(Seen)
    shard.write_bytes(len(header).to_bytes(8, "little") + header.replace(b"a", b"b", 1) + b"1")
    with pytest.raises(Day0Error, match=r"model\.safetensors has changed"):
        Chain.find(root).read(Seen)
