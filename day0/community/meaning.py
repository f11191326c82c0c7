"""What a call of torch in transformers' classes is for, in the words of day0's operators: told by the function it is made in and by the
class of the module. Names are the habits of that library; what has none of them lies between operators."""

import re
from collections.abc import Iterable

FUNCTIONS = (
    ("delta_rule", r"delta_rule|delta_attention|l2norm"),
    ("selective_scan", r"mamba2_|selective_|segment_sum|reshape_into_chunks|pad_tensor_by_size"),
    ("lightning_attention", r"lightning"),
    ("short_convolution", r"causal_conv1d|conv_state"),
    ("rotary", r"rotary|rotate_half|rope"),
    ("attention", r"attention_forward|repeat_kv|expand_kv|pack_gqa"),
    ("experts", r"experts?_forward|_grouped_|apply_gate"),
    ("route", r"route|group_limited|get_topk"),
    ("", r"mask|update|initialization|slice_logits"),
)
LEAVES = (("linear", r"^Linear$"), ("embedding", r"^Embedding$"), ("layer_norm", r"^LayerNorm$"))
CLASSES = (
    ("gated_rms_norm", r"RMSNormGated|GatedRMSNorm"),
    ("rms_norm", r"RMSNorm|L2Norm"),
    ("layer_norm", r"LayerNorm"),
    ("rotary", r"Rotary"),
    ("embedding", r"Embedding$"),
    ("linear", r"BlockDiagonal|GroupedLinear"),
    ("short_convolution", r"^Conv1d$"),
    ("route", r"Router|TopK|MoE\w*Gate$"),
    ("experts", r"Experts"),
    ("index_scores", r"Indexer|Scorer"),
    ("hyper_mix", r"HyperConnection|HyperHead"),
    ("compressed_attention", r"Compressor"),
    ("lightning_attention", r"LightningAttention"),
    ("log_decay", r"ForgetGate"),
    ("gated_activation", r"MLP$|Activation$|^SiLU|GELU"),
)


def meaning(module: str, functions: Iterable[str]) -> str:
    """An operator of day0, or "" for what lies between them."""
    found = first(LEAVES, module)
    for function in functions if found is None else ():
        found = first(FUNCTIONS, function)
        if found is not None:
            return found
    return found or first(CLASSES, module) or ""


def first(table: tuple[tuple[str, str], ...], name: str) -> str | None:
    """Of the first pattern that is found in `name`."""
    return next((op for op, pattern in table if re.search(pattern, name)), None)
