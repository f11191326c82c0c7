"""Tiny releases whose banks of experts are square or not, as transformers holds them or turned, plain or in eight bits."""

import copy
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from tests.zoo import draw, layout
from tests.zoo.cache import fingerprint, once
from tests.zoo.family import Family, catalog
from tests.zoo.folder import write_checkpoint
from tests.zoo.tokenizer import CONFIG_IDS

BANK = re.compile(r".*\.experts\.(gate_up|down)_proj")
HIDDEN, EXPERTS, BLOCK = 64, 2, 128
WIDTHS = {"qwen3_5_moe": "moe_intermediate_size", "qwen3_vl_moe": "moe_intermediate_size"}  # of an expert; elsewhere intermediate_size
IDS = [3 + 11 * i % 250 for i in range(24)]


@cache
def family(name: str, width: int) -> Family:
    """One of the zoo with two layers of two experts."""
    found = catalog()[name]
    keys = copy.deepcopy(found.keys)
    text = keys.get("text_config", keys)
    text |= {"hidden_size": HIDDEN, WIDTHS.get(name, "intermediate_size"): width, "num_hidden_layers": 2, "num_experts_per_tok": 1}
    text |= {"num_experts" if name in WIDTHS else "num_local_experts": EXPERTS}
    text |= {key: value[:2] for key, value in text.items() if key in ("layer_types", "no_rope_layers")} | {"mlp_only_layers": []}
    if "experts_per_token" in text:
        text["experts_per_token"] = 1
    if "interleave_moe_layer_step" in text:
        text["interleave_moe_layer_step"] = 1
    if "vision_config" in keys:
        keys["vision_config"]["out_hidden_size"] = HIDDEN
    return replace(found, keys=keys, packing=None, seed=0)


def coded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """E4M3 codes and one scale for each expert, [E, 1, 1]."""
    scale = weight.float().abs().amax((1, 2), keepdim=True) / 448
    return (weight.float() / scale).to(torch.float8_e4m3fn), scale


def _build(called: str, out: Path) -> Path:
    name, width, packed = called.rsplit(".", 2)
    form = family(name, int(width))
    config = layout.model_config(form, form.keys | CONFIG_IDS)
    config._attn_implementation = "eager"
    model = getattr(transformers, form.model_class)(config).float().eval()
    tensors: dict[str, Tensor] = {}
    state: dict[str, Tensor] = {}
    for key, value in model.state_dict().items():
        mine = draw.tensor(called, 0, key, tuple(value.shape), False).float() if value.is_floating_point() else value
        if BANK.fullmatch(key) and packed == "fp8":
            codes, scale = coded(mine)
            mine = codes.float() * scale
            tensors[key], tensors[f"{key}_scale_inv"] = codes.mT if form.bank == "turned" else codes, scale
        elif BANK.fullmatch(key):
            tensors[key] = (mine.mT if form.bank == "turned" else mine).bfloat16()
        elif value.is_floating_point():
            tensors[key] = mine.bfloat16()
            mine = tensors[key].float()
        state[key] = mine
    model.load_state_dict(state)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([IDS]), use_cache=False).logits[0]
    folder = out / called
    stated = dict(quantization_config=dict(quant_method="fp8", fmt="e4m3", weight_block_size=[BLOCK, BLOCK])) if packed == "fp8" else {}
    write_checkpoint(folder, replace(form, keys=form.keys | stated), tensors)
    torch.save(logits, folder / "logits.pt")
    return folder


def release(name: str, width: int, packed: str = "plain") -> Path:
    """Its folder, with `logits.pt`: what the class of transformers says to `IDS` with the weights it was given, nothing having been loaded."""
    group = f"square-{fingerprint(Path(__file__))}-{fingerprint(Path(draw.__file__).parent)}"
    return once(group, f"{name}.{width}.{packed}", _build)


def expected(folder: Path) -> Any:
    return torch.load(folder / "logits.pt")
