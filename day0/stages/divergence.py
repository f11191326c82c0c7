"""The first thing that is wrong, told in one line: where it is, down to the operator, the expert and the columns, and how it looks."""

from collections.abc import Sequence
from typing import Literal

from day0.spec.evidence import CallEvidence, Evidence, HeldEvidence, OperatorEvidence, Rung
from day0.spec.finding import Finding
from day0.spec.model import Model
from day0.spec.reports.validate import Divergence
from day0.spec.whole_evidence import DepthEvidence, ModelEvidence, NormEvidence, TowerEvidence
from day0.stages.diff import spans

JUMP = 10.0  # times the error of the layer before: a fault begins here
STREAM = 2e-4  # relative error that passing through all layers explains
MOST = 0.9  # of the tokens behind a border: a mask is wrong, not a number
LASTING = 0.1  # of the error where it began: what a stream that stays wrong keeps
DECIDED = {
    "D0704": "rule", "D0705": "rule", "D0708": "choice", "D0709": "choice", "D0707": "position", "D0710": "state", "D0711": "position",
}  # fmt: skip
DISAGREE = "D0712"
BROAD = ("", "a part of the rows")  # patterns that say less than where the rows begin


def divergence(
    model: Model, rung: Rung, evidence: Evidence, finding: Finding, failed: Sequence[Finding], seen: Sequence[Evidence]
) -> Divergence:
    """Of the failure that comes first; `seen`: everything that was measured; `failed`: every finding that failed."""
    call = next((one for one in seen if isinstance(one, CallEvidence) and one.layer == evidence.layer), None)
    call = None if finding.code in DECIDED else call
    errors = getattr(evidence, "errors", None) or getattr(evidence, "scores", None)
    columns = call.columns if call else getattr(evidence, "columns", None) or (errors.columns if errors else None)
    expert = call.expert if call else getattr(evidence, "expert", None)
    experts = list(call.experts) if call else [] if expert is None else [expert]
    row = call.row if call else errors.first if errors else None
    operator, weights = (call.op, call.label) if call else (_operator(evidence), _weights(evidence))
    ratio = errors.ratio if errors and 0 < errors.ratio < 1e30 else None
    looks = _pattern(evidence, finding, failed, call)
    place = evidence if call is None or (evidence.part, call.part) == ("router", "ffn") else call
    words = [
        f"layer {evidence.layer}" if evidence.layer is not None else "", _kind(model, place), _outside(evidence, seen),
        f"{operator} {weights}".strip() if operator else weights, _named(experts),
        f"columns {columns[0]}–{columns[1]}" if columns else "", f"first in row {row}" if row else "",
        f"ratio {ratio:.3g}" if ratio else "", looks,
    ]  # fmt: skip
    return Divergence(
        rung=rung, layer=evidence.layer, part=place.part, code=finding.code, statistic=f"{finding.subject}: {finding.found}",
        expected=finding.expected, line=f"first wrong at {', '.join(word for word in words if word)}", operator=operator, weights=weights,
        expert=expert, experts=experts, row=row, columns=columns, ratio=ratio, pattern=looks, course=_course(seen, evidence.layer),
        references=_references(evidence, failed),
    )  # fmt: skip


def _references(evidence: Evidence, failed: Sequence[Finding]) -> str:
    """What is said where two references disagree, in this layer; of the part that is wrong rather than of another one."""
    here = [one for one in failed if one.code == DISAGREE and one.subject.startswith(f"layer {evidence.layer} ")]
    found = {one.subject: f"{one.subject}: {one.found}" for one in here}
    return found.get(evidence.subject, next(iter(found.values()), ""))


def _named(experts: Sequence[int]) -> str:
    """"expert 5", "experts 4-7"."""
    return f"expert{'s' if len(experts) > 1 else ''} {spans(list(experts))}" if experts else ""


def _operator(evidence: Evidence) -> str | None:
    return evidence.op or None if isinstance(evidence, OperatorEvidence | TowerEvidence) else None


def _weights(evidence: Evidence) -> str:
    if isinstance(evidence, OperatorEvidence):
        return f"by {evidence.provider}"
    return str(getattr(evidence, "name", ""))


def _kind(model: Model, evidence: Evidence) -> str:
    """What the part is called: "moe_ffn" for the ffn of a sparse layer."""
    if isinstance(evidence, TowerEvidence | NormEvidence):
        return evidence.subject
    part = getattr(model.layers[evidence.layer], evidence.part, None) if evidence.layer is not None else None
    return part.kind if part is not None else evidence.part


def _outside(evidence: Evidence, seen: Sequence[Evidence]) -> str:
    """Of a norm or of logits that are wrong: whether the stream of the last layer, or of the first one, is."""
    depths = [one for one in seen if isinstance(one, DepthEvidence) and one.dtype == "float32"]
    if not isinstance(evidence, NormEvidence | ModelEvidence) or not depths:
        return ""
    if depths[-1].errors.ours <= STREAM:
        equal = f"layers 0–{depths[-1].layer} equal"
        return equal if isinstance(evidence, NormEvidence) else f"after the last norm (head), {equal}"
    return "before the first layer (embedding)" if depths[0].errors.ours > STREAM else ""


def _pattern(evidence: Evidence, finding: Finding, failed: Sequence[Finding], call: CallEvidence | None) -> str:
    """One change that would explain all of it; "precision" where float32 is right; "mask" where attention is right up to a border."""
    errors = getattr(evidence, "errors", None)
    found = errors.pattern if errors else getattr(evidence, "pattern", "")
    if call and call.pattern and finding.code not in DECIDED:
        return call.pattern
    if finding.code in DECIDED:
        return DECIDED[finding.code]
    if isinstance(evidence, HeldEvidence):
        return evidence.pattern or ("" if evidence.columns is None and evidence.rows is None else "a part of the weight")
    own = getattr(evidence, "dtype", "float32") != "float32"
    if own and not any(other.subject == finding.subject and other.code in ("D0701", "D0703") for other in failed):
        return "precision"
    if call and "attention" in call.op and found in BROAD and call.row > 1 and call.rows >= MOST * (call.tokens - call.row):
        return "mask"
    return str(found)


def _course(seen: Sequence[Evidence], layer: int | None) -> Literal["", "step", "spike"]:
    """How the stream of the whole model goes on after `layer`."""
    profile = {one.layer: one.errors.ours for one in seen if isinstance(one, DepthEvidence) and one.dtype == "float32"}
    if layer not in profile or layer is None:
        return ""
    before = profile.get(layer - 1, 0.0)
    if profile[layer] < JUMP * before:
        return ""
    later = [error for place, error in profile.items() if place is not None and place > layer]
    return "spike" if later and min(later) < LASTING * profile[layer] else "step"
