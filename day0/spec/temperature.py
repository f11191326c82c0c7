"""How queries grow with their position, so that attention stays sharp over long contexts (Scalable-Softmax, arXiv 2501.19399)."""

from typing import TYPE_CHECKING

from day0.spec.record import record

if TYPE_CHECKING:
    from torch import Tensor


@record
class Temperature:
    """Factor 1 + beta · ln(1 + ⌊position / context⌋) on queries."""

    beta: float  #: growth
    context: int  #: tokens in which the factor stays what it is

    def factors(self, positions_T: "Tensor") -> "Tensor":
        """[T], float32."""
        return 1 + self.beta * (positions_T / self.context).floor().log1p()
