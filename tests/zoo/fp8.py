"""Scaled FP8 weights: `weight` holds E4M3 codes [out, in], `weight_scale_inv` one factor per block.

The grid of scales is [ceil(out / rows), ceil(in / columns)], blocks at the right and lower edge may be ragged, and the
value is code * scale. Where a block is a whole row or the whole matrix, the factor is called `weight_scale`, [out, 1] or a single number,
and beside the latter lies a scale of activations, which weights do not use.
"""
import re

import torch

from .draw import generator

LARGEST = 448.0
PACKED = re.compile(r"model\.layers\.\d+\.(self_attn|mlp)\..*proj(_with_mqa)?\.weight")


def whole(block, shape):
    """The block with its lengths in numbers."""
    return tuple(size if width is None else width for size, width in zip(shape, block, strict=True))


def spread(grid, shape, block):
    """Scale grid -> one float32 factor per element of a matrix of `shape`."""
    rows = grid.float().repeat_interleave(block[0], 0)[: shape[0]]
    return rows.repeat_interleave(block[1], 1)[:, : shape[1]]


def block_maxima(weight, block):
    """Largest magnitude of every block, as a grid."""
    columns = [part.abs().amax(1) for part in weight.split(block[1], 1)]
    return torch.stack([part.amax(0) for part in torch.stack(columns, 1).split(block[0], 0)])


def encode(weight, packing):
    """float32 [out, in] -> (codes, scales); E8M0 scales are rounded up to a power of two."""
    block = whole(packing.block, weight.shape)
    scale = block_maxima(weight, block) / LARGEST
    if packing.scale == "float8_e8m0fnu":
        scale = torch.exp2(scale.log2().ceil())
    scale = scale.to(getattr(torch, packing.scale))
    codes = (weight / spread(scale, weight.shape, block)).clamp(-LARGEST, LARGEST)
    return codes.to(torch.float8_e4m3fn), scale


def decode(codes, scale, block):
    """(codes, scales) -> float32 [out, in]."""
    return codes.float() * spread(scale, codes.shape, block)


def by_bits(codes, scale, block):
    """`decode` once more, from the bits of the codes and block by block, in float64."""
    raw = codes.view(torch.uint8).int()
    exponent, mantissa = (raw >> 3) & 15, (raw & 7).double() / 8
    size = torch.where(exponent == 0, mantissa * 2.0**-6, (1 + mantissa) * torch.exp2((exponent - 7).double()))
    out = torch.where(raw >= 128, -size, size)
    for i in range(0, out.shape[0], block[0]):
        for j in range(0, out.shape[1], block[1]):
            out[i : i + block[0], j : j + block[1]] *= scale[i // block[0], j // block[1]].double()
    return out.float()


def uneven(weight, name, block):
    """Multiply every block by its own factor of 1/2..2, so that a scale applied to the wrong block shows."""
    grid = [-(-size // width) for size, width in zip(weight.shape, block, strict=True)]
    factor = torch.exp2(torch.randint(-64, 65, grid, generator=generator("block", name)) / 64)
    return weight.float() * spread(factor, weight.shape, block)


def pack(tensors, packing):
    """Replace every projection inside a decoder layer by its codes and scales."""
    packed = {}
    for name, value in tensors.items():
        if not PACKED.fullmatch(name):
            packed[name] = value
            continue
        codes, scale = encode(uneven(value, name, whole(packing.block, value.shape)), packing)
        packed |= {name: codes} | companions(name, scale, packing.block)
    return packed


def companions(name, scale, block):
    """Name -> tensor beside the codes."""
    if None not in block:
        return {f"{name}_scale_inv": scale}
    if block[0] is None:
        return {f"{name}_scale": scale.reshape(()), f"{name.removesuffix('weight')}input_scale": torch.tensor(0.01)}
    return {f"{name}_scale": scale}


def unpack(tensors, packing):
    """Inverse of `pack`: float32 in place of codes and scales, checked against `by_bits`."""
    plain = {}
    for name, value in tensors.items():
        if name.endswith(("_scale_inv", "_scale")):
            continue
        if value.dtype == torch.float8_e4m3fn:
            codes, block = value, whole(packing.block, value.shape)
            scale = tensors[f"{name}_scale_inv" if None not in packing.block else f"{name}_scale"].reshape(-1, -(-value.shape[1] // block[1]))
            value = decode(codes, scale, block)
            assert torch.equal(value, by_bits(codes, scale, block)), name
        plain[name] = value
    return plain


def signature(packing, tensors):
    """`quantization_config` of config.json."""
    if None in packing.block:
        kind = "tensor" if packing.block[0] is None else "channel"
        weights = dict(dynamic=False, num_bits=8, strategy=kind, symmetric=True, type="float")
        group = dict(targets=["Linear"], weights=weights, input_activations=None, output_activations=None)
        return dict(quant_method="compressed-tensors", format="float-quantized", config_groups=dict(group_0=group), ignore=["lm_head"])
    config = dict(activation_scheme="dynamic", fmt="e4m3", quant_method="fp8", weight_block_size=list(packing.block))
    if packing.listed:
        modules = (name.removesuffix(".weight") for name in tensors if name.endswith(".weight"))
        config["modules_to_not_convert"] = sorted(m for m in modules if not PACKED.fullmatch(f"{m}.weight"))
    return config | packing.notes
