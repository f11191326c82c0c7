"""Releases of a few kilobytes, spoiled at random: heads of shards, indexes and configurations."""

import json
import random
import resource
import time
import tracemalloc
from pathlib import Path
from typing import Any

from day0.checkpoint.banks import fold
from day0.checkpoint.config import Config
from day0.checkpoint.folder import recognise_all
from day0.checkpoint.headers import read_shard
from day0.checkpoint.index import read_index
from day0.checkpoint.ledger import Ledger
from day0.checkpoint.quantization import stated
from day0.checkpoint.source import at
from day0.checkpoint.sweep import sweep
from day0.engine.release import recognise
from day0.engine.specs import specs
from day0.spec.errors import Day0Error
from day0.stages.inspect import inspect
from tests.cases.inspected import tensors_of
from tests.checkpoint.shards import entries
from tests.zoo import checkpoint

MEMORY = 64 << 20  # bytes that opening a small release may take
SECONDS = 1.0  # of processor time that it may take
NAMES = {"llama": 55_000, "deepseek_v3-fp8": 15_000, "qwen3_moe-int4": 15_000, "kimi_k25": 15_000}  # release → how many are made of it
INDEX, FILE = "model.safetensors.index.json", "model-1.safetensors"
WORDS = [
    "", "0", "-1", "1e9", "1e999", "NaN", "null", "true", "[]", "{}", '"x"', "9" * 20, "\\u0000", "\\ud800", "}", "{", "]", "[", ",", ":", '"',
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 63, 10**6, 10**9, 10**12, 2**63, 10**30, 0.5, -0.0, 1e300, float("inf"), float("nan"), "", "x", "silu",
    "\x1b[2J", "A" * 5000, [], [1], [[[[1]]]], ["x"] * 9, {}, {"a": {"b": 1}}, {"rope_type": "yarn"}, list(range(300)),
]  # fmt: skip


class Release:
    """Configuration, index and header texts of one release of the zoo, data as a hole."""

    def __init__(self, name: str) -> None:
        header, self.data = entries(tensors_of(name))
        self.config = json.loads((checkpoint(name) / "config.json").read_text())
        self.header = json.dumps(header, separators=(",", ":")).encode()
        self.index = json.dumps({"metadata": {"total_size": self.data}, "weight_map": dict.fromkeys(header, FILE)}).encode()


def spoiled(text: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, taken out, put in, repeated, or words exchanged."""
    raw = bytearray(text)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        place, length = chance.randrange(len(raw) + 1), chance.choice((1, 1, 2, 8, 100))
        match chance.randrange(5):
            case 0:
                raw[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del raw[place : place + length]
            case 2:
                raw[place:place] = chance.choice(WORDS).encode()
            case 3:
                raw[place:place] = raw[place : place + length] * chance.choice((1, 2, 50))
            case _:
                digits = [i for i in range(max(0, place - 200), min(len(raw), place + 200)) if 48 <= raw[i] <= 57]
                if digits:
                    raw[chance.choice(digits)] = 48 + chance.randrange(10)
    return bytes(raw)


def altered(config: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A few keys with other values, taken out, or put where they do not belong."""
    found = json.loads(json.dumps(config))
    for _ in range(chance.choice((1, 1, 2, 4))):
        inner = chance.choice([found, *(value for value in found.values() if isinstance(value, dict) and value)])
        if inner:
            key = chance.choice([*inner])
            match chance.randrange(4):
                case 0:
                    del inner[key]
                case 1:
                    inner[key] = json.loads(json.dumps(chance.choice(list(found.values()))))
                case _:
                    inner[key] = chance.choice(VALUES)
    return found


def spoil(release: Release, seed: int) -> tuple[str, bytes]:
    """(which text, what it is now): "header", "index" or "config"; the same seed gives the same."""
    chance = random.Random(seed)
    which = chance.choice(("header", "index", "config", "keys"))
    if which == "keys":
        return "config", json.dumps(altered(release.config, chance)).encode()
    return which, spoiled({"header": release.header, "index": release.index, "config": json.dumps(release.config).encode()}[which], chance)


def write(folder: Path, release: Release, which: str, text: bytes) -> None:
    """The release with one of its texts as given."""
    texts = {"header": release.header, "index": release.index, "config": json.dumps(release.config).encode(), which: text}
    (folder / "config.json").write_bytes(texts["config"])
    (folder / INDEX).write_bytes(texts["index"])
    head = texts["header"]
    length = len(head) if which != "header" or len(text) % 20 else 2 ** (len(text) % 64)
    with open(folder / FILE, "wb") as file:
        file.write(length.to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + release.data)


def look(folder: Path, which: str) -> None:
    """Read what is spoiled, both ways where there are two, and what depends on it."""
    if which == "header":
        swept = sweep(folder, (FILE,))
        tensors = fold((FILE,), swept.tensors, swept.rows) if swept.shards else read_shard(folder, FILE).tensors
        recognise_all(tensors or read_shard(folder, FILE).tensors, {"weight_block_size": [128, 128]})
    elif which == "index":
        index = read_index(at(folder), Ledger())
        assert index is None or len(dict(index.weight_map)) == len(index.weight_map)
    else:
        config = Config.load(at(folder))
        stated(config, at(folder))
        model = recognise(config)[1].read(config)
        assert sum(spec.count for _, spec in specs(model)) >= 0


def answered(folder: Path, which: str) -> None:
    """An answer, or an error that says what and where, in time; a slow one is given a second chance, because the machine may be to blame."""
    for chance in range(2):
        start = time.process_time()
        try:
            look(folder, which) if which else inspect(folder)
        except Day0Error as error:
            said = error.problem
            assert said
        if time.process_time() - start < SECONDS:
            return
        assert chance == 0, "takes too long"


def peak(folder: Path) -> int:
    """Bytes that inspecting the folder takes at most, as Python counts them."""
    tracemalloc.start()
    try:
        inspect(folder)
    except Day0Error:
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most


def resident() -> int:
    """Most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
