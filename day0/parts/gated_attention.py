"""Grouped-query attention whose output passes a gate (arXiv 2505.06708), the gate coming from the query projection."""

from day0.parts.gqa import Gqa, sites, state, tensors
from day0.spec.part import Part
from day0.spec.record import record


@record
class GatedAttention(Gqa):
    """Rows of the query projection are, head by head, those of the query and those of the gate."""

    @property
    def widths(self) -> dict[str, int]:
        """Rows of the projections q (with the gate), k and v."""
        return {**super().widths, "q": self.heads * (self.qk_dim + self.v_dim)}


PART = Part(tensors=tensors, state=state, sites=sites, cut=("heads", "kv_heads"))
