"""What files say: names, docstrings, field comments, and nothing about the place where they were written."""

import ast
import importlib
import re
from collections.abc import Iterator

from day0.spec.reports.base import Strict
from tests.arch.source import ROOT, Source, sources, tracked
from tests.arch.test_imports import layer

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base_classes", "shared", "lib", "tools"}
MACHINE = re.compile("|".join([r"(?<![\w.])/(?:wor[k]|roo[t]|far[m])/", r"\.librar[y]/", r"/tm[p]/w/"]))
BINARY = {".safetensors", ".png", ".gguf", ".bin"}


def test_no_forbidden_file_names() -> None:
    assert [s.name for s in sources() if {s.path.stem, *s.path.relative_to(ROOT).parts} & FORBIDDEN_NAMES] == []


def test_every_module_has_a_docstring() -> None:
    assert [s.name for s in sources() if s.tree.body and not ast.get_docstring(s.tree)] == []


def is_record(node: ast.AST) -> bool:
    names = {ast.unparse(decorator).partition("(")[0] for decorator in getattr(node, "decorator_list", [])}
    return isinstance(node, ast.ClassDef) and bool(names & {"record", "dataclass"})


def undocumented(source: Source) -> Iterator[str]:
    """Fields of records without a `#:` comment on a line of theirs or on the line below."""
    text = source.path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(source.tree):
        for field in node.body if is_record(node) else []:  # type: ignore[attr-defined]
            if isinstance(field, ast.AnnAssign):
                own = text[field.lineno - 1 : field.end_lineno]
                below = text[field.end_lineno : (field.end_lineno or 0) + 1]
                if not any("#:" in line for line in own) and not any(line.strip().startswith("#:") for line in below):
                    yield f"{source.name}:{field.lineno} {ast.unparse(field.target)}"


def test_every_record_field_is_documented() -> None:
    assert [line for s in sources() if layer(s.module) in {"spec", "parts"} for line in undocumented(s)] == []


def test_every_report_field_is_described() -> None:
    """A unit and a meaning for whoever reads the YAML without us."""
    modules = [importlib.import_module(s.module) for s in sources() if s.module.startswith("day0.spec.reports.")]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Strict)}
    fields = [(f"{kind.__name__}.{name}", field) for kind in kinds for name, field in kind.model_fields.items()]
    assert [name for name, field in fields if not field.description and not name.endswith(".schema_name")] == []


def test_nothing_speaks_of_one_machine() -> None:
    found = []
    for path in tracked():
        if path.suffix in BINARY:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if MACHINE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}")
    assert found == []
