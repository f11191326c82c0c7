"""The index of a sharded release, and whether it and the shards say the same."""

import json
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from day0.checkpoint import directory
from day0.checkpoint.bytes import same
from day0.checkpoint.directory import Directory
from day0.checkpoint.headers import Opened, Shard
from day0.checkpoint.ledger import Ledger
from day0.checkpoint.pointer import UNFETCHED, is_pointer
from day0.checkpoint.source import Source, whole
from day0.spec.errors import Day0Error
from day0.spec.format import TensorHeader
from day0.spec.record import record

NAME = "model.safetensors.index.json"
LIMIT = 256 << 20  # bytes of an index that is read at all
COMPARED = 64 << 20  # bytes of a duplicate that are compared
UNFINISHED = "download not finished? fetch the absent files"
STALE = "the index is of another revision; download it again with the shards"


@record
class Index:
    """Which file holds which tensor, by the release's own account."""

    weight_map: Mapping[str, str]  #: tensor → file name
    total_size: int | None  #: bytes of all tensors; None when not said
    files: tuple[str, ...]  #: file names, in alphabetical order
    digest: str  #: sha256 of the index itself
    bytes: int  #: of the index itself


def read_index(source: Source, ledger: Ledger) -> Index | None:
    """The index of a release; None when there is none, or none that can be read (a finding)."""
    try:
        text = whole(source, NAME, LIMIT)
        if text is None:
            return None
        if is_pointer(text):
            raise ValueError(UNFETCHED)
        with ThreadPoolExecutor(1) as pool:
            digest = pool.submit(sha256, text)
            weight_map, data = directory.read(text) or _parsed(text)
        files = weight_map.files if isinstance(weight_map, Directory) else sorted(set(weight_map.values()))
        if not all(_inside(file) for file in files):
            raise ValueError("weight_map names a file outside the folder")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        found = f"cannot be used: {type(error).__name__} {error}"[:200]
        ledger.fail("D0202", NAME, expected="a JSON object with weight_map: tensor → file", found=found, hint="download the index again")
        return None
    metadata = data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    total = total if type(total) is int else None
    return Index(weight_map=weight_map, total_size=total, files=tuple(files), digest=digest.result().hexdigest(), bytes=len(text))


def _parsed(text: bytes) -> tuple[Mapping[str, str], dict[str, Any]]:
    data = json.loads(text)
    return data["weight_map"], data


def _inside(file: object) -> bool:
    if not isinstance(file, str) or not file.isprintable() or not file.endswith(".safetensors"):
        return False
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts


def merge(source: Source, index: Index | None, shards: Mapping[str, Opened], ledger: Ledger) -> dict[str, TensorHeader]:
    """Every tensor once, from the shard that the index names; what is in two shards is a finding."""
    headers: dict[str, TensorHeader] = {}
    for shard in shards.values():
        headers.update(shard.tensors)
    times = Counter(name for shard in shards.values() for name in shard.tensors)
    for name in (name for name, count in times.items() if count > 1):
        copies = [shard.tensors[name] for shard in shards.values() if name in shard.tensors]
        picked = index.weight_map.get(name) if index else None
        headers[name] = next((copy for copy in copies if copy.file == picked), copies[-1])
        _tell_duplicate(source, copies, picked, ledger)
    return headers


def _tell_duplicate(source: Source, copies: list[TensorHeader], picked: str | None, ledger: Ledger) -> None:
    try:
        equal = all(same(source.folder, copies[0], copy, COMPARED) for copy in copies[1:])
        bytes = "their bytes are equal" if equal else "their bytes differ"
    except Day0Error:
        equal, bytes = False, "their bytes cannot be compared"
    which = f"the index picks {picked}" if picked in [copy.file for copy in copies] else "nothing says which one counts"
    found = f"in {' and in '.join(copy.file for copy in copies)}; {which}; {bytes}"
    hint = "some loaders refuse this, others take the last one: delete the copy that is wrong"
    ledger.add("warn" if equal else "fail", "D0207", copies[0].name, expected="one copy", found=found, hint=hint)


def compare(index: Index, shards: Mapping[str, Shard], headers: Mapping[str, TensorHeader], ledger: Ledger) -> None:
    """Index and headers, both ways. A tensor of a shard that is absent or unreadable is told with its shard."""
    said = index.weight_map
    if said.agrees(headers) if isinstance(said, Directory) else said == {name: header.file for name, header in headers.items()}:
        return
    lost = {file for file in index.files if file not in shards or not shards[file].readable}
    refused = {name for shard in shards.values() for name in shard.refused}
    for name, file in index.weight_map.items():
        header = headers.get(name)
        if header is None:
            if file not in lost and name not in refused:
                found = "in the index, in no shard"
                ledger.fail("D0205", name, expected=f"in {file}", found=found, hint=STALE)
        elif header.file != file and file not in lost:
            ledger.warn("D0206", name, expected=f"in {file}", found=f"in {header.file}", hint=STALE)
    for name in (name for name in headers if name not in index.weight_map):
        ledger.warn("D0208", name, expected="an entry in the index", found=f"in {headers[name].file}, not in the index", hint=STALE)


def tell_absent(index: Index, shards: Mapping[str, Shard], headers: Mapping[str, TensorHeader], ledger: Ledger) -> None:
    """Shards that the index names and the folder lacks, with what they would have held."""
    absent = [file for file in index.files if file not in shards]
    if not absent:
        return
    counts = Counter(index.weight_map.values())
    damaged = any(not shard.readable or shard.refused for shard in shards.values())
    missing = None if index.total_size is None or damaged else index.total_size - sum(header.bytes for header in headers.values())
    for file in absent:
        found = f"absent; it would hold {counts[file]} tensors"
        if missing is not None and missing > 0:
            found += f" of {missing} bytes" if len(absent) == 1 else f" of the {missing} bytes that {len(absent)} absent shards hold"
        ledger.fail("D0203", file, expected="the shard that the index names", found=found, hint=UNFINISHED)
