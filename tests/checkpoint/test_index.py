"""Index and shards, both ways; files that are absent, too many, or held twice."""

import json
from pathlib import Path

import pytest

from day0.checkpoint.folder import Checkpoint
from day0.checks.d0211_stray_file import CHECK as STRAY
from day0.spec.errors import Day0Error
from tests.checkpoint.shards import only, shard_name, told, write_index, write_release, write_shard

FIRST = {"a": ("BF16", [8, 8]), "b": ("BF16", [8])}
SECOND = {"c": ("F32", [4]), "mtp.fc": ("F32", [16])}
THIRD = {"d": ("F32", [100]), "e": ("F32", [1])}


def test_a_sound_release_has_no_findings(tmp_path: Path) -> None:
    write_release(tmp_path, [FIRST, SECOND])
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.findings == [] and checkpoint.headers.keys() == FIRST.keys() | SECOND.keys()
    checkpoint.require_sound()


def test_absent_shard(tmp_path: Path) -> None:
    write_release(tmp_path, [FIRST, SECOND, THIRD])
    (tmp_path / shard_name(3, 3)).unlink()
    checkpoint = Checkpoint.open(tmp_path)
    finding = only(checkpoint.findings)
    assert told([finding]) == [("D0203", "fail", shard_name(3, 3))]
    assert "2 tensors" in finding.found and "404 bytes" in finding.found and "download not finished" in finding.hint
    with pytest.raises(Day0Error) as error:
        checkpoint.require_sound()
    assert shard_name(3, 3) in str(error.value) and error.value.hint


@pytest.mark.parametrize("file", [f"model-{'1.sadel-' * 50}.safetensors", "loop.safetensors"])
def test_a_name_that_no_file_can_have_or_that_leads_nowhere(tmp_path: Path, file: str) -> None:
    weight_map = write_release(tmp_path, [FIRST, SECOND])
    (tmp_path / "loop.safetensors").symlink_to("loop.safetensors")
    write_index(tmp_path, weight_map | {"d": file}, 0)
    (finding,) = [finding for finding in Checkpoint.open(tmp_path).findings if finding.code == "D0203"]
    assert finding.status == "fail" and file.startswith(finding.subject) and "absent" in finding.found


def test_tensor_of_the_index_in_no_shard(tmp_path: Path) -> None:
    weight_map = write_release(tmp_path, [FIRST, SECOND])
    write_index(tmp_path, weight_map | {"mtp.gone": shard_name(2, 2)}, 0)
    finding = only(Checkpoint.open(tmp_path).findings)
    assert told([finding]) == [("D0205", "fail", "mtp.gone")] and shard_name(2, 2) in finding.expected


def test_tensor_in_another_shard(tmp_path: Path) -> None:
    weight_map = write_release(tmp_path, [FIRST, SECOND])
    write_index(tmp_path, weight_map | {"mtp.fc": shard_name(1, 2)}, 0)
    checkpoint = Checkpoint.open(tmp_path)
    finding = only(checkpoint.findings)
    assert told([finding]) == [("D0206", "warn", "mtp.fc")] and shard_name(2, 2) in finding.found
    assert checkpoint.headers["mtp.fc"].file == shard_name(2, 2)


def test_tensor_of_a_shard_not_in_the_index(tmp_path: Path) -> None:
    weight_map = write_release(tmp_path, [FIRST, SECOND])
    del weight_map["c"]
    write_index(tmp_path, weight_map, 0)
    assert told(Checkpoint.open(tmp_path).findings) == [("D0208", "warn", "c")]


@pytest.mark.parametrize("differ", [False, True])
def test_duplicate(tmp_path: Path, differ: bool) -> None:
    weight_map = write_release(tmp_path, [FIRST, {**SECOND, "a": FIRST["a"]}])
    write_index(tmp_path, weight_map | {"a": shard_name(2, 2)}, 0)
    if differ:
        with open(tmp_path / shard_name(2, 2), "r+b") as file:
            file.seek(-1, 2)
            file.write(b"\1")
    checkpoint = Checkpoint.open(tmp_path)
    finding = only(checkpoint.findings)
    assert told([finding]) == [("D0207", "fail" if differ else "warn", "a")]
    assert f"picks {shard_name(2, 2)}" in finding.found and ("differ" if differ else "equal") in finding.found
    assert checkpoint.headers["a"].file == shard_name(2, 2) and len(checkpoint.headers) == 4


def test_stray_file(tmp_path: Path) -> None:
    write_release(tmp_path, [FIRST, SECOND])
    write_shard(tmp_path / "model.safetensors", {"a": ("U8", [8, 4])})
    write_shard(tmp_path / "expected.safetensors", {"logits": ("F32", [8, 4])})
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.findings == [] and checkpoint.headers["a"].dtype == "BF16"
    assert told(STRAY.run(checkpoint)) == [("D0211", "pass", "expected.safetensors"), ("D0211", "warn", "model.safetensors")]


def test_one_damaged_shard_does_not_hide_the_others(tmp_path: Path) -> None:
    write_release(tmp_path, [FIRST, SECOND, THIRD])
    with open(tmp_path / shard_name(2, 3), "r+b") as file:
        file.write(bytes(400))
    checkpoint = Checkpoint.open(tmp_path)
    assert told(checkpoint.findings) == [("D0101", "fail", shard_name(2, 3))]
    assert checkpoint.headers.keys() == FIRST.keys() | THIRD.keys()


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": ["x"]}}', '{"weight_map": {"a": "../../x.safetensors"}}',
     '{"weight_map": {"a": "/etc/x.safetensors"}}', "[" * 100_000],
)  # fmt: skip
def test_index_that_is_no_index(tmp_path: Path, text: str) -> None:
    write_release(tmp_path, [FIRST, SECOND])
    (tmp_path / "model.safetensors.index.json").write_text(text)
    checkpoint = Checkpoint.open(tmp_path)
    assert told(checkpoint.findings) == [("D0202", "fail", "model.safetensors.index.json")]
    assert len(checkpoint.headers) == 4


def test_without_index_numbered_shards_must_be_complete(tmp_path: Path) -> None:
    write_release(tmp_path, [FIRST, SECOND, THIRD])
    (tmp_path / "model.safetensors.index.json").unlink()
    assert Checkpoint.open(tmp_path).findings == []
    (tmp_path / shard_name(2, 3)).unlink()
    assert told(Checkpoint.open(tmp_path).findings) == [("D0203", "fail", shard_name(2, 3))]


def test_no_safetensors(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    finding = only(Checkpoint.open(tmp_path).findings)
    assert finding.code == "D0201" and "pytorch_model.bin is there" in finding.found


def test_folder_and_configuration(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": ')
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    cases = {"absent": "no such folder", "file": "a file, not a folder", "empty": "no config.json", "broken": "not valid JSON"}
    for name, problem in cases.items():
        with pytest.raises(Day0Error, match=problem) as error:
            Checkpoint.open(tmp_path / name)
        assert error.value.hint and name in str(error.value.where)


def test_inputs_have_digests(tmp_path: Path) -> None:
    import hashlib

    write_release(tmp_path, [FIRST, SECOND])
    inputs = {Path(entry.path).name: entry for entry in Checkpoint.open(tmp_path).inputs()}
    raw = (tmp_path / shard_name(1, 2)).read_bytes()
    head = raw[: 8 + int.from_bytes(raw[:8], "little")]
    assert inputs[shard_name(1, 2)].sha256 == hashlib.sha256(head).hexdigest() and inputs[shard_name(1, 2)].bytes == len(raw)
    assert inputs["config.json"].sha256 == hashlib.sha256((tmp_path / "config.json").read_bytes()).hexdigest()
    assert json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"].keys() == FIRST.keys() | SECOND.keys()
