"""Seeded tensors: every tensor has its own generator, so its values depend on nothing but family, seed and name.

Values come from integer draws, which makes the bytes independent of the machine. Norm weights differ from one, biases
from zero, attention scores and router logits have a standard deviation of about two, output logits of about one.
"""
import re
import zlib

import torch

SHARP = 1.4
CORRECTIONS = ("e_score_correction_bias", ".router_bias")


def generator(*key):
    return torch.Generator().manual_seed(zlib.crc32("/".join(map(str, key)).encode()))


def noise(shape, gen):
    """Nearly normal float32 values of unit variance: the sum of four uniform integers of -128..127."""
    total = torch.randint(-128, 128, (4, *shape), generator=gen).sum(0) + 2
    return total.float() / (65535 / 3) ** 0.5


def location_and_scale(name, shape, tied):
    """Mean and standard deviation of the values of a tensor, by its name."""
    if name.endswith(CORRECTIONS):
        return -0.2, 0.2
    if name.endswith((".bias", "_proj_bias")):
        return 0.0, 0.3
    if name.endswith((".sinks", ".attention_sink_bias")):
        return 0.0, 1.5
    if name.endswith(("A_log", "dt_bias")):
        return -1.0, 0.5
    if name.endswith("conv1d.weight"):
        return 0.0, 0.5
    if len(shape) == 1:
        return (SHARP if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0), 0.2
    if name.endswith("embed_tokens.weight"):
        return 0.0, shape[1] ** -0.5 if tied else 1.0
    fan_in = shape[-1] ** -0.5
    if name.endswith((".gate.weight", ".classifier.weight", ".down_proj.weight", ".w2.weight", ".q_b_proj.weight")):
        return 0.0, 2.0 * fan_in
    return 0.0, SHARP * fan_in if name.endswith((".q_proj.weight", ".k_proj.weight")) else fan_in


def tensor(label, seed, name, shape, tied, centred=False):
    """Values of one stored tensor: float32 for correction biases and decays, else bfloat16; `centred` stores a difference from one."""
    mean, deviation = location_and_scale(name, shape, tied)
    mean -= centred
    values = mean + deviation * noise(shape, generator(label, seed, name))
    return values if name.endswith((*CORRECTIONS, "A_log", "dt_bias")) else values.bfloat16()


def tensors(label, seed, shapes, tied, centred=""):
    """Name -> tensor for all `shapes`; `label` is the name of the checkpoint, `centred` an expression as in `Family`."""
    found = re.compile(centred).search if centred else lambda name: None
    return {name: tensor(label, seed, name, shape, tied, bool(found(name))) for name, shape in shapes.items()}
