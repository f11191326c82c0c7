"""Every layer has as many experts as the configuration says.

Why: a pruned release keeps one number for all layers; a loader that believes it looks for experts that were taken out.

Remedy: none is needed where router and experts agree; day0 counts the experts that are there.
"""

from collections.abc import Iterator

from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding


def run(release: Release) -> Iterator[Finding]:
    """Layers whose router and experts agree on another number."""
    for index, stated in release.pruned.items():
        found = f"{getattr(release.model.layers[index].ffn, 'experts', 0)} experts, and as many rows of the router"
        yield Finding(code="D0312", status="warn", subject=f"layer {index}", expected=f"{stated} experts by the configuration", found=found)


CHECK = check(__name__, __doc__, run, scope="release")
