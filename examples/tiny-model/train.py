"""Train tiny-glm5next from scratch: text and pictures together, then its indexers, then a little more with sparse attention.

    python examples/tiny-model/train.py OUT                             about an hour on two cores
    python examples/tiny-model/train.py OUT --steps 200 --fit 0 --settle 0   a look at whether it learns

Sizes, tokenizer and picture settings are those of examples/tiny-glm5next. OUT is a release in bfloat16, which quantise.py packs.
"""

import argparse
import json
import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
import transformers
from chunked_delta import chunked_delta
from indexer import Watch
from muon import optimisers
from tasks import KINDS, Sample, recall, sample
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers.models.glm5_next import modeling_glm5_next as community
from transformers.models.glm5_next.image_processing_pil_glm5_next import Glm5NextImageProcessorPil

EXAMPLE = Path(__file__).parents[1] / "tiny-glm5next"
COPIED = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "preprocessor_config.json", "generation_config.json")
SHARES = {"facts": 4, "arithmetic": 3, "counting": 1, "recall": 3, "long recall": 2, "repeating": 2, "captions": 7}
MUON, ADAM = 0.018, 0.003  # learning rates
WARM_UP, LAST = 50, 0.05  # steps; share of the rate at the end
ON_PROMPT = 0.02  # weight of prompt tokens: they hold random words, whose noise drowns the answers at 0.1


class Batches:
    """Samples of all kinds mixed: in batches of one kind nothing is learned."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.random = size, Random(seed)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(EXAMPLE)
        self.processor = Glm5NextImageProcessorPil.from_pretrained(EXAMPLE)
        self.image = json.loads((EXAMPLE / "config.json").read_text())["image_token_id"]

    def next(self, progress: float) -> tuple[dict[str, Tensor], Tensor]:
        """Inputs of the model, and the weight of each token as a target [B, S]."""
        rows, weights, images = [], [], []
        for kind in self.random.choices(list(SHARES), list(SHARES.values()), k=self.size):
            one = self._sample(kind, progress)
            prompt, answer = self._tokens(one)
            rows.append(torch.tensor(prompt + answer))
            weights.append(torch.tensor([ON_PROMPT] * len(prompt) + [1.0] * len(answer)))
            images += [one.image] if one.image else []
        ids, weight = (torch.nn.utils.rnn.pad_sequence(each, batch_first=True) for each in (rows, weights))
        real = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        media = self.processor(images, return_tensors="pt") if images else {}
        return {"input_ids": ids, "attention_mask": real, **media}, weight * (ids != self.image)

    def _sample(self, kind: str, progress: float) -> Sample:
        """Lists grow slowly: a sudden jump to long ones unlearns copying."""
        if kind != "long recall":
            return sample(kind, self.random)
        most = 4 + round(20 * min(1.0, progress / 0.7))
        return Sample(kind, *recall(self.random, max(2, most // 2), most))

    def _tokens(self, one: Sample) -> tuple[list[int], list[int]]:
        said = ([{"type": "image"}] if one.image else []) + [{"type": "text", "text": one.prompt}]
        text = self.tokenizer.apply_chat_template([{"role": "user", "content": said}], tokenize=False, add_generation_prompt=True)
        prompt, answer = (self.tokenizer.encode(part, add_special_tokens=False) for part in (text, f"{one.answer}<|end|>"))
        if one.image:
            at, (_, height, width) = prompt.index(self.image), self.processor(one.image, return_tensors="pt")["image_grid_thw"][0].tolist()
            prompt[at : at + 1] = [self.image] * (height * width // self.processor.merge_size**2)
        return prompt, answer


def build(seed: int) -> Any:
    """The model with fresh weights in float32, and the fast delta rule in its place."""
    torch.manual_seed(seed)
    community.chunk_kimi_delta_attention = chunked_delta
    config = transformers.AutoConfig.from_pretrained(EXAMPLE)
    for stated in (config, config.text_config):
        stated.__dict__.pop("quantization_config", None)
    config._attn_implementation = "eager"
    return transformers.Glm5NextForConditionalGeneration._from_config(config, dtype=torch.float32)


def rate(step: int, steps: int) -> float:
    """Share of the full learning rate: warmed up, then down a cosine."""
    return min(1.0, (step + 1) / WARM_UP) * (LAST + (1 - LAST) * (1 + math.cos(math.pi * step / steps)) / 2)


def train(model: Any, batches: Batches, steps: int, scale: float = 1.0, grown: bool = False) -> None:
    """Lower the weighted loss of the next token."""
    tuned, told = optimisers(model, MUON, ADAM), Told()
    full = [optimiser.param_groups[0]["lr"] * scale for optimiser in tuned]
    for step in told(steps):
        inputs, weight = batches.next(1.0 if grown else step / steps)
        logits = model(**inputs).logits[:, :-1].flatten(0, 1)
        each = cross_entropy(logits, inputs["input_ids"][:, 1:].flatten(), reduction="none").view_as(weight[:, 1:])
        answers = weight[:, 1:] == 1
        told.say(f"loss on answers {each[answers].mean():.3f}")
        ((each * weight[:, 1:]).sum() / weight[:, 1:].sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser, lr in zip(tuned, full, strict=True):
            optimiser.param_groups[0]["lr"] = lr * rate(step, steps)
            optimiser.step()
        model.zero_grad(set_to_none=True)


def fit(model: Any, watch: Watch, batches: Batches, steps: int) -> None:
    """Teach the indexers what attention reads; everything else stays."""
    kinds = enumerate(zip(model.config.text_config.layer_types, model.config.text_config.indexer_types, strict=True))
    owners, owner = {}, -1
    for index, (attention, kind) in kinds:
        if attention == "indexed_attention":
            owner = index if kind == "full" else owner
            owners[index] = owner
    parameters = [parameter for indexer in watch.indexers.values() for parameter in indexer.parameters()]
    adam, told = torch.optim.AdamW(parameters, lr=ADAM), Told()
    for step in told(steps):
        inputs, _ = batches.next(1.0)
        with torch.no_grad():
            found = model(**inputs, output_attentions=True).attentions
        loss = watch.loss(dict(zip(owners, found, strict=True)), owners, inputs["attention_mask"].bool())
        told.say(f"divergence of the indexers {loss:.3f}")
        loss.backward()
        adam.param_groups[0]["lr"] = ADAM * rate(step, steps)
        adam.step()
        adam.zero_grad()


class Told:
    """Counts steps, and says every so often how it goes."""

    def __init__(self, every: int = 20) -> None:
        self.every = every

    def __call__(self, steps: int) -> Iterator[int]:
        self.steps, start = steps, time.perf_counter()
        for self.step in range(steps):
            self.seconds = (time.perf_counter() - start) / max(1, self.step)
            yield self.step

    def say(self, text: str) -> None:
        if self.step % self.every == 0 or self.step == self.steps - 1:
            print(f"step {self.step:5} of {self.steps}   {text}   {self.seconds:.2f} s a step", flush=True)



def save(model: Any, out: Path) -> None:
    """As a release in bfloat16."""
    model.config.dtype = torch.bfloat16
    model.to(torch.bfloat16).save_pretrained(out, max_shard_size="5MB")
    for name in COPIED:
        shutil.copy(EXAMPLE / name, out)


def main() -> None:
    assert set(SHARES) == set(KINDS)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2800, help="with dense attention")
    parser.add_argument("--fit", type=int, default=300, help="of the indexers alone")
    parser.add_argument("--settle", type=int, default=200, help="with sparse attention")
    parser.add_argument("--batch", type=int, default=28)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    model, batches = build(wanted.seed), Batches(wanted.batch, wanted.seed)
    watch, few = Watch(model), model.config.text_config.index_topk
    watch.dense(model.config.text_config.max_position_embeddings)
    train(model, batches, wanted.steps)
    fit(model, watch, batches, wanted.fit)
    watch.dense(few)
    train(model, batches, wanted.settle, scale=0.1, grown=True)
    save(model, wanted.out)


if __name__ == "__main__":
    main()
