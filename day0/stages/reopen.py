"""The release of an inspect report, opened again by a stage that plans from its headers; and what inspect keeps of them for that."""

import hashlib
from pathlib import Path

from day0.checkpoint.banks import Folded
from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.kept import Heads
from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.reports.base import Input, replace
from day0.spec.reports.inspect import InspectReport

FILE = "headers.npz"


def reopen(inspected: InspectReport) -> Release:
    """Configuration and headers of the release. Day0Error where an address holds something else than when it was inspected.

    Files of this machine were compared when the report was read, and a hub's commit cannot change.
    """
    moving = inspected.source is not None and inspected.source.revision is None
    release = Release.open(inspected.model.folder, None if moving else recall(inspected))
    if moving:
        recorded = {entry.path: entry.sha256 for entry in inspected.provenance.inputs}
        for entry in release.checkpoint.inputs():
            if recorded.get(entry.path) != entry.sha256:
                raise Day0Error(f"{entry.path} has changed since it was inspected", hint=f"run `day0 inspect {release.where}` again")
    return release


def keep(checkpoint: Checkpoint, folder: Path) -> Input | None:
    """Keep the headers of a release in a file of `folder`; None, and no file, where something is wrong with one of them."""
    headers = checkpoint.headers
    if not checkpoint.shards or not isinstance(headers, Folded) or any(finding.status != "pass" for finding in checkpoint.findings):
        return None
    return replace(folder / FILE, Heads(shards=checkpoint.shards, headers=headers).to_bytes())


def recall(inspected: InspectReport) -> Heads | None:
    """The headers that were kept; None where there are none, or the file is not the one that was written."""
    kept = inspected.headers
    try:
        content = Path(kept.path).read_bytes() if kept else b""
    except OSError:
        return None
    return Heads.of_bytes(content) if kept and hashlib.sha256(content).hexdigest() == kept.sha256 else None
