"""The distribution of the next token diverges no more than that of the reference in the same type.

Why: top-1 agreement hides a temperature: logits that are scaled by a few percent keep their order and change every sampled answer.

Remedy: look at the head, the final norm and any factor on logits.

Example: next token: 0.2 nats a token in bfloat16.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import ModelEvidence

LIMIT = 4.0  # divergence grows with the square of the error
FLOORS = {"float32": 1e-6, "float64": 1e-6, "bfloat16": 1e-4, "float16": 1e-5}  # nats


def run(evidence: ModelEvidence) -> Iterator[Finding]:
    allowed = LIMIT * evidence.reference_divergence + FLOORS[evidence.dtype]
    if evidence.forced and not evidence.divergence <= allowed:
        found = f"{evidence.divergence:.2g} nats a token in {evidence.dtype}"
        yield Finding(code="D0804", status="fail", subject=evidence.subject, expected=f"at most {allowed:.2g}", found=found)


CHECK = check(__name__, __doc__, run, "logits")
