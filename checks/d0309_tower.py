"""A tower that the configuration describes is in the checkpoint.

Why: a loader that builds the tower anyway leaves it at random values, and the model sees noise in every image.

Remedy: fetch the shards of the tower, or take its section out of the configuration if the release is meant for text alone.
"""

from collections.abc import Iterator

from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding


def run(release: Release) -> Iterator[Finding]:
    """Towers that are described and not stored; what has neither section nor tensors is a text-only checkpoint."""
    config = release.checkpoint.config.data
    for tower in () if release.checkpoint.config_alone else release.model.towers:
        section = f"{tower.name}_config"
        if release.towers[tower.name]:
            continue
        if config.get(section):
            found, hint = "described, but no tensor of it is stored", "is the download complete?"
            yield Finding(code="D0309", status="fail", subject=section, expected="weights of the tower", found=found, hint=hint)
        elif "text_config" in config:
            yield Finding(code="D0309", status="pass", subject=section, found=f"neither a section nor tensors: without {tower.name}, text only")


CHECK = check(__name__, __doc__, run, scope="release")
