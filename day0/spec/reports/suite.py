"""How often a model was right."""

from collections.abc import Sequence

from pydantic import Field

from day0.spec.reports.base import Strict


class TaskScore(Strict):
    """Questions of one kind."""

    kind: str = Field(description="what the questions try")
    questions: int = Field(ge=1, description="that were asked")
    right: int = Field(ge=0, description="answers that were exactly right")
    accuracy: float = Field(description="share of right answers, from 0 to 1")
    low: float = Field(description="lower end of the accuracy's 95 % interval (Wilson), from 0 to 1")
    high: float = Field(description="upper end of it, from 0 to 1")


class Wrong(Strict):
    """A question that was not answered rightly."""

    kind: str = Field(description="what it tries")
    prompt: str = Field(description="what was asked")
    expected: str = Field(description="the right answer")
    said: str = Field(description="what the model answered")


class SuiteScore(Strict):
    """A suite, answered by one model through one executor."""

    by: str = Field(description="whose answers: native, community, or what a suite says of others that it was measured with")
    suite: str = Field(default="", description="file of the questions")
    sha256: str = Field(default="", description="of that file")
    tasks: list[TaskScore] = Field(description="one for each kind, in the suite's order")
    left_out: int = Field(default=0, description="questions with images that were not asked, since the plan takes none")
    wrong: list[Wrong] = Field(default_factory=list, description="the first wrong answers of each kind")
    seconds: float | None = Field(default=None, description="that all answers took, seconds; null where nobody measured it")


def by_kind(scores: Sequence[SuiteScore]) -> dict[str, list[TaskScore | None]]:
    """Kind of question → what each scored on it, None where it was not asked."""
    kinds = dict.fromkeys(task.kind for score in scores for task in score.tasks)
    return {kind: [next((task for task in score.tasks if task.kind == kind), None) for score in scores] for kind in kinds}
