"""What a person types, as the tokens a model reads: through the release's chat template, or as it is."""

from collections.abc import Iterable, Iterator

from day0.engine.text import Tokenizer
from day0.spec.errors import Day0Error
from day0.spec.record import record
from day0.spec.request import Output

DEFAULT_NEW = 512  # tokens of an answer at the most, when nobody says
EXAMPLE = 'give a text: day0 run "What is the capital of France?"'


@record
class Prompt:
    """One question."""

    text: str  #: as it was given
    tokens: tuple[int, ...]  #: as the model reads it
    chat: bool  #: whether it went through the chat template
    max_new: int  #: tokens of the answer at the most


class Reader:
    """Makes prompts of texts, within the lengths that were planned."""

    def __init__(self, tokenizer: Tokenizer, context: int, *, raw: bool = False, max_new: int | None = None) -> None:
        self.tokenizer, self.context, self.max_new = tokenizer, context, max_new
        self.chat = bool(tokenizer.template.sources) and not raw

    def read(self, text: str) -> Prompt:
        """One turn of a chat where the release has a template, else a text to continue."""
        if not text.strip():
            raise Day0Error("the prompt is empty", hint=EXAMPLE)
        if self.chat:
            return self._prompt(text, self.tokenizer.encode(self.tokenizer.chat([{"role": "user", "content": text}])))
        return self._prompt(text, self.tokenizer.encode(text, special=True))

    def turns(self, lines: Iterable[str], said: "Conversation") -> Iterator[list[Prompt]]:
        """A batch of one for each line that says something; each prompt holds the whole conversation."""
        if not self.chat:
            raise Day0Error("this release has no chat template", self.tokenizer.folder, hint="leave out --chat to continue plain text")
        return ([self._turn(line, said)] for line in map(str.strip, lines) if line)

    def _turn(self, line: str, said: "Conversation") -> Prompt:
        said.messages.append({"role": "user", "content": line})
        prompt = self._prompt(line, self.tokenizer.encode(self.tokenizer.chat(said.messages)))
        said.messages.append({"role": "assistant", "content": ""})
        return prompt

    def _prompt(self, text: str, tokens: list[int]) -> Prompt:
        room = self.context - len(tokens)
        wanted = self.max_new or min(DEFAULT_NEW, max(1, room))
        if wanted > room:
            problem = f"the prompt has {len(tokens)} tokens, and with {wanted} new ones that is more than the {self.context} of the plan"
            raise Day0Error(problem, hint=f"run `day0 plan-memory --context {len(tokens) + wanted}` and `day0 map-ops`, or ask for less")
        return Prompt(text=text, tokens=tuple(tokens), chat=self.chat, max_new=wanted)


class Conversation:
    """What was said so far."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []

    def hear(self, _place: int, output: Output) -> None:
        """Take the model's words into it."""
        self.messages[-1]["content"] += output.text
