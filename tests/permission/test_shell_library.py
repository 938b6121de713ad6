"""The shell analysis is a library of its own: it imports nothing of the engine but the errors, and only downwards."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PERMISSION: Final = ROOT / "engine" / "permission"
# From the ground up: a folder imports from itself and from those before it.
FOLDERS: Final = ("effects", "programs.tables", "programs", "shell.parser", "shell")
OUTSIDE: Final = frozenset({"engine.core.errors"})
PREFIX: Final = "engine.permission."


def _modules() -> dict[str, Path]:
    """Return the modules of the library by their names, without those of packages."""
    paths = [path for top in ("effects", "programs", "shell") for path in (PERMISSION / top).rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths if path.stem != "__init__"}


def _imports(path: Path) -> Iterator[str]:
    """Yield every module of the engine that a file imports, in functions and for type checkers as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _graph() -> dict[str, set[str]]:
    return {
        name: {imported for imported in _imports(path) if imported.partition(".")[0] == "engine"}
        for name, path in _modules().items()
    }


def _folder(module: str) -> str:
    return module.removeprefix(PREFIX).rpartition(".")[0]


def test_shell_library_stands_alone() -> None:
    graph = _graph()
    assert len(graph) > 40
    foreign = {(name, target) for name, targets in graph.items() for target in targets - graph.keys() - OUTSIDE}
    assert foreign == set()


def test_shell_library_imports_downwards() -> None:
    graph = _graph()
    upward = {
        (name, target)
        for name, targets in graph.items()
        for target in targets & graph.keys()
        if FOLDERS.index(_folder(target)) > FOLDERS.index(_folder(name))
    }
    assert upward == set()


def test_shell_library_has_no_cycles() -> None:
    graph = {name: targets & _graph().keys() for name, targets in _graph().items()}
    while leaves := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - leaves for name, targets in graph.items() if name not in leaves}
    assert graph == {}, "these import each other, directly or through others"
