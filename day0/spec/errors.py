"""The one exception that is meant for a person."""


class Day0Error(Exception):
    """What went wrong, where, and what to do about it; the command line prints it and exits with 2."""

    def __init__(self, problem: str, where: object = None, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = None if where is None else str(where)
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.problem}{hint}"


class Refused(Day0Error):
    """The tool worked, and the answer is no: the command line prints it and exits with 1."""
