"""Under load the service says what it says to one client alone, but for near ties.

Why: requests that share a batch share kernels, pages and state. A fault that needs company is not seen by anyone who asks alone: answers
that are right in every test and wrong in the evening.

Remedy: serve with `--record DIR` and give a wrong answer's bundle to `day0 replay`, which tells a near tie from a dependence on the company.

Example: service, prompt of 9 tokens, under load: token 3 of 16 differs where the best two were 2.1 apart.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import ServiceEvidence


def run(evidence: ServiceEvidence) -> Iterator[Finding]:
    if not evidence.alone and not evidence.sound:
        expected = "the answer of the engine itself, or another one from a near tie on"
        yield Finding(code="D0902", status="fail", subject=evidence.subject, expected=expected, found=evidence.found)


CHECK = check(__name__, __doc__, run, "service")
