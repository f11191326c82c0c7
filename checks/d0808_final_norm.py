"""What the head reads of the reference's last stream is what the reference's head reads.

Why: the last norm is written in another place than those of the layers, and forgotten there: without the one that is added to its weight
every layer is right, the logits keep most of their order, and perplexity doubles.

Remedy: look at the last norm, and at what joins several streams before it; a change that would mend it is named where there is one.

Example: final norm: relative error 0.5: right with one added to the weight.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import NormEvidence

FLOAT32, LIMIT = 2e-5, 2.0  # relative error; to the larger of the reference's error and the budget


def run(evidence: NormEvidence) -> Iterator[Finding]:
    x, exact = evidence.errors, evidence.dtype == "float32"
    if not (x.finite and (x.ours <= FLOAT32 if exact else x.ratio <= LIMIT)):
        error = f"relative error {x.ours:.2g}" if exact else f"{x.ratio:.3g} times the reference's error of {x.reference:.2g}"
        found = error + (f": {x.pattern}" if x.pattern else "") if x.finite else "infinity or NaN"
        yield Finding(code="D0808", status="fail", subject=evidence.subject, expected=f"at most {FLOAT32 if exact else LIMIT:g}", found=found)


CHECK = check(__name__, __doc__, run, "norm")
