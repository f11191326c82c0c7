"""In float32 the logits of the whole model are the reference's.

Why: layers that are right one by one can still be put together wrongly: an embedding scale, the final norm, the head, a layer left out.

Remedy: if every layer passed, look at what lies outside them.

Example: logits: relative error 0.2: the logit cap is not applied.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import ModelEvidence

LIMIT = 2e-4  # root mean square, relative to that of the logits; the error of one layer passes through all others


def run(evidence: ModelEvidence) -> Iterator[Finding]:
    x = evidence.errors
    if evidence.dtype == "float32" and evidence.forced and not (x.finite and x.ours <= LIMIT):
        found = f"relative error {x.ours:.2g}" if x.finite else "infinity or NaN"
        yield Finding(code="D0801", status="fail", subject=evidence.subject, expected=f"at most {LIMIT:g}", found=found)


CHECK = check(__name__, __doc__, run, "logits")
