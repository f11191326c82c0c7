"""The C files of this folder as a library: compiled for this processor when it is first needed, and kept in the user's cache folder.

A library is known by its sources, flags and compiler. It is compiled under another name and moved into place, so that processes which
compile at once do not disturb each other, and an interrupted compilation leaves nothing that would be loaded.
"""

import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from day0.spec.errors import Day0Error
from day0.spec.lazy import torch

FOLDER = Path(__file__).parent
SECONDS = 120  # that a compiler may take
SETS = (("avx512f", "avx2", "fma", "f16c"), ("avx2", "fma", "f16c"))  # instructions that the sources are written for, the best first


def lacking(machine: Any) -> str | None:
    """Why kernels in C cannot run on a machine; None where they can: then they are compiled. Needs no torch."""
    if machine.backend != "cpu" or machine.declared:
        return "is compiled on the processor that runs it"
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"is written for Linux on x86-64, not {platform.system()} on {platform.machine()}"
    if instructions(cpuinfo()) is None:
        return "the processor has no AVX2"
    found = compiler()
    if found is None:
        return "no C compiler: neither cc nor gcc nor clang is there"
    return built(found)[1]


@cache
def library() -> ctypes.CDLL:
    """The library, loaded into this process; Day0Error where it cannot be had, which the operator map told before."""
    found = compiler()
    path, problem = built(found) if found else (None, "no C compiler")
    if path is None:
        raise Day0Error(f"kernels in C cannot be built: {problem}", hint="run `day0 map-ops` again: others take their place")
    torch.get_num_threads()  # its OpenMP library comes first: there must not be two
    return ctypes.CDLL(str(path))


def threads() -> int:
    """As many as torch uses."""
    return torch.get_num_threads()


def compiler() -> str | None:
    """Path of a C compiler; `CC` goes before the usual names."""
    named = os.environ.get("CC", "")
    return next((path for name in (named, "cc", "gcc", "clang") if name and (path := shutil.which(name))), None)


def cpuinfo() -> frozenset[str]:
    """What the kernel says that this processor can do."""
    try:
        found = re.search(r"^flags\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return frozenset()
    return frozenset(found[1].split()) if found else frozenset()


def instructions(flags: frozenset[str]) -> tuple[str, ...] | None:
    """Sets of instructions to compile for."""
    return next((one for one in SETS if flags.issuperset(one)), None)


@cache
def built(path: str) -> tuple[Path | None, str | None]:
    """(library, None), compiled unless it is there; (None, why not) where that failed."""
    sets = instructions(cpuinfo()) or ()
    command = [path, "-O3", *(f"-m{name}" for name in sets), "-fopenmp", "-shared", "-fPIC", "-fno-math-errno"]
    sources = sorted(FOLDER.glob("*.[ch]"))
    marks = [*command, str(os.stat(path).st_mtime_ns), *(source.read_text() for source in sources)]
    name = f"kernels-{hashlib.sha256(chr(0).join(marks).encode()).hexdigest()[:16]}.so"
    for folder in (cache_folder(), None):
        try:
            return _compile([*command, *(str(source) for source in sources if source.suffix == ".c")], name, folder or _own_folder()), None
        except OSError as error:  # of the cache folder: a folder of this process alone is left
            problem = str(error)
        except subprocess.SubprocessError as error:
            lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            return None, f"{Path(path).name} failed: {next((line for line in lines if 'error' in line), lines[0] if lines else '')}"
    return None, problem


def _compile(command: list[str], name: str, folder: Path) -> Path:
    """The library in a folder; CalledProcessError where the compiler refuses, OSError where nothing can be written."""
    path = folder / name
    if path.is_file() and os.access(path, os.R_OK):
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="compiling-") as place:
        new = Path(place) / name
        subprocess.run([*command, "-lm", "-o", str(new)], check=True, capture_output=True, text=True, timeout=SECONDS)
        os.replace(new, path)
    return path


def cache_folder() -> Path | None:
    """Where libraries are kept between processes; None for a user without a home."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(given) / "day0" if given and Path(given).is_absolute() else Path.home() / ".cache" / "day0"
    except RuntimeError:
        return None


@cache
def _place() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="day0-")


def _own_folder() -> Path:
    """A folder of this process alone, gone when it ends."""
    return Path(_place().name)
