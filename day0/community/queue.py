"""The community executor behind the engine's own face: requests go in, steps come out, one sequence after the other."""

from collections import deque
from collections.abc import Iterator

from day0.community.executor import Community
from day0.spec.request import Output, Request


class Queue:
    """`add`, `step`, `cancel`, `busy` as the engine has them. A step is one token of the oldest request."""

    def __init__(self, community: Community) -> None:
        self.community = community
        self.profile: dict[str, float] = {}  # the class's operators are its own
        self._waiting: deque[Request] = deque()
        self._current: tuple[str, Iterator[Output]] | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is not answered yet."""
        return bool(self._waiting) or self._current is not None

    def add(self, request: Request) -> None:
        """Take a request; what is wrong with it is said when its turn comes."""
        self._waiting.append(request)

    def cancel(self, id: str) -> None:
        """Forget a request."""
        self._waiting = deque(request for request in self._waiting if request.id != id)
        if self._current and self._current[0] == id:
            self._current = None

    def step(self) -> list[Output]:
        """One token; [] when idle."""
        if self._current is None:
            if not self._waiting:
                return []
            request = self._waiting.popleft()
            self._current = (request.id, self.community.generate(request))
        output = next(self._current[1])
        if output.finish:
            self._current = None
        return [output]

    def account(self) -> dict[str, int]:
        """Bytes of the weights; the class does not tell what else it holds."""
        weights = {id(p): p.nbytes for p in self.community.reference.model.parameters() if not p.is_meta}
        return {"weights": sum(weights.values())}
