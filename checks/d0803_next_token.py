"""The best next token is the reference's about as often as for the reference in the same type.

Why: this is what users see. In float32 it must be the same but for ties; in 16 bits it differs where the reference's own differs.

Remedy: see the rungs below.

Example: next token: differs for 4.1% of 512 tokens in bfloat16.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import ModelEvidence

ROOM = 0.02  # share of tokens, besides twice the reference's own and one token


def run(evidence: ModelEvidence) -> Iterator[Finding]:
    allowed = 2 * (1 - evidence.reference_top1) + ROOM + 1 / evidence.tokens
    if evidence.forced and 1 - evidence.top1 > allowed:
        found = f"differs for {1 - evidence.top1:.1%} of {evidence.tokens} tokens in {evidence.dtype}"
        yield Finding(code="D0803", status="fail", subject=evidence.subject, expected=f"at most {allowed:.1%}", found=found)


CHECK = check(__name__, __doc__, run, "logits")
