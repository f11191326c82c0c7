"""Stored codes as numbers, in arithmetic on their bits that is the same on every architecture and in the interpreter."""

from __future__ import annotations

from day0.spec.lazy import tl, triton


@triton.jit
def e4m3(byte):
    """Through float16, whose exponent is one bit wider: subnormals come out as they should; 0x7F and 0xFF are NaN."""
    bits = byte.to(tl.int32)
    half = ((bits & 0x7F) << 7) | ((bits & 0x80) << 8)
    value = half.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32) * 256.0
    return tl.where((bits & 0x7F) == 0x7F, float("nan"), value)


@triton.jit
def e2m1(code):
    """0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, from the lowest four bits."""
    low = code & 7
    bits = tl.where(low > 1, (low << 22) + 0x3F000000, low * 0x3F000000)
    return (bits | ((code & 8) << 28)).to(tl.float32, bitcast=True)


@triton.jit
def e8m0(byte):
    """2^(byte - 127): a subnormal for 0, NaN for 255."""
    bits = byte.to(tl.int32)
    bits = tl.where(bits == 0, 1 << 22, tl.where(bits == 255, 0x7FC00000, bits << 23))
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def number(value, KIND: tl.constexpr):
    """A scale in float32; `KIND` is "e8m0", "e4m3", or empty for a floating-point number."""
    if KIND == "e8m0":
        found = e8m0(value)
    elif KIND == "e4m3":
        found = e4m3(value)
    else:
        found = value.to(tl.float32)
    return found
