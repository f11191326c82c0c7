"""The chain about a model that is not on this machine: planned from its headers, refused where weights are needed."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import EXAMPLE, Done
from tests.remote.web import COMMIT, REPOSITORY, Web, web

Day0 = Callable[..., Done]
HUB = f"hf://{REPOSITORY}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    with web(Path(shutil.copytree(EXAMPLE, tmp_path / "served"))) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.root)
        yield found


def test_planned_from_headers_refused_where_weights_are_needed(day0: Day0, server: Web) -> None:
    assert day0("inspect", HUB).code == 0
    for arguments in (("plan-memory", HUB), ("map-ops",)):
        assert day0(*arguments).code == 0
    plan = yaml.safe_load(Path("reports/tiny-model/this-machine/plan-memory.yaml").read_text())
    assert plan["model"]["folder"] == f"{HUB}@{COMMIT}"
    done = day0("run", "Hello")
    assert (done.code, done.error) == (2, f"{HUB}@{COMMIT}: its weights are not on this machine")
    assert done.hint == f"run `hf download {REPOSITORY} --revision {COMMIT} --local-dir tiny-model`, then inspect that folder"
    assert "its weights are not on this machine" in day0("validate").error


def test_what_was_read_is_said(day0: Day0, server: Web) -> None:
    done = day0("inspect", HUB)
    source = yaml.safe_load(Path("reports/tiny-model/this-machine/inspect.yaml").read_text())["source"]
    assert f"{HUB}@{COMMIT}" in done.out and f"{100 * source['bytes_read'] / source['bytes_total']:.2g} %" in done.out


def test_a_folder_of_files_that_changed_is_refused(day0: Day0, server: Web) -> None:
    place = f"{server.root}/files"
    assert day0("inspect", place).code == 0
    assert day0("plan-memory", place).code == 0
    config = server.folder / "generation_config.json"
    config.write_text(config.read_text() + " ")
    done = day0("plan-memory", place)
    assert (done.code, done.error) == (2, f"{place}/generation_config.json has changed since it was inspected")
    assert done.hint == f"run `day0 inspect {place}` again"


def test_a_report_about_another_revision_is_refused(day0: Day0, server: Web) -> None:
    assert day0("inspect", HUB).code == 0
    done = day0("plan-memory", f"{HUB}@{'0' * 40}")
    assert done.code == 2 and f"belongs to another model: it is about {HUB}@{COMMIT}" in done.error
    assert done.hint == f"run `day0 inspect {HUB}@{'0' * 40}`"
