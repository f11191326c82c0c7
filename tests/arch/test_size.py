"""Files and functions stay small enough to be read at one sitting."""

import ast
from statistics import median

from tests.arch.source import functions, sources

FILE, FUNCTION, KERNEL = 300, 40, 120  # lines
MEDIAN_FILE, MEDIAN_FUNCTION = 120, 12
FAMILY, MEDIAN_FAMILY = 150, 90


def lines(node: ast.AST) -> int:
    """From the first line of the definition (decorators not counted) to the last."""
    return node.end_lineno - node.lineno + 1  # type: ignore[attr-defined, no-any-return]


def is_triton(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("triton" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_files() -> None:
    counts = {source.name: source.path.read_text(encoding="utf-8").count("\n") for source in sources()}
    assert {name: count for name, count in counts.items() if count > FILE} == {}
    assert median(count for count in counts.values() if count) <= MEDIAN_FILE


def test_families() -> None:
    """A family is configuration in, vocabulary out; what needs more is a part."""
    counts = {source.name: source.path.read_text(encoding="utf-8").count("\n") for source in sources() if "families/" in source.name}
    assert counts
    assert {name: count for name, count in counts.items() if count > FAMILY} == {}
    assert median(count for count in counts.values() if count) <= MEDIAN_FAMILY


def test_functions() -> None:
    every = [(source.name, function) for source in sources() for function in functions(source.tree)]
    sizes = {f"{name}:{f.lineno} {f.name}": (lines(f), KERNEL if is_triton(f) else FUNCTION) for name, f in every}
    assert {name: size for name, (size, limit) in sizes.items() if size > limit} == {}
    assert median(size for size, _ in sizes.values()) <= MEDIAN_FUNCTION
