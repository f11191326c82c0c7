"""Imports point downward only, and what plans does not load what computes."""

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.arch.source import Source, sources

# Layer → how high it stands. A module imports from lower layers, and from its own.
RANK = {
    "spec": 0,
    "parts": 1, "checkpoint": 1,
    "ops": 2, "formats": 2, "towers": 2, "preprocessors": 2, "backends": 2,
    "blocks": 3, "families": 3,
    "engine": 4,
    "serve": 5, "community": 5,
    "checks": 6,
    "stages": 7,
    "cli": 8, "render": 8,
}  # fmt: skip
CLOSED = {"kernels": {"spec"}, "templates": set()}  # layers that stand apart → what they may import
WITHOUT_TORCH = {"spec", "checkpoint", "parts", "families", "towers", "preprocessors", "formats", "ops", "kernels", "checks", "cli", "render"}
WITHOUT_TORCH_FILES = {
    *(f"day0.stages.{name}" for name in ("inspect", "plan_memory", "map_ops", "machines", "chain")),
    *(
        f"day0.engine.{name}"
        for name in ("release", "footprint", "demand", "search", "legal", "offload", "inventory", "shard", "transient", "roofline")
    ),
}


def layer(module: str) -> str | None:
    """Name of the layer of a module of ours; None for `day0` itself and for what is not ours."""
    parts = module.split(".")
    return parts[1] if parts[0] == "day0" and len(parts) > 1 and parts[1] in {*RANK, *CLOSED} else None


def imported(node: ast.AST) -> list[str]:
    """Dotted names that a statement imports; `from day0.spec import names` names both package and member."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative import"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def at_module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements that run on import: all but the bodies of functions and of `if TYPE_CHECKING`."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if typing:
                pending += child.orelse  # type: ignore[attr-defined]
            elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                pending.append(child)


def top(name: str) -> str:
    return name.partition(".")[0]


def upward(source: Source) -> Iterator[str]:
    own = layer(source.module)
    for node in ast.walk(source.tree):
        for name in imported(node):
            target = layer(name)
            if own is None or target is None or target == own:
                continue
            allowed = target in CLOSED[own] if own in CLOSED else target not in CLOSED and RANK[target] < RANK[own]
            if {own, target} == {"cli", "render"}:
                allowed = own == "cli"
            if not allowed:
                yield f"{source.name}:{node.lineno} {own} imports {name}"  # type: ignore[attr-defined]


def test_imports_point_downward() -> None:
    assert [line for source in sources() for line in upward(source)] == []


@pytest.mark.parametrize(("text", "module", "wrong"), [
    ("from day0.stages import run", "day0.engine.batch", True),
    ("def f():\n    from day0.cli import app", "day0.render.run", True),
    ("import day0.blocks.mla", "day0.parts.mla", True),
    ("from day0.ops.linear import OP", "day0.kernels.linear_triton", True),
    ("from day0.kernels.linear_triton import IMPL", "day0.engine.bind", True),
    ("from day0.spec.errors import Day0Error", "day0.kernels.linear_triton", False),
    ("from day0.render import console", "day0.cli.run", False),
])  # fmt: skip
def test_the_rule_sees_a_wrong_arrow(text: str, module: str, wrong: bool) -> None:
    source = sources()[0]._replace(module=module, tree=ast.parse(text))
    assert bool(list(upward(source))) == wrong


def test_only_render_imports_rich() -> None:
    others = [s for s in sources() if layer(s.module) != "render"]
    assert [s.name for s in others for n in ast.walk(s.tree) for name in imported(n) if top(name) == "rich"] == []


def test_planning_does_not_import_torch() -> None:
    bound = [s for s in sources() if layer(s.module) in WITHOUT_TORCH or s.module in WITHOUT_TORCH_FILES]
    heavy = {"torch", "transformers", "numpy"}
    assert [f"{s.name}: {name}" for s in bound for n in at_module_level(s.tree) for name in imported(n) if top(name) in heavy] == []


def test_kernels_are_never_imported_by_name() -> None:
    """But for what they are made of, by each other."""
    found = [(s, name) for s in sources() for n in ast.walk(s.tree) for name in imported(n) if name.startswith("day0.kernels.")]
    assert [s.name for s, name in found if not (layer(s.module) == "kernels" and name.count(".") > 2)] == []


def test_commands_import_stages_when_they_run() -> None:
    """`day0 COMMAND --help` imports its own file; what it needs to work is imported by the function."""
    light = {*sys.stdlib_module_names, "typer", "day0.cli", "day0.spec"}
    found = []
    for source in sources():
        if layer(source.module) == "cli" and source.path.stem not in {"app", "__init__"}:
            names = [name for node in at_module_level(source.tree) for name in imported(node)]
            found += [f"{source.name}: {name}" for name in names if not any(name == ok or name.startswith(ok + ".") for ok in light)]
    assert found == []
