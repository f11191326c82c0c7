"""Stored tables of whole numbers: those a transformers class computes itself, and choices of experts by token id."""
import torch
import transformers

from .draw import generator


def tables(label, seed, family, config):
    """Released name -> int64 tensor; a table that the class leaves at zero holds distinct experts for each token."""
    build = getattr(transformers, family.model_class)
    with torch.device("meta"):
        if all(value.is_floating_point() for value in build(config).state_dict().values()):
            return {}
    found = {}
    for name, value in build(config).state_dict().items():
        if value.dtype.is_floating_point:
            continue
        for ours, released in family.renames.items():
            name = name.replace(ours, released)
        found[name] = value if value.any() else choices(value.shape, config.n_routed_experts, generator(label, seed, name))
    return found


def choices(shape, experts, gen):
    """For each of shape[0] tokens, shape[1] different experts."""
    return torch.stack([torch.randperm(experts, generator=gen)[: shape[1]] for _ in range(shape[0])])
