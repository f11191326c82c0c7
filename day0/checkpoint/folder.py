"""A released model's folder, opened: configuration, index, shard headers, and how each weight is stored. Reads no weight."""

import gc
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from day0.checkpoint.alike import kinds
from day0.checkpoint.banks import Bank, Folded, alike, fold
from day0.checkpoint.config import Config
from day0.checkpoint.headers import Shard, read_shard
from day0.checkpoint.index import NAME, UNFINISHED, Index, compare, merge, read_index, tell_absent
from day0.checkpoint.kept import Heads
from day0.checkpoint.ledger import Ledger
from day0.checkpoint.quantization import stated
from day0.checkpoint.source import Source, at
from day0.checkpoint.sweep import sweep
from day0.spec.dtype import FLOATING
from day0.spec.errors import Day0Error
from day0.spec.finding import Finding
from day0.spec.format import IDLE, Format, Sample, Stored, TensorHeader
from day0.spec.progress import Progress, silent
from day0.spec.record import record
from day0.spec.registry import formats
from day0.spec.reports.base import Input

SMALL = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "hf_quant_config.json",
    "preprocessor_config.json",
)  # fmt: skip
NUMBERED = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors")


@record
class Checkpoint:
    """What a folder holds, from its headers alone."""

    source: Source  #: where it lies
    config: Config  #: config.json
    index: Index | None  #: model.safetensors.index.json
    shards: Mapping[str, Shard]  #: files that make up the model, by name
    headers: Mapping[str, TensorHeader]  #: tensor → header; each tensor once
    stored: Mapping[str, Stored]  #: weight → how it is stored; companions are folded in
    findings: list[Finding]  #: what opening it showed

    @classmethod
    def open(cls, place: Source | Path | str, progress: Progress = silent, heads: Heads | None = None) -> "Checkpoint":
        """Day0Error without folder, config.json or valid JSON in it; damage of weight files becomes findings.

        `heads`: what the weight files say, where that is known and right; then neither they nor their index are read.
        """
        source = at(place, progress)
        config = Config.load(source)
        ledger = Ledger()
        with no_collection():
            index = None if heads else read_index(source, ledger)
            shards, headers = (heads.shards, heads.headers) if heads else read_shards(source, index, ledger)
            if index is not None:
                tell_absent(index, shards, headers, ledger)
                compare(index, shards, headers, ledger)
            stored = recognise_all(headers, stated(config, source))
        findings = [finding for shard in shards.values() for finding in shard.findings] + ledger.findings()
        return cls(source=source, config=config, index=index, shards=shards, headers=headers, stored=stored, findings=findings)

    @property
    def folder(self) -> Path:
        """The folder that holds the weights; Day0Error where they are not on this machine."""
        return self.source.folder

    @cached_property
    def quantization(self) -> Mapping[str, Any]:
        """The quantisation that the configuration speaks of; empty when it speaks of none."""
        return stated(self.config, self.source)

    @cached_property
    def all_read(self) -> bool:
        """Whether every tensor belongs to a weight in a known format."""
        return sum(len(weight.parts) * times for _, weight, times in alike(self.stored)) == len(self.headers)

    @cached_property
    def kinds(self) -> Mapping[str, list[str]]:
        """Pattern → tensors whose names differ only in their numbers."""
        return kinds(self.headers)

    @cached_property
    def config_alone(self) -> bool:
        """Whether the folder holds no weights in any form, and no index of them: figures follow from its configuration."""
        return not self.shards and self.index is None and not other_weights(self.source.names())

    def require_sound(self) -> None:
        """Refuse a damaged copy before any weight is read: Day0Error with the first finding that fails, or where there are no weights."""
        for finding in self.findings:
            if finding.status == "fail":
                problem = f"{finding.subject}: {finding.found} ({finding.code})"
                raise Day0Error(problem, self.source.where, hint=finding.hint or f"see `day0 explain {finding.code}`")
        if self.config_alone:
            hint = "download them; `day0 inspect` and `day0 plan-memory` need none"
            raise Day0Error("the folder holds no weights", self.source.where, hint=hint)

    def inputs(self) -> list[Input]:
        """Files that were read: small ones by their content, shards by their headers."""
        found = []
        for name in ("config.json", *SMALL):
            size = self.source.size(name)
            if size is not None:
                digest = hashlib.sha256(self.source.read(name, 0, size)).hexdigest()
                found.append(Input(path=self.source.path(name), sha256=digest, bytes=size))
        if self.index is not None:
            found.insert(1, Input(path=self.source.path(NAME), sha256=self.index.digest, bytes=self.index.bytes))
        for shard in self.shards.values():
            found.append(Input(path=self.source.path(shard.file), sha256=shard.digest, bytes=shard.size))
        return found


def read_shards(source: Source, index: Index | None, ledger: Ledger) -> tuple[Mapping[str, Shard], Mapping[str, TensorHeader]]:
    """All heads. Shards that are sound and share no name are read at one sight, others entry by entry."""
    files = tuple(weight_files(source, index, ledger))
    swept = sweep(source, files)
    odd = {file: read_shard(source, file) for file in files if file not in swept.shards}
    headers = fold(files, chain(swept.tensors, (header for shard in odd.values() for header in shard.tensors.values())), swept.rows)
    if headers is not None:
        return {file: odd.get(file) or swept.shards[file] for file in files}, headers
    shards = {file: read_shard(source, file) for file in files}
    return shards, merge(source, index, shards, ledger)


def weight_files(source: Source, index: Index | None, ledger: Ledger) -> list[str]:
    """Files that make up the model: those of the index, else model.safetensors, else numbered shards, else all."""
    names = source.names()
    present = [name for name in names if name.endswith(".safetensors")]
    if index is not None:
        files = list(index.files)
    elif "model.safetensors" in present:
        files = ["model.safetensors"]
    else:
        files = [name for name in present if NUMBERED.fullmatch(name)] or present
        _tell_gaps(files, ledger)
    if not files and index is None:
        other = other_weights(names)
        if other:
            found, hint = f"no safetensors file; {other[0]} is there", "convert the weights to safetensors"
            ledger.fail("D0201", source.name, expected="*.safetensors", found=found, hint=hint)
        else:
            found, hint = "none: figures are from the configuration alone", "download the weights to inspect them, and to run the model"
            ledger.warn("D0201", source.name, expected="*.safetensors", found=found, hint=hint)
    return source.present(files)


def other_weights(names: Iterable[str]) -> list[str]:
    """Files of weights in containers that are not read."""
    return sorted(name for name in names if name.endswith((".bin", ".gguf", ".pt", ".pth")))


def _tell_gaps(files: list[str], ledger: Ledger) -> None:
    """Numbered shards without an index: each of 1 … N must be there."""
    match = NUMBERED.fullmatch(files[0]) if files else None
    if match:
        stem, _, count = match.groups()
        expected = [f"{stem}-{number:05d}-of-{count}.safetensors" for number in range(1, int(count) + 1)]
        for name in sorted(set(expected) - set(files)):
            ledger.fail("D0203", name, expected=f"{len(expected)} shards", found="absent", hint=UNFINISHED)


def recognise_all(headers: Mapping[str, TensorHeader], config: Mapping[str, Any]) -> Mapping[str, Stored]:
    """Weight → how it is stored; of alike experts the first one stands for all.

    Each tensor belongs to the first format that takes it, by `Format.order`. Scales of activations and of the cache stay with the
    weight that they stand beside.
    """
    sample = Sample({name: header for name, header, _ in alike(headers)}, times={name: times for name, _, times in alike(headers)})
    stored = _recognise(sample, config)
    if not isinstance(headers, Folded) or not headers.banks:
        return stored
    owner = {bank.name(tail): bank for bank, tails in headers.banks for tail in tails}
    folded: dict[Bank, dict[str, Stored]] = {bank: {} for bank, _ in headers.banks}
    singles = {}
    for name, weight in stored.items():
        bank = owner.get(weight.parts["data"].name)
        if bank:
            folded[bank][bank.tail(name)] = weight
        else:
            singles[name] = weight
    return Folded(singles, list(folded.items()), Bank.stored)


def _recognise(headers: Sample, config: Mapping[str, Any]) -> dict[str, Stored]:
    idle = {name: header for name, header in headers.items() if name.rpartition(".")[2] in IDLE and header.dtype in FLOATING}
    remaining = Sample({name: header for name, header in headers.items() if name not in idle}, headers.times)
    stored: dict[str, Stored] = {}
    known: list[Format] = sorted((format for _, format in formats().items()), key=lambda format: format.order)
    for format in known:
        for weight in list(format.recognise(remaining, config)):
            if weight.name not in stored and all(part.name in remaining for part in weight.parts.values()):
                stored[weight.name] = weight
                for part in weight.parts.values():
                    del remaining[part.name]
    for name, header in idle.items():
        _attach(name, header, stored)
    return stored


def _attach(name: str, header: TensorHeader, stored: dict[str, Stored]) -> None:
    """Fold an idle companion into its weight: `x.input_scale` into `x.weight`, `self_attn.k_scale` into that of `self_attn.k_proj`.

    What stands beside no weight is a weight of its own, for a family to claim or for a check to name.
    """
    module, _, kind = name.rpartition(".")
    attention = module.removesuffix(".attn")
    for owner in (f"{module}.weight", f"{attention}.{kind[0]}_proj.weight", f"{attention}.kv_b_proj.weight"):
        weight = stored.get(owner)
        if weight is not None and kind not in weight.parts:
            stored[owner] = weight._replace(parts={**weight.parts, kind: header})
            return
    stored[name] = Stored(name, "plain", header.shape, {"data": header})


@contextmanager
def no_collection() -> Iterator[None]:
    """What is read of a release is kept, none of it is garbage: the collector would walk it again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
