"""The release of an inspect report, opened again by a stage that plans from its headers."""

from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.reports.inspect import InspectReport


def reopen(inspected: InspectReport) -> Release:
    """Configuration and headers of the release. Day0Error where an address holds something else than when it was inspected.

    Files of this machine were compared when the report was read, and a hub's commit cannot change.
    """
    moving = inspected.source is not None and inspected.source.revision is None
    release = Release.open(inspected.model.folder, () if moving else compared(inspected))
    if moving:
        recorded = {entry.path: entry.sha256 for entry in inspected.provenance.inputs}
        for entry in release.checkpoint.inputs():
            if recorded.get(entry.path) != entry.sha256:
                raise Day0Error(f"{entry.path} has changed since it was inspected", hint=f"run `day0 inspect {release.where}` again")
    return release


def compared(inspected: InspectReport) -> tuple[str, ...]:
    """Paths of the model's files where nothing was found wrong with them, nor with their index."""
    if any(finding.code.startswith(("D01", "D02")) and finding.status != "pass" for finding in inspected.findings):
        return ()
    return tuple(entry.path for entry in inspected.provenance.inputs if entry.path.endswith(".safetensors"))
