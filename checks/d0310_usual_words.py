"""Where no family reads a release, the usual words of its configuration say what its tensors say.

Why: width, layers, vocabulary and experts are all that is known of a new model; where two sources contradict each other, one is of another
model, and a family written from the wrong one reads nonsense.

Remedy: compare the configuration with the tensors: one of the two belongs to another model, or the word means something else here.

Example: num_experts: 128 by the tensors of model.layers.3, expected 256 by the configuration
"""

from collections.abc import Iterator

from day0.checkpoint.ledger import Ledger
from day0.engine.likely import Likely
from day0.spec.check import check
from day0.spec.finding import Finding

HINT = "does the configuration belong to these weights?"


def run(likely: Likely) -> Iterator[Finding]:
    """Figures that both tell, and tell differently."""
    ledger, words = Ledger(), likely.words
    for figure, found, source in facts(likely):
        stated = words.int(figure)
        if stated is not None and found not in (stated, None):
            key = words.used[figure][0]
            ledger.warn("D0310", key, expected=f"{stated} by the configuration", found=f"{found} by {source}", hint=HINT)
    yield from ledger.findings()


def facts(likely: Likely) -> Iterator[tuple[str, int | None, str]]:
    """(figure, what tensors say, which tensors)."""
    prefix = likely.outline.prefix
    if likely.outline.rows:
        yield "layers", len(likely.outline.rows), f"the layers below {prefix}"
    for index, signature in likely.signatures.items():
        routed = likely.kinds[signature].routed
        if routed:
            yield "experts", routed, f"the tensors of {prefix}.{index}"
            break
    wide = [name for name in likely.outline.ends if len(likely.shape(name)) == 2 and "embed" in name]
    for name in wide[:1]:
        rows, width = likely.shape(name)
        yield "vocab", rows, name
        yield "hidden", width, name


CHECK = check(__name__, __doc__, run, scope="likely")
