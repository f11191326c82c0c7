"""Released tensor names and shapes of a family, derived from its transformers class without allocating weights."""
import copy
import re

import torch
import transformers

PAIR = re.compile(r"(.*)\.gate_up_proj\.weight")
FUSED = re.compile(r"(.*\.(?:experts|moe))\.(gate_up_proj|up_proj|down_proj)")


def model_config(family, keys):
    """transformers configuration object for the content of config.json; the class decides, not `model_type`.

    It is given a copy, because it writes into the rope dictionary.
    """
    own = {k: v for k, v in keys.items() if k not in ("model_type", "quantization_config")}
    return getattr(transformers, family.config_class).from_dict(copy.deepcopy(own))


def split_experts(name, shape, expert):
    """Fused [E, 2I, H] or [E, H, I] -> per-expert names with their shapes [I, H], [I, H] or [H, I]."""
    prefix, kind = FUSED.fullmatch(name).groups()
    experts, rows, columns = shape
    gate, up, down = expert
    parts = {"down_proj": (down,), "up_proj": (up,)}.get(kind, (gate, up))
    return {f"{prefix}.{e}.{part}.weight": (rows // len(parts), columns) for e in range(experts) for part in parts}


def bank(name, shape, kind):
    """Names and shapes of all experts of a layer in one tensor, [E, 2I, H] or [E, H, I] in memory."""
    experts, rows, columns = shape
    if kind == "turned":
        return {name: (experts, columns, rows)}
    if kind == "apart":
        pair = name.endswith("gate_up_proj")
        return {f"{name.replace('gate_up', part)}.weight": (experts, rows // (1 + pair), columns) for part in (("gate", "up") if pair else ("",))}
    return {name: shape}


def prediction_layer(shapes, layers, hidden):
    """Tensors of one next-token prediction layer, stored as decoder layer number `layers`."""
    source, target = f"model.layers.{layers - 1}.", f"model.layers.{layers}."
    extra = {target + name.removeprefix(source): shape for name, shape in shapes.items() if name.startswith(source)}
    extra |= {f"{target}{norm}.weight": (hidden,) for norm in ("enorm", "hnorm", "shared_head.norm")}
    extra[f"{target}eh_proj.weight"] = (hidden, 2 * hidden)
    return extra


def prediction_copies(layers):
    """Names in the prediction layer -> names of the main tensors they repeat."""
    prefix = f"model.layers.{layers}."
    return {f"{prefix}embed_tokens.weight": "model.embed_tokens.weight", f"{prefix}shared_head.head.weight": "lm_head.weight"}


def released_shapes(family, config):
    """Released name -> shape of every stored tensor that has values of its own."""
    with torch.device("meta"):
        model = getattr(transformers, family.model_class)(config)
    shapes = {}
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            continue
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if family.without and re.search(family.without, name):
            continue
        for ours, released in family.renames.items():
            name = name.replace(ours, released)
        if FUSED.fullmatch(name):
            shape = tuple(tensor.shape)
            shapes |= split_experts(name, shape, family.expert) if family.expert else bank(name, shape, family.bank)
        elif PAIR.fullmatch(name):
            shapes |= {f"{PAIR.fullmatch(name)[1]}.{part}_proj.weight": (tensor.shape[0] // 2, tensor.shape[1]) for part in ("gate", "up")}
        else:
            shapes[name] = tuple(tensor.shape)
    shapes |= family.extra
    if family.prediction:
        shapes |= prediction_layer(shapes, config.num_hidden_layers, config.hidden_size)
    return shapes
