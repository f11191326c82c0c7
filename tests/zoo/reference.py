"""Reference results of a checkpoint folder, computed by transformers in float32 from what the folder stores."""
import json
import shutil
import tempfile
from pathlib import Path

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

from . import folder as files
from . import layout, tokenizer
from .draw import generator

TEXTS = {5: "Routers", 37: "Each token visits a few of the experts; the others rest"}
RANDOM = 130
NEW_TOKENS = 8
MASKED = -1e30


class TopkMargin(TorchDispatchMode):
    """While active, `smallest` is the least distance between the last kept and the first rejected score of any top-k.

    Scores that a causal mask took to minus infinity, or near it, are no candidates.
    """

    def __init__(self):
        super().__init__()
        self.smallest = float("inf")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.topk.default:
            self.see(*args[:3])
        return function(*args, **(kwargs or {}))

    def see(self, scores, k, dim=-1):
        if scores.shape[dim] > k:
            ranked = scores.sort(dim=dim, descending=True).values
            gaps = (ranked.select(dim, k - 1) - ranked.select(dim, k))[ranked.select(dim, k) > MASKED]
            self.smallest = min([self.smallest, *gaps.flatten().tolist()])


def prompts(vocabulary):
    """Length -> ids [1, length]: two texts, and random ids of the whole vocabulary."""
    encoder = tokenizer.tokenizer()
    found = {length: torch.tensor([encoder.encode(text).ids]) for length, text in TEXTS.items()}
    found[RANDOM] = torch.randint(0, vocabulary, (1, RANDOM), generator=generator("prompt"))
    assert all(ids.shape == (1, length) for length, ids in found.items()), {n: ids.shape for n, ids in found.items()}
    return found


def read(folder, family):
    """The model of a folder in float32; fails on tensors that are missing, misshapen or not known to transformers."""
    keys = json.loads((folder / "config.json").read_text())
    if family.packing:
        keys.pop("quantization_config", None)
        with tempfile.TemporaryDirectory() as plain:
            shutil.copy(folder / "generation_config.json", plain)
            files.write_shards(Path(plain), files.scheme(family).unpack(files.read_shards(folder), family.packing))
            return load(Path(plain), family, keys)
    return load(folder, family, keys)


def load(folder, family, keys):
    """Model from plain weights in `folder` and the content `keys` of config.json."""
    config = layout.model_config(family, keys)
    model, found = getattr(transformers, family.model_class).from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager",
        output_loading_info=True)
    beyond = f"model.layers.{config.get_text_config().num_hidden_layers}."
    unknown = [name for name in found["unexpected_keys"] if not name.startswith(beyond)]
    assert not (found["missing_keys"] or found["mismatched_keys"] or unknown), found
    return model.eval()


@torch.no_grad()
def logits(model, ids):
    """[1, n, V] without a cache."""
    return model(input_ids=ids, use_cache=False).logits


def greedy(model, ids):
    """-> the next ids [1, NEW_TOKENS] by full recomputation, and the least distance of best and second best logit."""
    start, margin = ids.shape[1], float("inf")
    for _ in range(NEW_TOKENS):
        values, order = logits(model, ids)[:, -1].sort(descending=True)
        margin = min(margin, (values[0, 0] - values[0, 1]).item())
        ids = torch.cat([ids, order[:, :1]], dim=1)
    return ids[:, start:], margin


def cached_greedy(model, ids):
    """The same ids from `generate`, which keeps keys and values; no id ends it."""
    model.generation_config.eos_token_id = None
    whole = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False, use_cache=True)
    return whole[:, ids.shape[1] :]


def topk_margin(model):
    """Least margin of any top-k choice on the prompts, without their continuations."""
    with TopkMargin() as seen:
        for ids in prompts(model.config.get_text_config().vocab_size).values():
            logits(model, ids)
    return seen.smallest


def results(model):
    """-> tensors of expected.safetensors and the margins of the discrete choices behind them."""
    tensors, closest = {}, float("inf")
    with TopkMargin() as topk:
        for length, ids in prompts(model.config.get_text_config().vocab_size).items():
            continuation, margin = greedy(model, ids)
            assert torch.equal(continuation, cached_greedy(model, ids)), f"the cache changes the ids after {length}"
            tensors |= {f"input_ids_{length}": ids, f"logits_{length}": logits(model, ids), f"greedy_{length}": continuation}
            closest = min(closest, margin)
    return tensors, dict(topk_margin=topk.smallest if topk.smallest < float("inf") else None, greedy_margin=closest)
