"""Over HTTP, one request at a time, the service says what the engine says.

Why: between an engine and its clients stand a tokenizer, defaults of sampling, ends of answers and a stream of pieces; a model that passes
every other rung still answers wrongly when one of them does.

Remedy: ask the service by hand with `temperature` 0 and compare with `day0 run --raw`; look at what the release sets as defaults.

Example: service, prompt of 9 tokens, alone: token 3 of 16 differs.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import ServiceEvidence


def run(evidence: ServiceEvidence) -> Iterator[Finding]:
    if evidence.alone and not evidence.sound:
        expected = "the answer of the engine itself"
        yield Finding(code="D0901", status="fail", subject=evidence.subject, expected=expected, found=evidence.found)


CHECK = check(__name__, __doc__, run, "service")
