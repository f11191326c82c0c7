"""Train tiny-glm5next: its tower alone, text and pictures together, then its indexers, then a little more with sparse attention.

    python examples/tiny-model/train.py OUT                                             from nothing: about an hour on two cores
    python examples/tiny-model/train.py OUT --tower 0 --steps 200 --fit 0 --settle 0    a look at whether it learns
    python examples/tiny-model/train.py OUT --source RELEASE --steps 400                more captions for a release that is trained

Sizes, tokenizer and picture settings are those of examples/tiny-glm5next. OUT is a release in bfloat16, which quantise.py packs.
"""

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
import tower
import transformers
from chunked_delta import chunked_delta
from descent import Descent
from indexer import Watch
from muon import optimisers
from tasks import KINDS, Sample, recall, sample
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers.models.glm5_next import modeling_glm5_next as community
from transformers.models.glm5_next.image_processing_pil_glm5_next import Glm5NextImageProcessorPil

EXAMPLE = Path(__file__).parents[1] / "tiny-glm5next"
COPIED = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "preprocessor_config.json", "generation_config.json")
SHARES = {"facts": 4, "arithmetic": 3, "counting": 1, "recall": 3, "long recall": 2, "repeating": 2, "captions": 7}
MORE_CAPTIONS = SHARES | {"facts": 2, "arithmetic": 2, "counting": 0, "recall": 2, "long recall": 0, "repeating": 1, "captions": 21}
HALF_CAPTIONS = SHARES | {"captions": 15}
MUON, ADAM = 0.018, 0.003  # learning rates
GENTLE, SETTLING = 0.35, 0.2  # share of them for a model that is trained already, and with sparse attention
ON_PROMPT = 0.02  # weight of prompt tokens: they hold random words, whose noise drowns the answers at 0.1
ON_NAMES = 5.0  # of colours and shapes in captions, which are few among the words around them
PARTS = 2  # of a batch, shorter and longer samples, so that less is padded
LONGEST = 128  # tokens of a sample

Part = tuple[dict[str, Tensor], Tensor]


class Batches:
    """Samples of all kinds mixed: in batches of one kind nothing is learned."""

    def __init__(self, size: int, seed: int, shares: dict[str, int] = SHARES, on_prompt: float = ON_PROMPT) -> None:
        self.size, self.random, self.shares = size, Random(seed), shares
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(EXAMPLE)
        self.processor = Glm5NextImageProcessorPil.from_pretrained(EXAMPLE)
        self.on_prompt, self.names = on_prompt, {token for names in tower.NAMES for token in self.words(names)}
        self.image = json.loads((EXAMPLE / "config.json").read_text())["image_token_id"]

    def next(self, progress: float) -> list[Part]:
        """Inputs of the model, and the weight of each token as a target [B, S]; in parts of similar lengths."""
        kinds = self.random.choices(list(self.shares), list(self.shares.values()), k=self.size)
        samples = [self._sample(kind, progress) for kind in kinds]
        rows = sorted(((*self.tokens(one), one) for one in samples), key=lambda row: len(row[0]) + len(row[1]))
        size = -(-len(rows) // PARTS)
        return [self.part(rows[first : first + size]) for first in range(0, len(rows), size)]

    def part(self, rows: list[tuple[list[int], list[int], Sample]]) -> Part:
        """Prompts and answers, padded to the longest."""
        ids = pad_sequence([torch.tensor(prompt + answer) for prompt, answer, _ in rows], batch_first=True)
        real = pad_sequence([torch.ones(len(prompt) + len(answer)) for prompt, answer, _ in rows], batch_first=True)
        weight = pad_sequence([torch.tensor([self.on_prompt] * len(p) + self.weights(a, one)) for p, a, one in rows], batch_first=True)
        images = [one.image for _, _, one in rows if one.image]
        media = self.processor(images, return_tensors="pt") if images else {}
        return {"input_ids": ids, "attention_mask": real.long(), **media}, weight * (ids != self.image)

    def _sample(self, kind: str, progress: float) -> Sample:
        """Lists grow slowly: a sudden jump to long ones unlearns copying."""
        if kind != "long recall":
            return sample(kind, self.random)
        most = 4 + round(20 * min(1.0, progress / 0.7))
        return Sample(kind, *recall(self.random, max(2, most // 2), most))

    def weights(self, answer: list[int], one: Sample) -> list[float]:
        """Of the tokens of an answer."""
        return [ON_NAMES if one.image and token in self.names else 1.0 for token in answer]

    def words(self, names: Sequence[str]) -> list[int]:
        """Tokens of words inside a sentence."""
        return [self.tokenizer.encode(f" {name}", add_special_tokens=False)[0] for name in names]

    def tokens(self, one: Sample) -> tuple[list[int], list[int]]:
        """Of the prompt, as the chat template writes it, and of the answer."""
        said = ([{"type": "image"}] if one.image else []) + [{"type": "text", "text": one.prompt}]
        text = self.tokenizer.apply_chat_template([{"role": "user", "content": said}], tokenize=False, add_generation_prompt=True)
        prompt, answer = (self.tokenizer.encode(part, add_special_tokens=False) for part in (text, f"{one.answer}<|end|>"))
        if one.image:
            at, (_, height, width) = prompt.index(self.image), self.processor(one.image, return_tensors="pt")["image_grid_thw"][0].tolist()
            prompt[at : at + 1] = [self.image] * (height * width // self.processor.merge_size**2)
        return prompt, answer


def build(seed: int, source: Path | None) -> Any:
    """The model in float32 with fresh weights or those of a release, and the fast delta rule in its place."""
    torch.manual_seed(seed)
    community.chunk_kimi_delta_attention = chunked_delta
    kind, how = transformers.Glm5NextForConditionalGeneration, dict[str, Any](dtype=torch.float32, attn_implementation="eager")
    if source:
        return kind.from_pretrained(source, **how)
    config = transformers.AutoConfig.from_pretrained(EXAMPLE)
    for stated in (config, config.text_config):
        stated.__dict__.pop("quantization_config", None)
    return kind._from_config(config, **how)


def train(model: Any, batches: Batches, steps: int, scale: float = 1.0, grown: bool = False) -> None:
    """Lower the weighted loss of the next token."""
    descent = Descent(model, optimisers(model, MUON * scale, ADAM * scale), steps)
    for step in descent:
        parts, said, answers = batches.next(1.0 if grown else step / steps), 0.0, 0
        whole = sum(weight[:, 1:].sum() for _, weight in parts)
        for inputs, weight in parts:
            logits, targets = model(**inputs).logits[:, :-1].flatten(0, 1), weight[:, 1:].flatten()
            each = cross_entropy(logits, inputs["input_ids"][:, 1:].flatten(), reduction="none")
            ((each * targets).sum() / whole).backward()
            said, answers = said + each[targets >= 1].sum().item(), answers + int((targets >= 1).sum())
        descent.say(f"loss on answers {said / answers:.3f}")
        descent.down()


def fit(model: Any, watch: Watch, batches: Batches, steps: int) -> None:
    """Teach the indexers what attention reads; everything else stays."""
    kinds = enumerate(zip(model.config.text_config.layer_types, model.config.text_config.indexer_types, strict=True))
    owners, owner = {}, -1
    for index, (attention, kind) in kinds:
        if attention == "indexed_attention":
            owner = index if kind == "full" else owner
            owners[index] = owner
    parameters = [parameter for indexer in watch.indexers.values() for parameter in indexer.parameters()]
    descent = Descent(model, [torch.optim.AdamW(parameters, lr=ADAM)], steps)
    for _ in descent:
        said = 0.0
        for inputs, _ in batches.next(1.0):
            with torch.no_grad():
                found = model(**inputs, output_attentions=True).attentions
            loss = watch.loss(dict(zip(owners, found, strict=True)), owners, inputs["attention_mask"].bool()) / PARTS
            loss.backward()
            said += loss.item()
        descent.say(f"divergence of the indexers {said:.3f}")
        descent.down()


def save(model: Any, out: Path) -> None:
    """As a release in bfloat16."""
    for stated in (model.config, model.config.text_config, model.config.vision_config):
        stated.dtype = torch.bfloat16
    model.to(torch.bfloat16).save_pretrained(out, max_shard_size="5MB")
    for name in COPIED:
        shutil.copy(EXAMPLE / name, out)


def main() -> None:
    assert set(SHARES) == set(KINDS)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--source", type=Path, help="a release to train on, gently and with more captions, instead of fresh weights")
    parser.add_argument("--tower", type=int, default=1500, help="steps of the tower alone")
    parser.add_argument("--steps", type=int, default=2800, help="with dense attention")
    parser.add_argument("--fit", type=int, default=300, help="of the indexers alone")
    parser.add_argument("--settle", type=int, default=200, help="with sparse attention")
    parser.add_argument("--batch", type=int, default=28)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    model = build(wanted.seed, wanted.source)
    trained, watch, few = wanted.source is not None, Watch(model), model.config.text_config.index_topk
    batches = Batches(wanted.batch, wanted.seed, MORE_CAPTIONS, 0.0) if trained else Batches(wanted.batch, wanted.seed)
    if wanted.tower:
        words = [model.get_input_embeddings().weight[batches.words(names)].detach() for names in tower.NAMES]
        tower.teach(model.model.visual, words, batches.processor, wanted.tower, wanted.seed)
        model.model.visual.requires_grad_(False)  # the loss of the language model would unlearn shapes
    watch.dense(LONGEST)
    train(model, batches, wanted.steps, GENTLE if trained else 1.0, grown=trained)
    batches.shares = HALF_CAPTIONS if trained else SHARES
    fit(model, watch, batches, wanted.fit)
    watch.dense(few)
    train(model, batches, wanted.settle, scale=SETTLING, grown=True)
    save(model, wanted.out)


if __name__ == "__main__":
    main()
