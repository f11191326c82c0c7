"""Routed experts packed in four or eight bits, one matrix [out, in] at a time; everything else stays as it is.

Each scheme writes the tensors and the quantisation entries of a kind of release, and unpacks them again in float64 from integers and
powers of two, so that the reference logits rest on numbers that were written down twice.
"""
import re
from dataclasses import dataclass

import torch

from .draw import generator
from .fp8 import uneven

ROUTED = re.compile(r"model\.layers\.\d+\.(mlp|block_sparse_moe)\.experts\.\d+\.(\w+)\.weight")
E2M1 = torch.tensor([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]) / 2
AWQ = (0, 2, 4, 6, 1, 3, 5, 7)
SHIFTS = torch.arange(0, 32, 4)


@dataclass(frozen=True)
class Experts:
    """A scheme of this file by its name, and the number of inputs that share a scale."""
    scheme: str
    group: int = 32


def grouped(weight, group):
    return weight.unflatten(-1, (-1, group))


def nearest(values, book):
    """Index of the nearest entry of `book` for each value."""
    return (values.unsqueeze(-1) - book).abs().argmin(-1)


def nibbles(codes):
    """Codes 0..15 -> bytes, the even element in the low half."""
    even, odd = codes[..., ::2], codes[..., 1::2]
    return (even + 16 * odd).to(torch.uint8)


def from_nibbles(data):
    data = data.view(torch.uint8).long()
    return torch.stack((data % 16, data // 16), -1).flatten(-2)


def words(codes):
    """Codes 0..15 -> int32 words of eight along the last axis, the first in the lowest bits; short words are filled with zeros."""
    padded = torch.nn.functional.pad(codes.long(), (0, -codes.shape[-1] % 8)).unflatten(-1, (-1, 8))
    total = (padded * 16 ** torch.arange(8)).sum(-1)
    return torch.where(total < 2**31, total, total - 2**32).to(torch.int32)


def from_words(data):
    return (data.long().unsqueeze(-1) // 16 ** torch.arange(8) % 16).flatten(-2)


def power(byte):
    return torch.ldexp(torch.ones(byte.shape, dtype=torch.float64), byte.view(torch.uint8).long() - 127)


def each(scale, columns, group):
    """Scales [out, groups] -> one for each column, float64."""
    return scale.double().repeat_interleave(group, 1)[:, :columns]


def mxfp4(weight, group):
    amax = grouped(weight, group).abs().amax(-1)
    exponent = (amax / 6).log2().ceil()
    codes = nearest(weight / each(exponent.exp2(), weight.shape[1], group), E2M1)
    return nibbles(codes), (exponent + 127).to(torch.uint8)


def from_mxfp4(data, scale, group):
    codes = from_nibbles(data)
    return E2M1.double()[codes] * each(power(scale), codes.shape[1], group)


def mxfp8(weight, group):
    exponent = (grouped(weight, group).abs().amax(-1) / 448).log2().ceil()
    return (weight / each(exponent.exp2(), weight.shape[1], group)).float().to(torch.float8_e4m3fn), (exponent + 127).to(torch.uint8)


def nvfp4(weight, group):
    second = weight.abs().amax() / (6 * 448)
    scale = (grouped(weight, group).abs().amax(-1) / (6 * second)).clamp(2**-9, 448).to(torch.float8_e4m3fn)
    return nibbles(nearest(weight / (each(scale, weight.shape[1], group) * second), E2M1)), scale, second.float()


def from_nvfp4(data, scale, factor, group):
    codes = from_nibbles(data)
    return E2M1.double()[codes] * each(scale.float(), codes.shape[1], group) * factor


def integers(weight, group, zero):
    """-> codes 0..15, scales, zero codes, of groups of columns; a zero of None asks for one each."""
    parts = grouped(weight, group)
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    scale = (high - low) / 15 if zero is None else torch.maximum(high / (15 - zero), -low / zero)
    scale = scale.half()
    zeros = torch.full_like(scale, 8).long() if zero is not None else (-low / scale).round().clamp(1, 15).long()
    codes = (parts / scale.unsqueeze(-1).double() + zeros.unsqueeze(-1)).round().clamp(0, 15).flatten(-2).long()
    return codes, scale, zeros


def from_integers(codes, scale, zeros, group_of):
    return (codes - zeros[:, group_of]).double() * scale.double()[:, group_of]


def pack_one(scheme, weight, group, name):
    """Suffix in place of "weight" -> tensor."""
    if scheme in ("mxfp4", "mxfp4-i8"):
        data, scale = mxfp4(weight, group)
        if scheme == "mxfp4":
            return {"weight_packed": data, "weight_scale": scale}
        return {"weight": data.view(torch.int8), "scale": scale.view(torch.float8_e8m0fnu)}
    if scheme == "mxfp8":
        return dict(zip(("weight", "weight_scale"), mxfp8(weight, group), strict=True))
    if scheme in ("nvfp4", "nvfp4-ct"):
        data, scale, second = nvfp4(weight, group)
        idle = torch.tensor(0.01)
        if scheme == "nvfp4":
            return {"weight": data, "weight_scale": scale, "weight_scale_2": second, "input_scale": idle}
        return {"weight_packed": data, "weight_scale": scale, "weight_global_scale": (1 / second).reshape(1), "input_global_scale": idle}
    if scheme in ("int4", "int4-zero"):
        codes, scale, zeros = integers(weight, group, 8 if scheme == "int4" else None)
        extra = {} if scheme == "int4" else {"weight_zero_point": words(zeros.T).T.contiguous()}
        return {"weight_packed": words(codes), "weight_scale": scale, "weight_shape": torch.tensor(weight.shape), **extra}
    codes, scale, zeros = integers(*ordered(scheme, weight, name), None)
    if scheme == "awq":
        mixed = lambda x: words(x.unflatten(-1, (-1, 8))[..., AWQ].flatten(-2))  # noqa: E731
        return {"qweight": mixed(codes.T), "qzeros": mixed(zeros.T), "scales": scale.T.contiguous()}
    order = order_of(name, weight.shape[1])
    group_of = (torch.arange(weight.shape[1]) // group)[order.argsort()]
    return {
        "qweight": words(codes[:, order.argsort()]).T.contiguous(), "qzeros": words(zeros.T - int(scheme == "gptq")),
        "scales": scale.T.contiguous(), "g_idx": group_of.int(),
    }


def order_of(name, columns):
    """The order in which a matrix was quantised: by activation, here by chance."""
    return torch.randperm(columns, generator=generator("order", name))


def ordered(scheme, weight, name):
    return (weight if scheme == "awq" else weight[:, order_of(name, weight.shape[1])]), 32


def unpack_one(scheme, parts, group):
    """Float32 [out, in] of what `pack_one` wrote."""
    if scheme in ("mxfp4", "mxfp4-i8"):
        data, scale = ("weight_packed", "weight_scale") if scheme == "mxfp4" else ("weight", "scale")
        return from_mxfp4(parts[data], parts[scale], group)
    if scheme == "mxfp8":
        codes = parts["weight"]
        return codes.double() * each(power(parts["weight_scale"]), codes.shape[1], group)
    if scheme == "nvfp4":
        return from_nvfp4(parts["weight"], parts["weight_scale"], parts["weight_scale_2"].double(), group)
    if scheme == "nvfp4-ct":
        return from_nvfp4(parts["weight_packed"], parts["weight_scale"], 1 / parts["weight_global_scale"].double(), group)
    if scheme in ("int4", "int4-zero"):
        rows, columns = parts["weight_shape"].tolist()
        scale, zeros = parts["weight_scale"], torch.full_like(parts["weight_scale"], 8)
        if "weight_zero_point" in parts:
            zeros = from_words(parts["weight_zero_point"].T).T[:rows]
        return from_integers(from_words(parts["weight_packed"])[:, :columns], scale, zeros, torch.arange(columns) // group)
    if scheme == "awq":
        undo = lambda x: from_words(x).unflatten(-1, (-1, 8))[..., torch.tensor(AWQ).argsort()].flatten(-2)  # noqa: E731
        codes, zeros = undo(parts["qweight"]).T, undo(parts["qzeros"]).T
        return from_integers(codes, parts["scales"].T, zeros, torch.arange(codes.shape[1]) // group)
    zeros = from_words(parts["qzeros"]).T + (scheme == "gptq")
    return from_integers(from_words(parts["qweight"].T), parts["scales"].T, zeros, parts["g_idx"].long())


SUFFIXES = re.compile(
    r"(.*\.experts\.\d+\.\w+)\.(weight(?:_packed|_scale|_scale_2|_global_scale|_shape|_zero_point)?|scale|input_scale|input_global_scale"
    r"|qweight|qzeros|scales|g_idx)")


def pack(tensors, packing):
    """Replace every matrix of a routed expert by its packed tensors."""
    packed = {}
    for name, value in tensors.items():
        if ROUTED.fullmatch(name):
            weight = uneven(value, name, (1, packing.group)).double()
            parts = pack_one(packing.scheme, weight, packing.group, name)
            packed |= {name.removesuffix("weight") + suffix: part.contiguous() for suffix, part in parts.items()}
        else:
            packed[name] = value
    return packed


def unpack(tensors, packing):
    """Inverse of `pack`: float32 matrices in place of their packed tensors."""
    plain, found = {}, {}
    for name, value in tensors.items():
        match = SUFFIXES.fullmatch(name)
        if match:
            found.setdefault(match[1], {})[match[2]] = value
        else:
            plain[name] = value
    return plain | {f"{module}.weight": unpack_one(packing.scheme, parts, packing.group).float() for module, parts in found.items()}


def compressed(**weights):
    kind = weights.pop("kind")
    scheme = dict(dynamic=False, num_bits=4, strategy="group", symmetric=True) | weights
    group = dict(targets=["Linear"], weights=scheme, input_activations=None, output_activations=None)
    return dict(quant_method="compressed-tensors", format=kind, config_groups={"group_0": group}, ignore=["lm_head", "re:.*self_attn.*"])


def signature(packing):
    """`quantization_config` of config.json, or None where the release keeps it elsewhere."""
    scheme, group = packing.scheme, packing.group
    return {
        "mxfp4": compressed(kind="mxfp4-pack-quantized", type="float", group_size=group, scale_dtype="torch.uint8"),
        "mxfp4-i8": dict(quant_method="fp8", fmt="e4m3", scale_fmt="ue8m0", weight_block_size=[128, 128], activation_scheme="dynamic"),
        "mxfp8": dict(quant_method="modelopt", quant_algo="MXFP8", ignore=["lm_head"]),
        "nvfp4": None,
        "nvfp4-ct": compressed(kind="nvfp4-pack-quantized", type="float", group_size=group, strategy="tensor_group"),
        "int4": compressed(kind="pack-quantized", type="int", group_size=group),
        "int4-zero": compressed(kind="pack-quantized", type="int", group_size=group, symmetric=False),
        "awq": dict(quant_method="awq", bits=4, group_size=group, version="gemm", zero_point=True),
        "gptq": dict(quant_method="gptq", bits=4, group_size=group, desc_act=True, sym=False, checkpoint_format="gptq"),
        "gptq-v2": dict(quant_method="gptq", bits=4, group_size=group, desc_act=True, sym=False, checkpoint_format="gptq_v2"),
    }[scheme]


def sidecar(packing):
    """hf_quant_config.json, or None."""
    if packing.scheme != "nvfp4":
        return None
    quantization = dict(quant_algo="NVFP4", kv_cache_quant_algo=None, group_size=packing.group, exclude_modules=["lm_head"])
    return dict(producer=dict(name="modelopt", version="0.41.0"), quantization=quantization)
