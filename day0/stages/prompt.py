"""What a person types, as the tokens a model reads: through the release's chat template, or as it is."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from day0.engine.eye import Eye, place
from day0.engine.text import Tokenizer
from day0.spec.errors import Day0Error
from day0.spec.picture import Picture, Placed
from day0.spec.record import record
from day0.spec.request import Output
from day0.stages.pictures import read_pictures

DEFAULT_NEW = 512  # tokens of an answer at the most, when nobody says
EXAMPLE = 'give a text: day0 run "What is the capital of France?"'


@record
class Prompt:
    """One question."""

    text: str  #: as it was given
    tokens: tuple[int, ...]  #: as the model reads it
    chat: bool  #: whether it went through the chat template
    max_new: int  #: tokens of the answer at the most
    images: tuple[Placed, ...] = ()  #: in the tokens


class Reader:
    """Makes prompts of texts, within the lengths that were planned."""

    def __init__(
        self, tokenizer: Tokenizer, context: int, *, raw: bool = False, max_new: int | None = None, eye: Eye | None = None
    ) -> None:  # fmt: skip
        self.tokenizer, self.context, self.max_new, self.eye = tokenizer, context, max_new, eye
        self.chat = bool(tokenizer.template.sources) and not raw

    def read(self, text: str, images: Sequence[Path] = ()) -> Prompt:
        """One turn of a chat where the release has a template, else a text to continue, which spells the placeholders of its images."""
        if not text.strip():
            raise Day0Error("the prompt is empty", hint=EXAMPLE)
        pictures = self._look(images)
        if self.chat:
            message = {"role": "user", "content": content(text, len(images))}
            return self._prompt(text, self.tokenizer.encode(self.tokenizer.chat([message])), pictures)
        return self._prompt(text, self.tokenizer.encode(text, special=True), pictures)

    def turns(self, lines: Iterable[str], said: "Conversation", images: Sequence[Path] = ()) -> Iterator[list[Prompt]]:
        """A batch of one for each line that says something; each prompt holds the whole conversation, which begins with the images."""
        if not self.chat:
            raise Day0Error("this release has no chat template", self.tokenizer.folder, hint="leave out --chat to continue plain text")
        said.pictures = self._look(images)
        return ([self._turn(line, said)] for line in map(str.strip, lines) if line)

    def _look(self, images: Sequence[Path]) -> list[Picture]:
        if images and self.eye is None:
            raise Day0Error("this plan takes no images", images[0], hint="run `day0 plan-memory --with-vision` and `day0 map-ops` first")
        return read_pictures(images, self.eye) if self.eye is not None else []

    def _turn(self, line: str, said: "Conversation") -> Prompt:
        said.messages.append({"role": "user", "content": content(line, 0 if said.messages else len(said.pictures))})
        prompt = self._prompt(line, self.tokenizer.encode(self.tokenizer.chat(said.messages)), said.pictures)
        said.messages.append({"role": "assistant", "content": ""})
        return prompt

    def _prompt(self, text: str, tokens: list[int], pictures: Sequence[Picture]) -> Prompt:
        placed: tuple[Placed, ...] = ()
        if self.eye is not None:
            tokens, placed = place(tokens, pictures, self.eye.encoder.token)
        room = self.context - len(tokens)
        wanted = self.max_new or min(DEFAULT_NEW, max(1, room))
        if wanted > room:
            problem = f"the prompt has {len(tokens)} tokens, and with {wanted} new ones that is more than the {self.context} of the plan"
            raise Day0Error(problem, hint=f"run `day0 plan-memory --context {len(tokens) + wanted}` and `day0 map-ops`, or ask for less")
        return Prompt(text=text, tokens=tuple(tokens), chat=self.chat, max_new=wanted, images=placed)


class Conversation:
    """What was said so far."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.pictures: list[Picture] = []

    def hear(self, _place: int, output: Output) -> None:
        """Take the model's words into it."""
        self.messages[-1]["content"] += output.text


def content(text: str, images: int) -> str | list[dict[str, str]]:
    """What a person says, after so many images, as chat templates want it."""
    return [*({"type": "image"} for _ in range(images)), {"type": "text", "text": text}] if images else text
