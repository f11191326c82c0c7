"""Every tensor has the shape that the configuration gives it, and the pieces of one weight are alike.

Why: configuration and weights of different models load as far as the shapes allow, and the first product that fits by chance is wrong.

Remedy: compare the configuration with the tensors: one of the two belongs to another model.

Example: model.layers.0.self_attn.k_proj.weight: [1024, 4096] for layers.0.mixer.k, expected [512, 4096].
"""

from collections.abc import Iterator

from day0.checkpoint.ledger import Ledger
from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding

HINT = "does the configuration belong to these weights?"


def run(release: Release) -> Iterator[Finding]:
    """Tensors whose shape contradicts the configuration, and experts that differ from one another."""
    ledger = Ledger()
    absent = {*release.missing, *(f"vision.{name}" for name in release.blind)}
    tower = {f"vision.{name}": located for name, located in release.vision.items()}
    for name, located in (release.tensors | tower).items():
        source = located.pieces[0][1]
        if len({stored.shape for stored, _ in located.alike}) > 1:
            ledger.fail("D0305", name, expected="pieces of one shape", found="experts of different shapes", hint=HINT)
        elif located.format == "mixed":
            formats = sorted({stored.format for stored, _ in located.alike})
            ledger.fail("D0305", name, expected="pieces of one format", found=" and ".join(formats), hint=HINT)
        elif located.odd is not None:
            found = f"{located.odd.name} has companions of another kind than {source.name}"
            ledger.fail("D0305", name, expected="pieces stored alike", found=found, hint=HINT)
        elif not located.fits and name not in absent:
            expected = f"{list(located.spec.shape)} by the configuration ({located.spec.axes})"
            ledger.fail("D0305", source.name, expected=expected, found=f"{list(located.shape)} for {name}", hint=HINT)
    yield from ledger.findings()


CHECK = check(__name__, __doc__, run, scope="release")
