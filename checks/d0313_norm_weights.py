"""Weights of norms are stored as the family's formula reads them: gains around one, or differences from one around zero.

Why: some models multiply by the weight, others by one and the weight. A conversion that adds the one to what it stores, and a family that
adds it again, give a model that loads without a word and answers nonsense; so does a one that is never added.

Remedy: compare the means with those of the original release. Where they are one apart, take the original, or a conversion that leaves
norms alone; where they are equal, the family's formula is wrong: see what `day0 validate` says.

Example: residual.mixer_norm: mean 1.02 to 1.04 in 3 tensors, expected around 0: the family multiplies by 1 + w
"""

from collections.abc import Iterator, Sequence

from day0.engine.norms import NormKind
from day0.spec.check import check
from day0.spec.finding import Finding

TEMPERATURES = ("q_norm", "k_norm")  # set how sharp attention is: twice the usual gain is nothing unusual
HINT = "was a one added twice, or never? compare with the original release"


def run(kinds: Sequence[NormKind]) -> Iterator[Finding]:
    """Kinds of norms that fit the other formula; those of queries and keys alone say nothing."""
    odd = [kind for kind in kinds if kind.odd]
    if all(kind.name.endswith(TEMPERATURES) for kind in odd):
        return
    for kind in odd:
        low, high = (f"{mean:.3g}" for mean in (min(kind.means), max(kind.means)))
        found = f"mean {low if low == high else f'{low} to {high}'} in {len(kind.tensors)} tensor{'s' * (len(kind.tensors) > 1)}"
        expected = f"around {0 if kind.formula == '1 + w' else 1}: the family multiplies by {kind.formula}"
        yield Finding(code="D0313", status="warn", subject=kind.name, expected=expected, found=found, hint=HINT)


CHECK = check(__name__, __doc__, run, scope="norms")
