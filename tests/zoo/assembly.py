"""From a family to a checkpoint folder with its reference results."""
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

from . import draw, folder, integers, kimi_k3, layout, reference, tokenizer
from .cache import fingerprint, once
from .family import catalog, names


def stored_tensors(name, family, seed):
    """Name -> tensor as it goes on disk."""
    config = layout.model_config(family, family.keys | tokenizer.CONFIG_IDS)
    shapes = layout.released_shapes(family, config)
    tensors = draw.tensors(name, seed, shapes, config.tie_word_embeddings, family.centred) | integers.tables(name, seed, family, config)
    if family.packing:
        tensors = folder.scheme(family).pack(tensors, family.packing)
    if family.prediction and family.copies:
        copies = layout.prediction_copies(config.num_hidden_layers)
        tensors |= {copy: tensors[main].clone() for copy, main in copies.items()}
    return tensors


def build(name, out):
    """Write OUT/<name> and return that folder."""
    family, target = catalog()[name], Path(out) / name
    folder.write_checkpoint(target, family, stored_tensors(name, family, family.seed))
    tensors, margins = reference.results(reference.read(target, family))
    save_file(tensors, target / "expected.safetensors")
    folder.write_json(target / "expected.json", dict(
        name=name, seed=family.seed, lengths=[*reference.TEXTS, reference.RANDOM],
        texts={str(n): text for n, text in reference.TEXTS.items()}, **margins, logits_std=deviation(tensors),
        transformers=transformers.__version__, torch=torch.__version__))
    return target


def deviation(tensors):
    """Standard deviation of the logits of the longest prompt."""
    return tensors[f"logits_{reference.RANDOM}"].std().item()


def search(name, seeds, floor):
    """Yield (seed, margins) for those of the given seeds whose top-k margin on the prompts is at least `floor`."""
    family = catalog()[name]
    for seed in seeds:
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch)
            folder.write_checkpoint(target, family, stored_tensors(name, family, seed))
            model = reference.read(target, family)
        if reference.topk_margin(model) >= floor:
            tensors, margins = reference.results(model)
            yield seed, margins | dict(logits_std=deviation(tensors))


def every():
    """Names of all checkpoints: those of `names()`, and those whose logits a reference of the project computed."""
    return sorted([*names(), *kimi_k3.SEEDS])


def checkpoint(name):
    """Folder of the named checkpoint, built on first use and kept in the machine's temporary directory."""
    if name in kimi_k3.SEEDS:
        return kimi_k3.checkpoint(name)
    return once(f"zoo-{fingerprint(Path(__file__).parent)}", name, build)
