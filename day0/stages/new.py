"""`day0 new`: drafts of files that a person then fills. Planning stages' rules: nothing but headers and configuration is read; no torch.

Text of a release is quoted in comments and strings only, one line each, in ASCII where it is not printable; none of its code is read.
"""

import importlib
import keyword
import re
from importlib import resources
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import jinja2

from day0.checkpoint.folder import Checkpoint
from day0.spec.errors import Day0Error
from day0.spec.record import record
from day0.spec.registry import backends, blocks, checks, families, formats, kernels, ops, parts
from day0.stages.unknown import Unknown, understand

Kind = Literal["family", "op", "part", "format", "check", "backend", "kernel"]
PACKAGES = {
    "block": blocks, "family": families, "op": ops, "part": parts, "format": formats, "check": checks, "backend": backends,
    "kernel": kernels,
}  # fmt: skip
WIDTH = 136  # characters of a line of comment, indentation included


@record
class Draft:
    """One file that is to be written."""

    kind: str  # name of its template
    name: str  # of the file, without ending
    text: str


def draft(kind: Kind, name: str) -> list[Draft]:
    """The files of a new thing that no model is needed for. Day0Error for a name that cannot be one."""
    if kind == "kernel":
        require_name(name)
        words = kernel_words(name)
        template = "triton_kernel" if words["provider"] == "triton" else kind
        return [Draft(kind=kind, name=name, text=fill(template, name, **words))]
    if kind == "check":
        return [Draft(kind=kind, name=require_code(name), text=fill(kind, name))]
    require_name(name)
    order = next(n for n in range(5, 1000, 5) if n not in {form.order for _, form in formats().items()}) if kind == "format" else None
    return [Draft(kind=one, name=name, text=fill(one, name, order=order)) for one in ((kind, "block") if kind == "part" else (kind,))]


def draft_family(name: str, model: Path) -> tuple[Draft, Unknown]:
    """A family for the release in the folder `model`, made from the closest known one; and what is known and unknown about it."""
    require_name(name)
    checkpoint = Checkpoint.open(model)
    checkpoint.require_sound()
    found = understand(checkpoint)
    lines = {
        "absent": [f"{key}{near}" for key, near in found.absent.items()],
        "unread": [f"{key} = {value}" for key, value in found.unread.items()],
        "missing": found.missing, "misfits": found.misfits, "unclaimed": found.unclaimed,
    }  # fmt: skip
    closest = found.closest
    words = {
        "closest": closest.family, "problem": one_line(closest.problem), "matched": found.matched, "model_type": quoted(found.model_type),
        "layer": quoted(closest.names.layer) if closest.names != families().get(closest.family).names else "",
    }  # fmt: skip
    text = fill("family", name, **words, **{what: [one_line(line) for line in said] for what, said in lines.items()})
    return Draft(kind="family", name=name, text=text), found


def write(drafts: list[Draft], out: Path | None = None) -> list[Path]:
    """Write each where files of its kind are in this checkout, or into OUT/families, OUT/ops, …; nothing when one of the files is there."""
    paths = [(out / folder_of(one.kind) if out else home(one.kind)) / f"{one.name}.py" for one in drafts]
    for path in paths:
        if path.exists():
            raise Day0Error("the file is there already", path, hint="choose another name, or remove it")
    for one, path in zip(drafts, paths, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(one.text)
    return paths


def folder_of(kind: str) -> str:
    """Such as "families" for a family."""
    return PACKAGES[kind]().package.rpartition(".")[2]


def home(kind: str) -> Path:
    """Folder of the files of one kind in this checkout; Day0Error where day0 was installed as a package."""
    folder = Path(importlib.import_module(PACKAGES[kind]().package).__path__[0])
    root = next((above for above in folder.parents if (above / "day0" / "__init__.py").is_file()), folder)
    if not (root / "pyproject.toml").is_file():
        raise Day0Error("day0 is installed as a package here", folder, hint="clone it and `pip install -e .`, or give --out DIR")
    return folder


def fill(template: str, name: str, **words: Any) -> str:
    """One of templates/new; what a template does not use is ignored, what it uses and is not given is an error."""
    text = (resources.files("day0.templates") / "new" / f"{template}.py.jinja").read_text(encoding="utf-8")
    settings = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    title = "".join(word.capitalize() for word in name.split("_"))
    return settings.from_string(text).render(name=name, title=title, **words)


def require_name(name: str) -> str:
    """A file name as Python imports it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise Day0Error(f"{name!r} cannot be the name of a file here", hint="lower-case letters, digits and _, beginning with a letter")
    return name


def require_code(name: str) -> str:
    """A check's file name, `dNNNN_name`, with a code of its own."""
    taken = {known.partition("_")[0]: known for known in checks().names()}
    if not re.fullmatch(r"d\d{4}_[a-z][a-z0-9_]*", name):
        raise Day0Error(f"{name!r} cannot be the name of a check", hint="dNNNN_name, such as d0309_rope_range; see `day0 explain`")
    code = name.partition("_")[0]
    if taken.get(code, name) != name:
        last = max(known for known in taken if known[:3] == code[:3])
        raise Day0Error(f"code {code.upper()} is taken by {taken[code]}", hint=f"d{int(last[1:]) + 1:04d} is free")
    return name


def kernel_words(name: str) -> dict[str, str]:
    """Operator, provider and parameters from a kernel's name."""
    op = max((op for op in ops().names() if name.startswith(f"{op}_")), key=len, default=None)
    if op is None:
        raise Day0Error(f"{name!r} begins with no operator's name", hint="<operator>_<provider>, such as rms_norm_triton")
    parameters = signature(ops().get(op).reference).parameters.values()
    said = (f"{p.name}: Any" if p.default is p.empty else f"{p.name}: Any = {p.default!r}" for p in parameters)
    return {"op": op, "provider": name.removeprefix(f"{op}_"), "parameters": ", ".join(said)}


def quoted(text: str) -> str:
    """A Python string literal on one line."""
    return '"' + ascii(text)[1:-1].replace('"', '\\"').replace("\\'", "'") + '"'


def one_line(text: str) -> str:
    """What may stand in a comment."""
    return (text if text.isprintable() else ascii(text)[1:-1])[: WIDTH - 10]
