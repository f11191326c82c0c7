"""A released model's folder, opened: configuration, index, shard headers, and how each weight is stored. Reads no weight."""

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from day0.checkpoint.alike import kinds
from day0.checkpoint.config import Config
from day0.checkpoint.headers import Shard, read_shard
from day0.checkpoint.index import NAME, UNFINISHED, Index, compare, merge, read_index, tell_absent
from day0.checkpoint.ledger import Ledger
from day0.checkpoint.quantization import stated
from day0.spec.dtype import FLOATING
from day0.spec.errors import Day0Error
from day0.spec.finding import Finding
from day0.spec.format import IDLE, Format, Stored, TensorHeader
from day0.spec.record import record
from day0.spec.registry import formats
from day0.spec.reports.base import Input, file_input

SMALL = ("generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "hf_quant_config.json")
NUMBERED = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors")


@record
class Checkpoint:
    """What a folder holds, from its headers alone."""

    folder: Path  #: as given
    config: Config  #: config.json
    index: Index | None  #: model.safetensors.index.json
    shards: Mapping[str, Shard]  #: files that make up the model, by name
    headers: Mapping[str, TensorHeader]  #: tensor → header; each tensor once
    stored: Mapping[str, Stored]  #: weight → how it is stored; companions are folded in
    findings: list[Finding]  #: what opening it showed

    @classmethod
    def open(cls, folder: Path) -> "Checkpoint":
        """Day0Error without folder, config.json or valid JSON in it; damage of weight files becomes findings."""
        folder = Path(folder)
        if not folder.is_dir():
            problem = "is a file, not a folder" if folder.exists() else "there is no such folder"
            raise Day0Error(problem, folder, hint="give the folder that holds config.json and the weights")
        config = Config.load(folder / "config.json")
        ledger = Ledger()
        with _no_collection():
            index = read_index(folder, ledger)
            shards = {file: read_shard(folder, file) for file in weight_files(folder, index, ledger)}
            headers = merge(folder, index, shards, ledger)
            if index is not None:
                tell_absent(index, shards, headers, ledger)
                compare(index, shards, headers, ledger)
            stored = recognise_all(headers, stated(config, folder))
        findings = [finding for shard in shards.values() for finding in shard.findings] + ledger.findings()
        return cls(folder=folder, config=config, index=index, shards=shards, headers=headers, stored=stored, findings=findings)

    @cached_property
    def quantization(self) -> Mapping[str, Any]:
        """The quantisation that the configuration speaks of; empty when it speaks of none."""
        return stated(self.config, self.folder)

    @cached_property
    def kinds(self) -> Mapping[str, list[str]]:
        """Pattern → tensors whose names differ only in their numbers."""
        return kinds(self.headers)

    @property
    def config_alone(self) -> bool:
        """Whether the folder holds no weights in any form, and no index of them: figures follow from its configuration."""
        return not self.shards and self.index is None and not other_weights(self.folder)

    def require_sound(self) -> None:
        """Refuse a damaged copy before any weight is read: Day0Error with the first finding that fails, or where there are no weights."""
        for finding in self.findings:
            if finding.status == "fail":
                problem = f"{finding.subject}: {finding.found} ({finding.code})"
                raise Day0Error(problem, self.folder, hint=finding.hint or f"see `day0 explain {finding.code}`")
        if self.config_alone:
            raise Day0Error("the folder holds no weights", self.folder, hint="download them; `day0 inspect` and `day0 plan-memory` need none")

    def inputs(self) -> list[Input]:
        """Files that were read: small ones by their content, shards by their headers."""
        small = [self.folder / name for name in ("config.json", NAME, *SMALL)]
        found = [file_input(path) for path in small if path.is_file()]
        for shard in self.shards.values():
            found.append(Input(path=str((self.folder / shard.file).absolute()), sha256=shard.digest, bytes=shard.size))
        return found


def weight_files(folder: Path, index: Index | None, ledger: Ledger) -> list[str]:
    """Files that make up the model: those of the index, else model.safetensors, else numbered shards, else all."""
    present = sorted(path.name for path in folder.glob("*.safetensors"))
    if index is not None:
        files = [file for file in index.files if (folder / file).exists()]
    elif "model.safetensors" in present:
        files = ["model.safetensors"]
    else:
        files = [name for name in present if NUMBERED.fullmatch(name)] or present
        _tell_gaps(files, ledger)
    if not files and index is None:
        other = other_weights(folder)
        if other:
            found, hint = f"no safetensors file; {other[0]} is there", "convert the weights to safetensors"
            ledger.fail("D0201", str(folder.name), expected="*.safetensors", found=found, hint=hint)
        else:
            found, hint = "none: figures are from the configuration alone", "download the weights to inspect them, and to run the model"
            ledger.warn("D0201", str(folder.name), expected="*.safetensors", found=found, hint=hint)
    return files


def other_weights(folder: Path) -> list[str]:
    """Files of weights in containers that are not read."""
    return sorted(path.name for ending in ("bin", "gguf", "pt", "pth") for path in folder.glob(f"*.{ending}"))


def _tell_gaps(files: list[str], ledger: Ledger) -> None:
    """Numbered shards without an index: each of 1 … N must be there."""
    match = NUMBERED.fullmatch(files[0]) if files else None
    if match:
        stem, _, count = match.groups()
        expected = [f"{stem}-{number:05d}-of-{count}.safetensors" for number in range(1, int(count) + 1)]
        for name in sorted(set(expected) - set(files)):
            ledger.fail("D0203", name, expected=f"{len(expected)} shards", found="absent", hint=UNFINISHED)


def recognise_all(headers: Mapping[str, TensorHeader], config: Mapping[str, Any]) -> dict[str, Stored]:
    """Weight → how it is stored; each tensor belongs to the first format that takes it, by `Format.order`.

    Scales of activations and of the cache stay with the weight that they stand beside.
    """
    idle = {name: header for name, header in headers.items() if name.rpartition(".")[2] in IDLE and header.dtype in FLOATING}
    remaining = {name: header for name, header in headers.items() if name not in idle} if idle else dict(headers)
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
def _no_collection() -> Iterator[None]:
    """Half a million headers are kept, none is garbage: the collector would walk them again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
