"""`day0 inspect`: what a release is, where its bytes are, and whether the copy is sound.

Reads configuration, index, shard headers and tokenizer files; of weights only duplicates, to compare them, and all with --hash. No torch.
Leaves inspect.yaml. Exit codes of the command: 0 sound; 1 a finding fails; 2 there is no release to look at.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from day0.checkpoint import outline
from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.tokenizer import read_tokenizer, templates
from day0.engine import anatomy
from day0.engine.release import Release
from day0.spec.check import Check
from day0.spec.errors import Day0Error
from day0.spec.progress import Progress, silent
from day0.spec.registry import checks
from day0.spec.reports.base import FindingRow, Provenance
from day0.spec.reports.inspect import (
    ByteRow,
    ConfigRow,
    FileRow,
    InspectReport,
    ModelRow,
    TemplateRow,
    TokenizerRow,
)  # fmt: skip

PIECE = 16 << 20  # bytes hashed at once


def inspect(model: Path, *, hash: bool = False, progress: Progress = silent) -> InspectReport:
    """Inspect the release in the folder `model`; with `hash`, digest its files whole.

    Day0Error without folder or readable config.json. Damage, and a family that nobody knows, are findings.
    """
    checkpoint = Checkpoint.open(model)
    release = understood(checkpoint)
    checkpoint = release.checkpoint if release else checkpoint
    asked = list(questions(known=release is not None))
    findings = [finding for check in asked for finding in check.run(release if check.scope == "release" else checkpoint)]
    return InspectReport(
        provenance=Provenance(inputs=checkpoint.inputs()),
        verdict="unsound" if any(finding.status == "fail" for finding in findings) else "sound",
        model=describe(checkpoint, release),
        parameters=anatomy.parameters(release) if release else outline.parameters(checkpoint),
        bytes=weigh(checkpoint, release),
        layers=anatomy.layers(release) if release else outline.layers(checkpoint),
        tokenizer=tokenizer(checkpoint.folder),
        template=template(checkpoint.folder),
        config=ConfigRow(
            read=dict(release.model.read_keys) if release else {},
            unread=list(release.model.unread_keys if release else checkpoint.config.unread()),
        ),
        files=files(checkpoint, hash, progress),
        checks=[check.code for check in asked],
        findings=[FindingRow(**asdict(finding)) for finding in findings],
    )


def understood(checkpoint: Checkpoint) -> Release | None:
    """The release, or None when no family reads it: check D0301 says why."""
    try:
        return Release.of(checkpoint)
    except Day0Error:
        return None


def questions(*, known: bool) -> Iterator[Check]:
    """Checks that need no more than the checkpoint and, where the family is known, the release; in the order of their codes."""
    for _, check in checks().items():
        if check.scope == "checkpoint" or (known and check.scope == "release"):
            yield check


def describe(checkpoint: Checkpoint, release: Release | None) -> ModelRow:
    """What it is; without a family, what the configuration says in the usual words."""
    data, model = checkpoint.config.data, release.model if release else None
    nested = data.get("text_config")
    words: Mapping[str, Any] = {**(nested if isinstance(nested, dict) else {}), **data} if model is None else {}
    kind, architectures = data.get("model_type"), data.get("architectures")
    return ModelRow(
        name=checkpoint.folder.resolve().name,
        folder=str(checkpoint.folder.resolve()),
        family=model.family if model else None,
        model_type=kind if isinstance(kind, str) else None,
        architectures=[str(name) for name in architectures] if isinstance(architectures, list) else [],
        dtype=model.dtype if model else next((words[key] for key in ("dtype", "torch_dtype") if isinstance(words.get(key), str)), None),
        context=model.context if model else _whole(words, "max_position_embeddings"),
        vocab=model.vocab if model else _whole(words, "vocab_size"),
        hidden=model.hidden if model else _whole(words, "hidden_size"),
        tied=model.tied if model else None,
        prediction_layers=len(list(_prefixes(release))) if release else 0,
    )


def _prefixes(release: Release) -> Iterator[str]:
    """Prefixes of prediction layers that are stored."""
    for prefix in release.model.prediction.prefixes if release.model.prediction else ():
        if any(name.startswith(prefix) for name in release.prediction):
            yield prefix


def _whole(words: Mapping[str, Any], key: str) -> int | None:
    value = words.get(key)
    return value if type(value) is int else None


def weigh(checkpoint: Checkpoint, release: Release | None) -> ByteRow:
    """Where the bytes are."""
    by_dtype: Counter[str] = Counter()
    for header in checkpoint.headers.values():
        by_dtype[header.dtype] += header.bytes
    by_format: Counter[str] = Counter()
    for stored in checkpoint.stored.values():
        by_format[stored.format] += stored.bytes
    total = by_dtype.total()
    by_format["unread"] = total - by_format.total()
    roles = anatomy.bytes_by_role(release) if release else {}
    return ByteRow(
        total=total,
        by_dtype=dict(by_dtype.most_common()),
        by_format={name: size for name, size in by_format.most_common() if size},
        by_role=roles or ({"unclaimed": total} if total else {}),
    )


def tokenizer(folder: Path) -> TokenizerRow | None:
    """Facts of the tokenizer."""
    facts = read_tokenizer(folder)
    return None if facts is None else TokenizerRow(file=facts.file, tokens=facts.tokens, highest_id=facts.highest)


def template(folder: Path) -> TemplateRow | None:
    """The template that counts."""
    return next((TemplateRow(file=file, characters=len(text)) for file, text in templates(folder).items()), None)


def files(checkpoint: Checkpoint, hash: bool, progress: Progress) -> list[FileRow]:
    """Weight files, with a digest of each when asked."""
    total, done = sum(shard.size for shard in checkpoint.shards.values()), 0
    rows = []
    for shard in checkpoint.shards.values():
        digest = None
        if hash:
            digest = digest_of(checkpoint.folder / shard.file)
            done += shard.size
            progress("hashing weight files", done, total)
        rows.append(FileRow(name=shard.file, bytes=shard.size, tensors=len(shard.tensors), sha256=digest))
    return rows


def digest_of(path: Path) -> str:
    """sha256 of a whole file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
