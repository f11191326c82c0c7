"""Number types by their safetensors names, and the types that a model computes in."""

from day0.spec.errors import Day0Error

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64,
    "I64": 64, "U64": 64,
}  # fmt: skip
FLOATING = frozenset({"F64", "F32", "F16", "BF16"})
COMPUTE = {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}


def size(dtype: str, count: int) -> int:
    """Bytes of `count` elements of a safetensors type or of a compute type."""
    bits = BITS.get(COMPUTE.get(dtype, dtype))
    if bits is None:
        raise Day0Error(f"number type {dtype!r} is not known", hint=f"known: {', '.join([*COMPUTE, *BITS])}")
    return (count * bits + 7) // 8


def compute_dtype(name: str) -> str:
    """The canonical name of a type to compute in; accepts `torch.bfloat16`, `BF16`, `bf16`."""
    short = {"bf16": "bfloat16", "fp16": "float16", "f16": "float16", "fp32": "float32", "f32": "float32", "f64": "float64"}
    plain = name.lower().removeprefix("torch.")
    found = short.get(plain, plain)
    if found not in COMPUTE:
        raise Day0Error(f"cannot compute in {name!r}", hint=f"one of {', '.join(COMPUTE)}")
    return found
