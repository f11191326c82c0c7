"""Choosing the next token of every sequence of a batch from its logits."""

import math
import secrets
from collections.abc import Sequence

import torch

from day0.spec.record import record
from day0.spec.request import Request, TokenScore

COLDEST = 1e-30  # temperature below which float32 could not divide
CHUNK = 256  # rows whose log-probabilities are computed at a time when a whole prompt is scored


@record
class Choice:
    """What was chosen for one sequence, or why nothing could be."""

    token: int  #: id; -1 when there is an error
    score: TokenScore | None = None  #: when the request asked for log-probabilities
    error: str = ""  #: why the request must end


class SamplerState:
    """How one request chooses its tokens, and what it has chosen so far.

    Its random numbers come from a generator of its own, one number a token, so that its tokens do not depend on its neighbours.
    """

    def __init__(self, request: Request) -> None:
        self.sampling = request.sampling
        self.generated = 0  # tokens chosen so far
        self._prompt = request.tokens
        self._min_new, self._stop_tokens = request.min_new, sorted(request.stop_tokens)
        self._counts_W: torch.Tensor | None = None  # times each token was generated
        self._prompt_W: torch.Tensor | None = None  # whether each token is in the prompt
        seed = self.sampling.seed
        self.seed = secrets.randbits(63) if seed is None else seed & (1 << 63) - 1  # of its generator
        self._generator = torch.Generator().manual_seed(self.seed)

    @property
    def plain(self) -> bool:
        """Whether the best logit wins as it is."""
        s = self.sampling
        return s.temperature == 0 and not self._penalises and not s.logit_bias and not self._bans_stop

    def uniform(self) -> float:
        """The next random number of this request, in [0, 1)."""
        return torch.rand((), generator=self._generator, dtype=torch.float64).item()

    def take(self, token: int) -> None:
        """Remember what was chosen."""
        self.generated += 1
        if self._counts_W is not None:
            self._counts_W[token] += 1

    def adjust(self, logits_W: torch.Tensor) -> None:
        """Logit bias, penalties and banned stop tokens, in place, in that order."""
        s = self.sampling
        if s.logit_bias:
            tokens, biases = zip(*s.logit_bias, strict=True)
            logits_W[list(tokens)] += torch.tensor(biases, dtype=logits_W.dtype, device=logits_W.device)
        if self._penalises:
            self._penalise(logits_W)
        if self._bans_stop:
            logits_W[self._stop_tokens] = -math.inf

    @property
    def _penalises(self) -> bool:
        s = self.sampling
        return s.repetition_penalty != 1 or s.presence_penalty != 0 or s.frequency_penalty != 0

    @property
    def _bans_stop(self) -> bool:
        return self.generated < self._min_new and bool(self._stop_tokens)

    def _penalise(self, logits_W: torch.Tensor) -> None:
        s = self.sampling
        if self._counts_W is None or self._prompt_W is None:
            self._counts_W = torch.zeros_like(logits_W)
            self._prompt_W = torch.zeros_like(logits_W, dtype=torch.bool)
            self._prompt_W[list(self._prompt)] = True
        generated_W = self._counts_W > 0
        if s.repetition_penalty != 1:
            weaker_W = torch.where(logits_W > 0, logits_W / s.repetition_penalty, logits_W * s.repetition_penalty)
            logits_W.copy_(torch.where(self._prompt_W | generated_W, weaker_W, logits_W))
        logits_W -= s.frequency_penalty * self._counts_W + s.presence_penalty * generated_W


@torch.inference_mode()
def choose(logits_BW: torch.Tensor, states: Sequence[SamplerState]) -> list[Choice]:
    """The next token of each sequence, which its state remembers; `logits_BW` is float32 and stays as it is.

    A sequence whose largest logit is not finite gets an error instead of a token; the others go on.
    """
    best = logits_BW.max(-1)  # NaN counts as largest
    tokens: list[int] = best.indices.tolist()
    sound = [math.isfinite(value) for value in best.values.tolist()]
    shaped = [b for b, state in enumerate(states) if sound[b] and not state.plain]
    if shaped:
        for b, token in zip(shaped, _draw(logits_BW[shaped], [states[b] for b in shaped]), strict=True):
            tokens[b] = token
    asked = [b for b, state in enumerate(states) if sound[b] and state.sampling.logprobs is not None]
    wanted = [states[b].sampling.logprobs or 0 for b in asked]
    scores = dict(zip(asked, score(logits_BW[asked], [tokens[b] for b in asked], wanted), strict=True)) if asked else {}
    choices = []
    for b, state in enumerate(states):
        if not sound[b] or tokens[b] < 0:
            why = "every token is excluded" if sound[b] else "the model computed logits that are not finite"
            choices.append(Choice(token=-1, error=why))
            continue
        state.take(tokens[b])
        choices.append(Choice(token=tokens[b], score=scores.get(b)))
    return choices


@torch.inference_mode()
def score(logits_NW: torch.Tensor, tokens: Sequence[int], alternatives: Sequence[int]) -> list[TokenScore]:
    """Log-probabilities of `tokens` and of the best `alternatives` of each row, in the model's own distribution.

    That is before bias, penalties, temperature and filters: what OpenAI's clients expect, and what evaluations need.
    """
    scores = []
    for start in range(0, len(tokens), CHUNK):
        rows = slice(start, start + CHUNK)
        chosen, counts = tokens[rows], alternatives[rows]
        logprobs_NW = torch.log_softmax(logits_NW[rows].float(), dim=-1)
        own = logprobs_NW.gather(1, torch.tensor(chosen, device=logits_NW.device)[:, None])[:, 0].tolist()
        top = logprobs_NW.topk(min(max(counts), logits_NW.shape[1]), dim=-1)
        best = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        for token, logprob, count, (ids, values) in zip(chosen, own, counts, best, strict=True):
            scores.append(TokenScore(token=token, logprob=logprob, top=tuple(zip(ids[:count], values[:count], strict=True))))
    return scores


def _draw(logits_BW: torch.Tensor, states: Sequence[SamplerState]) -> list[int]:
    """One token for each row of a copy of the logits; -1 where nothing is left to choose from."""
    for row_W, state in zip(logits_BW, states, strict=True):
        state.adjust(row_W)
    best = logits_BW.max(-1)
    tokens = [token if value > -math.inf else -1 for token, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
    warm = [b for b, state in enumerate(states) if state.sampling.temperature > 0 and tokens[b] >= 0]
    if warm:
        chosen = [states[b] for b in warm]
        heat_B = _column([max(state.sampling.temperature, COLDEST) for state in chosen], logits_BW)
        scaled_BW = (logits_BW[warm] - best.values[warm, None]) / heat_B
        for b, token in zip(warm, _pick(keep(scaled_BW, chosen), [state.uniform() for state in chosen]), strict=True):
            tokens[b] = token
    return tokens


def keep(scaled_BW: torch.Tensor, states: Sequence[SamplerState]) -> torch.Tensor:
    """Tempered logits with -inf for what top-k, top-p and min-p drop, in that order; each row depends on itself alone."""
    sampling = [state.sampling for state in states]
    words = scaled_BW.shape[1]
    if any(0 < s.top_k < words for s in sampling):
        ks = [s.top_k if 0 < s.top_k < words else words for s in sampling]
        best_BK = scaled_BW.topk(max(k for k in ks if k < words), dim=-1).values
        least = [best_BK[b, k - 1] if k < words else best_BK.new_tensor(-math.inf) for b, k in enumerate(ks)]
        scaled_BW = scaled_BW.masked_fill(scaled_BW < torch.stack(least)[:, None], -math.inf)
    cut = [b for b, s in enumerate(sampling) if s.top_p < 1]
    if cut:
        nucleus_BW = _nucleus(scaled_BW[cut].softmax(-1), _column([sampling[b].top_p for b in cut], scaled_BW))
        scaled_BW = scaled_BW.index_put((torch.tensor(cut, device=scaled_BW.device),), scaled_BW[cut].masked_fill(~nucleus_BW, -math.inf))
    if any(s.min_p > 0 for s in sampling):
        share_B = _column([s.min_p for s in sampling], scaled_BW)
        least_B = scaled_BW.amax(-1, keepdim=True) + share_B.log()
        scaled_BW = scaled_BW.masked_fill(scaled_BW < least_B, -math.inf)
    return scaled_BW


def _nucleus(probs_BW: torch.Tensor, p_B: torch.Tensor) -> torch.Tensor:
    """Whether each token is in the smallest set whose probability reaches p (arXiv 1904.09751, §3.1); of equals the lower id.

    What is less likely than (1 - p) / W is outside whatever the order, which leaves the sort little to do.
    """
    possible_BW = probs_BW >= (1 - p_B) / probs_BW.shape[1]
    ordered = torch.sort(probs_BW * possible_BW, dim=-1, descending=True, stable=True)
    before_BW = ordered.values.cumsum(-1) - ordered.values
    inside_BW = torch.zeros_like(possible_BW).scatter_(1, ordered.indices, before_BW < p_B)
    return inside_BW & possible_BW


def _pick(kept_BW: torch.Tensor, uniforms: Sequence[float]) -> list[int]:
    """Invert each row's cumulative distribution at its random number."""
    sums_BW = kept_BW.softmax(-1).cumsum(-1)
    total_B = sums_BW[:, -1:]
    below_B = torch.nextafter(total_B, torch.zeros_like(total_B))
    target_B = torch.minimum(_column(uniforms, kept_BW) * total_B, below_B)
    return torch.searchsorted(sums_BW, target_B, right=True)[:, 0].tolist()


def _column(values: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
