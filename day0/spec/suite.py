"""Questions with known answers, as a file that lies beside a model or anywhere else."""

from pydantic import Field

from day0.spec.reports.base import Strict
from day0.spec.reports.suite import SuiteScore

FILE = "day0-suite.json"  # beside a release


class Question(Strict):
    """One question that has one right answer."""

    kind: str = Field(min_length=1, max_length=80, description="what it tries; accuracy is counted for each kind")
    prompt: str = Field(min_length=1, description="one turn of a chat, or a text to continue where the release has no template")
    answer: str = Field(description="what the model has to say, letter for letter but for blanks at the ends")
    images: list[str] = Field(default_factory=list, max_length=16, description="files below the folder of the suite, in the prompt's order")


class Suite(Strict):
    """A file of questions."""

    about: str = Field(default="", description="what the questions are, and where they come from")
    max_new: int = Field(default=64, ge=1, le=4096, description="tokens of an answer at the most")
    questions: list[Question] = Field(min_length=1, max_length=100_000, description="in the order in which they are asked")
    measured: list[SuiteScore] = Field(default_factory=list, description="what others scored on it, such as the model before it was packed")
