"""Imports point one way: a module may import from its own layer or from those above it in this list."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "shiftcal"

# The same list, with what each is for, is in docs/architecture.md.
LAYERS = [
    ("core",),
    ("functional", "metrics"),
    ("data", "target"),
    ("analysis",),
    ("methods",),
    ("calibrators",),
    ("training",),
    ("runs",),
    ("faces",),
    ("__main__",),
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Parts of one layer that must not know of each other.
APART = [
    ("functional", "metrics"),
    ("data", "target"),
]

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "shiftcal":
            names += [f"shiftcal.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    ours = (name.split(".")[1] for name in names if name.startswith("shiftcal."))
    return {name for name in ours if not name.startswith("__")}


def test_a_module_imports_only_from_layers_above() -> None:
    assert len(FILES) > 100
    for path in FILES:
        own = part_of(path)
        assert own in LEVEL, f"{own} stands in no layer; add it to LAYERS and to docs/architecture.md"
        for other in imported_parts(path) - {own}:
            words = f"{path.relative_to(PACKAGE)} must not import {other}"
            assert LEVEL[other] <= LEVEL[own], words
            assert (own, other) not in APART, words
            assert (other, own) not in APART, words
