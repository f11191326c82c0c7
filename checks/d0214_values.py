"""No weight holds NaN or infinite values, and no matrix is all zero.

Why: one NaN in a norm or a scale makes every answer NaN; a matrix of zeros is what a sparse or unfinished copy leaves.

Remedy: download the shard again; where a second copy is the same, ask the publisher.
"""

from collections.abc import Iterator, Sequence

from day0.checkpoint.alike import alike
from day0.checkpoint.deep import Sampled
from day0.checkpoint.ledger import Ledger
from day0.spec.check import check
from day0.spec.finding import Finding

HINT = "download the shard again"


def run(samples: Sequence[Sampled]) -> Iterator[Finding]:
    """Tensors whose sample is not finite one by one; those whose sample is zero, alike ones together. A vector of zeros may be meant."""
    ledger = Ledger()
    for sample in samples:
        name, place = sample.header.name, sample.header.file
        if sample.problem:
            ledger.fail("D0214", name, expected="bytes that can be read", found=sample.problem, hint=HINT)
        elif sample.odd:
            found = f"{sample.odd} NaN or infinite values in {sample.bytes} of {sample.header.bytes} bytes, in {place}"
            ledger.fail("D0214", name, expected="finite values", found=found, hint=HINT)
    zero = [sample.header.name for sample in samples if sample.zero and len(sample.header.shape) > 1]
    for subject, names in alike(zero):
        found = f"all zero in {len(names)} tensors, as far as they were sampled"
        ledger.warn("D0214", subject, expected="values", found=found, hint="is the copy complete?")
    yield from ledger.findings()


CHECK = check(__name__, __doc__, run, scope="samples")
