"""Spoiled releases: whatever is wrong, an answer or a located error, within a second and 64 MB."""

from pathlib import Path

import pytest

from tests.checkpoint.mutation import MEMORY, NAMES, Release, answered, peak, resident, spoil, write

FEW = 150  # of each release, of all that `make test-all` reads
WHOLE = 50  # of so many, one is inspected whole
FAULTS = [  # (release, seed) that once failed: division by nought, numbers beyond a float, negative counts
    ("llama", 666), ("llama", 1004), ("qwen3_moe-int4", 942), ("qwen3_moe-int4", 4685), ("qwen3_moe-int4", 10160), ("qwen3_moe-int4", 13400),
    ("deepseek_v3-fp8", 5509), ("deepseek_v3-fp8", 12165), ("deepseek_v3-fp8", 14681), ("kimi_k25", 2390),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_few(tmp_path: Path, name: str) -> None:
    run(tmp_path, name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), NAMES.items())
def test_many(tmp_path: Path, name: str, count: int) -> None:
    run(tmp_path, name, count)


def run(folder: Path, name: str, count: int) -> None:
    """Every seed read, some inspected whole; the memory of those, and of all together by what the process has held."""
    release = Release(name)
    write(folder, release, "index", release.index)
    answered(folder, "")
    before = resident()
    for seed in range(count):
        which, text = spoil(release, seed)
        write(folder, release, which, text)
        try:
            answered(folder, which)
            if seed % WHOLE == 0:
                answered(folder, "")
                assert peak(folder) < MEMORY
            assert resident() - before < MEMORY
        except BaseException as error:
            error.add_note(f"seed {seed} of {name}")
            raise


@pytest.mark.parametrize(("name", "seed"), FAULTS)
def test_what_once_failed(tmp_path: Path, name: str, seed: int) -> None:
    release = Release(name)
    which, text = spoil(release, seed)
    write(tmp_path, release, which, text)
    answered(tmp_path, which)
    answered(tmp_path, "")
    assert peak(tmp_path) < MEMORY
