"""`day0 inspect`: what a release is, where its bytes are, and whether the copy is sound.

Reads configuration, index, shard headers and tokenizer files; of weights only duplicates, to compare them, a few norms,
samples with --deep, and all with --hash. No torch.
Leaves inspect.yaml. Exit codes of the command: 0 sound; 1 a finding fails; 2 there is no release to look at.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from day0.checkpoint.banks import alike
from day0.checkpoint.deep import Sampled, sample
from day0.checkpoint.folder import Checkpoint, no_collection
from day0.checkpoint.keys import guesses, leaves
from day0.checkpoint.manifest import Digests, digests
from day0.checkpoint.source import Source
from day0.checkpoint.tokenizer import read_tokenizer, templates
from day0.checkpoint.words import Words
from day0.engine import anatomy
from day0.engine.known import Known, by_usual_words
from day0.engine.likely import Likely
from day0.engine.nearest import nearest
from day0.engine.norms import norms
from day0.engine.release import Release
from day0.spec.check import HUNDREDS
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
    NormRow,
    SampleRow,
    SourceRow,
    TemplateRow,
    TokenizerRow,
)  # fmt: skip
from day0.stages.reopen import keep

DEPTH = 8  # nested objects of a configuration that are opened
LONG = 100  # characters of a value that are kept
DIGESTS = "digests.jsonl"
LICENCES = ("LICENSE", "LICENCE", "COPYING", "MODEL_LICENSE", "USE_POLICY")


def inspect(
    model: Source | Path | str, *, hash: bool = False, deep: bool = False, kept: Path | None = None, progress: Progress = silent
) -> InspectReport:  # fmt: skip
    """Inspect the release at `model`, a folder or an address; with `hash`, digest its files whole (see `manifest.digests`); with `deep`,
    sample values. `kept`: folder in which headers and digests are kept, so that nobody need read them again.

    Day0Error without folder or readable config.json. Damage, and a family that nobody knows, are findings.
    """
    with no_collection():
        return _inspected(Checkpoint.open(model, progress), hash, deep, kept, progress)


def _inspected(opened: Checkpoint, hash: bool, deep: bool, kept: Path | None, progress: Progress) -> InspectReport:
    release = understood(opened)
    told = Known(release) if release else likely(opened)
    checkpoint = release.checkpoint if release else opened
    hashed = digests(checkpoint.folder, checkpoint.shards, kept / DIGESTS if kept else None, progress) if hash else None
    sampled = list(sample(checkpoint.folder, checkpoint.headers, progress)) if deep and not checkpoint.config_alone else None
    read = norms(release) if release and not checkpoint.config_alone and checkpoint.source.fetched is None else None
    given: dict[str, object] = {"checkpoint": checkpoint, "release": release, "digests": hashed, "samples": sampled, "norms": read}
    given["likely"] = told if isinstance(told, Likely) else None
    asked = [check for _, check in checks().items(*HUNDREDS["inspect"]) if given.get(check.scope) is not None]
    findings = [finding for check in asked for finding in check.run(given[check.scope])]
    checkpoint = told.release.checkpoint if isinstance(told, Known) else checkpoint
    return InspectReport(
        provenance=Provenance(inputs=checkpoint.inputs()),
        verdict="unsound" if any(finding.status == "fail" for finding in findings) else "sound",
        model=describe(opened, release),
        basis="configuration" if checkpoint.config_alone else "tensors",
        parameters=told.parameters(),
        bytes=weigh(checkpoint, told),
        structure=told.structure(),
        norms=[NormRow(**asdict(kind)) for kind in read or ()],
        layers=told.layers(),
        tokenizer=tokenizer(checkpoint.source),
        template=template(checkpoint.source),
        config=keys(checkpoint, release, told.words),
        evidence=told.evidence(),
        files=files(checkpoint, hashed),
        sample=share(sampled, checkpoint) if sampled is not None else None,
        headers=keep(opened, kept) if kept else None,
        checks=[check.code for check in asked],
        source=came_from(checkpoint.source),
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
        name=checkpoint.source.name,
        folder=checkpoint.source.where,
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
        licence=licence(checkpoint.source),
    )


def predictions(checkpoint: Checkpoint, release: Release | None, words: Words) -> int:
    """Prediction layers that are stored, or declared where the configuration is alone."""
    if release is None:
        return int(words.int("predictions", 0))
    if checkpoint.config_alone:
        return release.model.prediction.count if release.model.prediction else 0
    return len(list(_prefixes(release)))


def licence(source: Source) -> str | None:
    """The file that holds the licence, by its name."""
    return next((name for name in sorted(source.names()) if name.upper().startswith(LICENCES)), None)


def _prefixes(release: Release) -> Iterator[str]:
    """Prefixes of prediction layers that are stored."""
    for prefix in release.model.prediction.prefixes if release.model.prediction else ():
        if any(name.startswith(prefix) for name in release.prediction):
            yield prefix


def keys(checkpoint: Checkpoint, release: Release | None, words: Words) -> ConfigRow:
    """Keys of the configuration that were read, and what the others are likely to change."""
    data = checkpoint.config.data
    if release:
        return ConfigRow(read=dict(release.model.read_keys), unread=guesses(release.model.unread_keys, data), values=dict(values(data)))
    read = {key: f"usual words: {figure}" for figure, keys in words.used.items() for key in keys}
    return ConfigRow(read=read, unread=guesses((key for key in leaves(data) if key not in read), data), values=dict(values(data)))


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


def values(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys of the configuration with their values, on one line each."""
    for key, value in data.items():
        if isinstance(value, dict) and value and prefix.count(".") < DEPTH:
            yield from values(value, f"{prefix}{key}.")
            continue
        text = json.dumps(value)
        if len(text) > LONG:
            text = f"{text[:LONG]}… ({len(text)} characters, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]})"
        yield prefix + key, text


def came_from(source: Source) -> SourceRow | None:
    """What was read of an address."""
    return None if source.fetched is None else SourceRow(**asdict(source.fetched))


def tokenizer(source: Source) -> TokenizerRow | None:
    """Facts of the tokenizer."""
    facts = read_tokenizer(source)
    return None if facts is None else TokenizerRow(file=facts.file, tokens=facts.tokens, highest_id=facts.highest)


def template(source: Source) -> TemplateRow | None:
    """The template that counts."""
    return next((TemplateRow(file=file, characters=len(text)) for file, text in templates(source).items()), None)


def files(checkpoint: Checkpoint, hashed: Digests | None) -> list[FileRow]:
    """Weight files, with a digest of each when asked."""
    found = hashed.found if hashed else {}
    return [FileRow(name=s.file, bytes=s.size, tensors=s.count, sha256=found.get(s.file)) for s in checkpoint.shards.values()]


def share(sampled: Sequence[Sampled], checkpoint: Checkpoint) -> SampleRow:
    """How much was looked at."""
    total, read = sum(header.bytes * times for _, header, times in alike(checkpoint.headers)), sum(one.bytes for one in sampled)
    return SampleRow(tensors=len(sampled), bytes=read, share=read / total if total else 0.0)
