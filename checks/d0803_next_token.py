"""The best next token is the reference's wherever the reference is sure of it.

Why: this is what users see. In float32 it must be the same but for ties. In 16 bits it may be another where the reference in float32 prefers its
own by no more than the reference's rounding in that type explains.

Remedy: see the rungs below.

Example: next token: differs for 4.1% of 512 tokens in bfloat16, of which the reference is sure.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import ModelEvidence

ROOM = 0.02  # share of tokens, besides one


def run(evidence: ModelEvidence) -> Iterator[Finding]:
    allowed, astray = ROOM + 1 / evidence.tokens, evidence.astray / evidence.tokens
    if evidence.forced and astray > allowed:
        found = f"differs for {astray:.1%} of {evidence.tokens} tokens in {evidence.dtype}, of which the reference is sure"
        yield Finding(code="D0803", status="fail", subject=evidence.subject, expected=f"at most {allowed:.1%}", found=found)


CHECK = check(__name__, __doc__, run, "logits")
