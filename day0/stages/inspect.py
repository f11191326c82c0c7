"""`day0 inspect`: what a release is, where its bytes are, and whether the copy is sound.

Reads configuration, index, shard headers and tokenizer files; of weights only duplicates, to compare them, and all with --hash. No torch.
Leaves inspect.yaml. Exit codes of the command: 0 sound; 1 a finding fails; 2 there is no release to look at.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.keys import guesses, leaves
from day0.checkpoint.tokenizer import read_tokenizer, templates
from day0.checkpoint.words import Words
from day0.engine import anatomy
from day0.engine.known import Known, by_usual_words
from day0.engine.likely import Likely
from day0.engine.nearest import nearest
from day0.engine.release import Release
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

LICENCES = ("LICENSE", "LICENCE", "COPYING", "MODEL_LICENSE", "USE_POLICY")
PIECE = 16 << 20  # bytes hashed at once


def inspect(model: Path, *, hash: bool = False, progress: Progress = silent) -> InspectReport:
    """Inspect the release in the folder `model`; with `hash`, digest its files whole.

    Day0Error without folder or readable config.json. Damage, and a family that nobody knows, are findings.
    """
    checkpoint = Checkpoint.open(model)
    release = understood(checkpoint)
    checkpoint = release.checkpoint if release else checkpoint
    told = Known(release) if release else likely(checkpoint)
    given = {"checkpoint": checkpoint, "release": release, "likely": told if isinstance(told, Likely) else None}
    asked = [check for _, check in checks().items() if given.get(check.scope) is not None]
    findings = [finding for check in asked for finding in check.run(given[check.scope])]
    checkpoint = told.release.checkpoint if isinstance(told, Known) else checkpoint
    return InspectReport(
        provenance=Provenance(inputs=checkpoint.inputs()),
        verdict="unsound" if any(finding.status == "fail" for finding in findings) else "sound",
        model=describe(checkpoint, release),
        basis="configuration" if checkpoint.config_alone else "tensors",
        parameters=told.parameters(),
        bytes=weigh(checkpoint, told),
        structure=told.structure(),
        layers=told.layers(),
        tokenizer=tokenizer(checkpoint.folder),
        template=template(checkpoint.folder),
        config=keys(checkpoint, release, told.words),
        evidence=told.evidence(),
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


def likely(checkpoint: Checkpoint) -> Known | Likely:
    """What can be told of a release that no family reads."""
    return (by_usual_words(checkpoint) if checkpoint.config_alone else None) or Likely(checkpoint)


def describe(checkpoint: Checkpoint, release: Release | None) -> ModelRow:
    """What it is; without a family, what the configuration says in the usual words."""
    data, model, words = checkpoint.config.data, release.model if release else None, Words.of(checkpoint.config.data)
    kind, architectures = data.get("model_type"), data.get("architectures")
    closest = None if release else nearest(checkpoint)
    return ModelRow(
        name=checkpoint.folder.resolve().name,
        folder=str(checkpoint.folder.resolve()),
        family=model.family if model else None,
        model_type=kind if isinstance(kind, str) else None,
        architectures=[str(name) for name in architectures] if isinstance(architectures, list) else [],
        dtype=model.dtype if model else words.text("dtype"),
        context=model.context if model else words.int("context"),
        vocab=model.vocab if model else words.int("vocab"),
        hidden=model.hidden if model else words.int("hidden"),
        tied=model.tied if model else None,
        prediction_layers=predictions(checkpoint, release, words),
        closest=str(closest) if closest else None,
        licence=licence(checkpoint.folder),
    )


def predictions(checkpoint: Checkpoint, release: Release | None, words: Words) -> int:
    """Prediction layers that are stored, or declared where the configuration is alone."""
    if release is None:
        return int(words.int("predictions", 0))
    if checkpoint.config_alone:
        return release.model.prediction.count if release.model.prediction else 0
    return len(list(_prefixes(release)))


def licence(folder: Path) -> str | None:
    """The file that holds the licence, by its name."""
    return next((path.name for path in sorted(folder.iterdir()) if path.name.upper().startswith(LICENCES) and path.is_file()), None)


def _prefixes(release: Release) -> Iterator[str]:
    """Prefixes of prediction layers that are stored."""
    for prefix in release.model.prediction.prefixes if release.model.prediction else ():
        if any(name.startswith(prefix) for name in release.prediction):
            yield prefix


def keys(checkpoint: Checkpoint, release: Release | None, words: Words) -> ConfigRow:
    """Keys of the configuration that were read, and what the others are likely to change."""
    data = checkpoint.config.data
    if release:
        return ConfigRow(read=dict(release.model.read_keys), unread=guesses(release.model.unread_keys, data))
    read = {key: f"usual words: {figure}" for figure, keys in words.used.items() for key in keys}
    return ConfigRow(read=read, unread=guesses((key for key in leaves(data) if key not in read), data))


def weigh(checkpoint: Checkpoint, told: Known | Likely) -> ByteRow:
    """Where the bytes are."""
    cells = anatomy.cells(checkpoint, told.roles(), "ignored" if isinstance(told, Known) else "unclaimed")

    def division(by: str) -> dict[str, int]:
        held: Counter[str] = Counter()
        for cell in cells:
            held[getattr(cell, by)] += cell.bytes
        return dict(held.most_common())

    total = sum(cell.bytes for cell in cells)
    return ByteRow(total=total, by_dtype=division("dtype"), by_format=division("format"), by_role=division("role"), cells=cells)


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
