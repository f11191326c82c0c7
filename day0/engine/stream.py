"""Text as it is generated: whole characters only, and nothing that may turn out to belong to a stop string."""

from collections.abc import Iterable, Sequence

from day0.engine.tokenizer import Tokenizer

LOST = "\N{REPLACEMENT CHARACTER}"  # how the bytes of half a character decode
HELD = 3  # bytes, at the most, of a character that is not complete
CONTEXT = 8  # tokens that new ones are decoded after: of the prompt at first, or of a window that was let go
WINDOW = 32  # tokens that are decoded together, at the most


class TextStream:
    """Turns the tokens of one answer into text.

    The pieces that `push` and `finish` return make up the decoded answer, cut where the first stop string is complete.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), prompt: Sequence[int] = ()) -> None:
        self.stopped = False  # whether a stop string was found
        self._tokenizer, self._stop = tokenizer, tuple(text for text in stop if text)
        self._tokens = [token for token in prompt[-CONTEXT:] if token not in tokenizer.special]
        while self._tokens and self._decode().startswith(LOST):
            del self._tokens[0]
        self._mark()
        self._pending = ""  # whole characters that may begin a stop string

    def push(self, tokens: Iterable[int]) -> str:
        """New text that is certain; nothing more once a stop string was found."""
        text = "".join(self._next(token) for token in tokens if not self.stopped and token not in self._tokenizer.special)
        return self._release(text)

    def finish(self) -> str:
        """What was held back; half a character as U+FFFD."""
        if self.stopped:
            return ""
        rest = self._release(self._decode()[self._sent :])
        rest, self._pending = rest + self._pending, ""
        return rest

    def _next(self, token: int) -> str:
        """Text up to the last whole character, once there is one; a window of nothing but broken ones is let go."""
        self._tokens.append(token)
        text = self._decode()
        broken = text.endswith(LOST)
        if broken and len(self._tokens) < WINDOW:
            return ""
        new = _whole(text)[self._sent :]
        self._tokens = self._tokens[-CONTEXT:] if broken else self._tokens[self._read :]
        self._mark()
        return new

    def _mark(self) -> None:
        """The text of the window is out, but for half a character at its end, which keeps all its tokens needed."""
        text = self._decode()
        self._read = 0 if text.endswith(LOST) else len(self._tokens)
        self._sent = len(_whole(text))

    def _decode(self) -> str:
        return self._tokenizer.decode(self._tokens)

    def _release(self, text: str) -> str:
        """Pass on what cannot belong to a stop string; of several stop strings the one that is complete first counts."""
        if not self._stop or self.stopped:
            return "" if self.stopped else text
        self._pending += text
        found = [(at + len(stop), at) for stop in self._stop if (at := self._pending.find(stop)) >= 0]
        if found:
            self.stopped = True
            out, self._pending = self._pending[: min(found)[1]], ""
            return out
        split = len(self._pending) - max(_overlap(self._pending, stop) for stop in self._stop)
        out, self._pending = self._pending[:split], self._pending[split:]
        return out


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)


def _whole(text: str) -> str:
    """Without what may be half a character at the end."""
    end = len(text)
    while end > len(text) - HELD and text[:end].endswith(LOST):
        end -= 1
    return text[:end]
