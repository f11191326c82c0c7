"""The shape of experts that are stored together tells their outputs from their inputs.

Why: releases store banks of experts as [experts, outputs, inputs] or the other way round, under the same names. Most shapes fit one of
both alone; a bank of square matrices fits either, and so do its scales. Loaded the wrong way it is finite, and wrong.

Remedy: none is needed where the release is what the family says. Of a copy that another tool wrote, run `day0 validate`: it names the bank
that is right once it is transposed.

Example: model.layers.*.mlp.experts.down_proj: [8, 64, 64] in 4 tensors: orientation cannot be told from shape, taken from the family:
qwen3_vl_moe stores [experts, inputs, outputs]
"""

from collections.abc import Iterator

from day0.checkpoint.alike import alike
from day0.checkpoint.ledger import Ledger
from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.format import Stored

HINT = "run `day0 validate` if another tool wrote this copy"


def run(release: Release) -> Iterator[Finding]:
    """Banks whose matrices are square as they are stored, alike ones together, with the rule that was followed."""
    ledger, found = Ledger(), dict[tuple[tuple[int, ...], bool], dict[str, None]]()
    for located in release.tensors.values():
        piece, stored = located.pieces[0]
        if located.spec.role == "expert" and not located.stacked and len(stored.shape) == 3 and located.fits and ambiguous(stored):
            found.setdefault((stored.shape, piece.cut is not None and piece.cut.transpose), {})[stored.name] = None
    for (shape, turned), names in found.items():
        rule = f"{release.model.family} stores [experts, {'inputs, outputs' if turned else 'outputs, inputs'}]"
        for subject, members in alike(names):
            many = f" in {len(members)} tensors" if len(members) > 1 else ""
            text = f"{list(shape)}{many}: orientation cannot be told from shape, taken from the family: {rule}"
            ledger.warn("D0314", subject, expected="", found=text, hint=HINT)
    yield from ledger.findings()


def ambiguous(stored: Stored) -> bool:
    """Whether the matrices of a bank are square, and no companion is longer one way than the other."""
    shapes = [stored.shape, *(header.shape for header in stored.kept.values() if len(header.shape) > 2)]
    return all(shape[-1] == shape[-2] for shape in shapes)


CHECK = check(__name__, __doc__, run, scope="release")
