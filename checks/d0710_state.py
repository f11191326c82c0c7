"""A sequence that is read in chunks and single tokens leaves the state that one step leaves.

Why: a stale page, an entry in the wrong place or a carried convolution that forgets its last inputs shows only in answers that follow, and
only beyond the first chunk.

Remedy: look at the first entry that is named: the border of a chunk or of a page points at the state manager, any other at the block.

Example: layer 0 state k: relative error 0.4, first in entry 28: the first token of a chunk was not written.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import StateEvidence
from day0.spec.finding import Finding

LIMIT, ROW = 2e-5, 1e-4  # in float32: root mean square, relative to that of the truth; of the worst entry


def run(evidence: StateEvidence) -> Iterator[Finding]:
    x = evidence.errors
    if not (x.finite and x.ours <= LIMIT and x.row_ratio * x.budget <= ROW):
        found = f"relative error {x.ours:.2g}, first in entry {x.first}"
        subject = f"{evidence.subject} {evidence.name}"
        yield Finding(code="D0710", status="fail", subject=subject, expected=f"at most {LIMIT:g}, entry {ROW:g}", found=found)


CHECK = check(__name__, __doc__, run, "state")
