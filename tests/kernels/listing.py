"""What a compiled kernel is made of, read from its listing: registers, spills, shared memory, and which matrix instructions there are.

A product is emulated where none of the matrix instructions takes the type of its operands: it was widened, or became ordinary arithmetic.
"""

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# Letter of NVIDIA's instruction → operands: H half, Q quarter (8 bits and fewer), O an eighth, I integer, D double.
OPERANDS = {"H": "16-bit", "Q": "fp8", "O": "fp4", "I": "int8", "D": "fp64"}
UNITS = {"": "mma", "G": "wgmma", "UTC": "tcgen05"}
NVIDIA = re.compile(r"\b(UTC)?([HQOID])(G)?MMA((?:\.\w+)*)")
AMD = re.compile(r"\bv_mfma_(?:scale_)?\w+?_\d+x\d+x\d+_?(?:\d+b_)?(\w+)")
SUFFIX = {"bf16": "16-bit", "f16": "16-bit", "bf16_1k": "16-bit", "f32": "fp32", "xf32": "tf32", "i8": "int8", "f8f6f4": "fp8", "f64": "fp64"}
DOT = re.compile(r"tt\.dot (?!_scaled).*?tensor<[\dx]+x(\w+)> \* tensor<[\dx]+x(\w+)>")
SCALED = re.compile(r"tt\.dot_scaled .*?lhs = (\w+) rhs = (\w+)")


class Figures(NamedTuple):
    """Of one kernel on one target."""

    registers: int  # of a thread
    spilled: int  # bytes of a thread that registers did not hold
    shared: int  # bytes of a block
    matrix: tuple[str, ...]  # units and operands, "wgmma 16-bit"
    emulated: tuple[str, ...]  # operands of products that no matrix instruction takes


def figures(compiled: Any) -> Figures:
    """Of what `triton.compile` gives."""
    read = _nvidia(compiled) if "cubin" in compiled.asm else _amd(compiled)
    needed, found = products(compiled.asm["ttir"]), {kind.partition(" ")[2] for kind in read.matrix}
    return read._replace(emulated=tuple(sorted(needed - found)))


def products(ttir: str) -> set[str]:
    """Operands of matrix products, as they are before anything is lowered."""
    found = set()
    for line in ttir.splitlines():
        if match := SCALED.search(line):
            found.add(max(map(_width, match.groups())))
        elif match := DOT.search(line):
            split = re.search(r"inputPrecision = (\w+)", line)
            single = {"tf32": "tf32", "tf32x3": "tf32", "bf16x3": "16-bit", "bf16x6": "16-bit"}.get(split[1] if split else "", "fp32")
            found.add({"f32": single, "i8": "int8", "f64": "fp64"}.get(match[1]) or _width(match[1])[1])
    return {each[1] if isinstance(each, tuple) else each for each in found}


def _width(kind: str) -> tuple[int, str]:
    """Bits and name of a floating type, by either of its spellings."""
    if kind in ("bf16", "f16", "fp16"):
        return 16, "16-bit"
    return (4, "fp4") if kind.lower() in ("e2m1", "f4e2m1fn") else (8, "fp8")


def _nvidia(compiled: Any) -> Figures:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        code = ["-sass"] if "mma" in compiled.asm["ptx"] else []  # slow, and of no use without products
        command = [tool("cuobjdump"), "--dump-resource-usage", *code, file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    usage = {name: int(value) for name, value in re.findall(r"\b(REG|STACK):(\d+)", said)}
    kinds = set()
    for prefix, letter, group, suffix in NVIDIA.findall(said):
        operands = "tf32" if letter == "H" and "TF32" in suffix else OPERANDS[letter]
        kinds.add(f"{UNITS[prefix or group]} {operands}")
    return Figures(usage["REG"], usage["STACK"], compiled.metadata.shared, tuple(sorted(kinds)), ())


def _amd(compiled: Any) -> Figures:
    text = compiled.asm["amdgcn"]
    noted = {name: int(value) for name, value in re.findall(r"\.(vgpr_count|agpr_count|private_segment_fixed_size):\s*(\d+)", text)}
    kinds = {f"mfma {SUFFIX.get(suffix, 'fp8' if 'fp8' in suffix or 'bf8' in suffix else suffix)}" for suffix in AMD.findall(text)}
    return Figures(noted["vgpr_count"], noted["private_segment_fixed_size"], compiled.metadata.shared, tuple(sorted(kinds)), ())


@cache
def tool(name: str) -> str:
    """A program that comes with Triton."""
    import triton

    return str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name)
