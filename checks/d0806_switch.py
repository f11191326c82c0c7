"""A feature that was turned on in every layer changes next to nothing.

Why: state in 8 bits may be fine in nine layers of ten, and in the last one turn the text to garbage, because no later layer absorbs the
error; or only two layers together do. The average over layers hides it.

Remedy: leave the feature off in the layers that are named: what the rest of them changes is said.

Example: kv-int8 in layer 7: logits diverge by 1.3 nats a token, by 0.002 with it in all other layers.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import SwitchEvidence


def run(evidence: SwitchEvidence) -> Iterator[Finding]:
    if evidence.layers:
        together = "" if len(evidence.layers) == 1 else " together"
        found = f"logits diverge by {evidence.alone:.2g} nats a token with it there{together}, by {evidence.rest:.2g} with it in all other layers"
        yield Finding(code="D0806", status="fail", subject=evidence.subject, expected=f"at most {evidence.limit:g}", found=found)


CHECK = check(__name__, __doc__, run, "switch")
