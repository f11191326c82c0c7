"""`--executor community`: the release as transformers runs it, behind the same requests and outputs as our engine."""

import inspect
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from day0.checkpoint.folder import Checkpoint
from day0.community.extra import transformers
from day0.community.media import media
from day0.community.reference import Reference
from day0.engine.sample import Choice, SamplerState, choose, score
from day0.engine.text import TextStream, Tokenizer
from day0.spec.errors import Day0Error
from day0.spec.picture import Placed
from day0.spec.request import Finish, Output, Request, TokenScore


class Community:
    """One sequence at a time, with transformers' own cache; sampling, text and stop strings are day0's."""

    def __init__(self, reference: Reference, tokenizer: Tokenizer | None) -> None:
        self.reference, self.tokenizer = reference, tokenizer
        self.profile: dict[str, float] = {}  # operators are not told apart here
        self.read = 0  # bytes of weights taken from files by steps
        self._model = reference.model
        accepted = inspect.signature(self._model.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"  # renamed in transformers 5.24
        self._sees = {"pixel_values", "image_grid_thw", "mm_token_type_ids"} <= accepted.keys()
        self.vocab: int = self._model.get_output_embeddings().weight.shape[0]
        self._waiting: deque[Request] = deque()
        self._current: tuple[str, Iterator[Output]] | None = None
        self._cache: Any = None

    @classmethod
    def open(
        cls, checkpoint: Checkpoint, dtype: torch.dtype, device: str = "cpu", tokenizer: Tokenizer | None = None, towers: bool = False
    ) -> Self:  # fmt: skip
        """Hold the whole model in memory, with its towers when images will come.

        Day0Error when a shard is damaged or transformers does not know the architecture.
        """
        checkpoint.require_sound()
        return cls(Reference.open(checkpoint, dtype, device=device, towers=towers), tokenizer)

    @property
    def busy(self) -> bool:
        """Whether `step` has something to do."""
        return bool(self.running or self.waiting)

    @property
    def running(self) -> int:
        """Sequences that are being continued: one or none."""
        return int(self._current is not None)

    @property
    def waiting(self) -> int:
        """Requests that have not begun."""
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Take a request; Day0Error when its prompt is empty or holds ids outside the vocabulary, or when the class is given images otherwise.

        Its length is the caller's to judge.
        """
        self._require(request.tokens)
        if request.images and not self._sees:
            raise Day0Error("the community executor is not given images of this family", hint="leave out --executor")
        self._waiting.append(request)

    def cancel(self, id: str) -> None:
        """Forget a request."""
        self._waiting = deque(request for request in self._waiting if request.id != id)
        if self._current and self._current[0] == id:
            self._current, self._cache = None, None

    def step(self) -> list[Output]:
        """One more token of the current sequence; [] when idle."""
        if self._current is None:
            if not self._waiting:
                return []
            request = self._waiting.popleft()
            self._current = request.id, self._continue(request)
        output = next(self._current[1])
        if output.finish:
            self._current, self._cache = None, None
        return [output]

    @torch.no_grad()
    def score(self, sequences: Sequence[Sequence[int]], chunk: int | None = None, decode_from: int | None = None) -> Iterator[Tensor]:
        """Logits after each token, float32 [T, W], one sequence after the other.

        `chunk` tokens are read at a time, and from token `decode_from` on one by one; all at once when both are None.
        """
        for tokens in sequences:
            self._require(tokens)
            cache, start, rows = self._new_cache(), 0, []
            for size in steps(len(tokens), chunk, decode_from):
                rows.append(self._forward(tokens[start : start + size], cache))
                start += size
            yield torch.cat(rows)

    def account(self) -> dict[str, int]:
        """Bytes held now: weights, and keys and values of the current sequence."""
        weights = {t.data_ptr(): t.nbytes for t in (*self._model.parameters(), *self._model.buffers())}
        entries = [t for layer in getattr(self._cache, "layers", ()) for t in vars(layer).values() if isinstance(t, Tensor)]
        return {"weights": sum(weights.values()), "state": sum(t.nbytes for t in entries), "workspace": 0, "activations": 0}

    @torch.no_grad()
    def _continue(self, request: Request) -> Iterator[Output]:
        """One `Output` a token, the last one with its `finish`."""
        self._cache, state = self._new_cache(), SamplerState(request)
        stream = TextStream(self.tokenizer, request.stop, request.tokens) if self.tokenizer else None
        logits_TW = self._forward(request.tokens, self._cache, request.images)
        prompt_scores: tuple[TokenScore, ...] = ()
        if request.prompt_logprobs and len(request.tokens) > 1:
            alternatives = [request.sampling.logprobs or 0] * (len(request.tokens) - 1)
            prompt_scores = tuple(score(logits_TW[:-1], request.tokens[1:], alternatives))
        while True:
            choice = choose(logits_TW[-1:], [state])[0]
            output = _output(request, state, choice, stream)
            yield Output(**{**vars(output), "prompt_scores": prompt_scores})
            prompt_scores = ()
            logits_TW = self._forward([choice.token], self._cache)

    def _new_cache(self) -> Any:
        for module in self._model.modules():
            if getattr(module, "rope_deltas", None) is not None:  # how far images have shifted the positions of the last sequence
                module.rope_deltas = None
        return transformers().DynamicCache(config=self._model.config)

    def _forward(self, tokens: Sequence[int], cache: Any, images: Sequence[Placed] = ()) -> Tensor:
        ids = torch.tensor([list(tokens)], dtype=torch.int64, device=self.reference.device)
        return self._model(input_ids=ids, use_cache=True, **{self._cache_name: cache}, **self._media(ids, images)).logits[0].float()

    def _media(self, ids: Tensor, images: Sequence[Placed]) -> dict[str, Tensor]:
        found = media(self._model, ids, images)
        assert found is not None
        return found

    def _require(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise Day0Error("the prompt is empty", hint="give at least one token")
        strange = [token for token in tokens if not 0 <= token < self.vocab]
        if strange:
            raise Day0Error(f"token {strange[0]} is outside the vocabulary of {self.vocab}")


def _output(request: Request, state: SamplerState, choice: Choice, stream: TextStream | None) -> Output:
    """What one chosen token means: new text, and whether it ends the answer."""
    if choice.error:
        return Output(id=request.id, finish="error", error=choice.error)
    finish: Finish | None = "length" if state.generated >= request.max_new else None
    scores = (choice.score,) if choice.score else ()
    if choice.token in request.stop_tokens:
        return Output(id=request.id, tokens=(choice.token,), text=stream.finish() if stream else "", scores=scores, finish="stop")
    text = stream.push([choice.token]) if stream else ""
    if stream and stream.stopped:
        finish = "stop"
    elif stream and finish:
        text += stream.finish()
    return Output(id=request.id, tokens=(choice.token,), text=text, scores=scores, finish=finish)


def steps(tokens: int, chunk: int | None, decode_from: int | None) -> list[int]:
    """Sizes of the pieces in which a sequence is fed."""
    read = tokens if decode_from is None else min(max(decode_from, 0), tokens)
    size = chunk or max(read, 1)
    return [min(size, read - start) for start in range(0, read, size)] + [1] * (tokens - read)
