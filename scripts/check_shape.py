"""Refuse code that has grown out of shape: functions with too many branches, too deep nesting, too large classes or modules.

    python -m scripts.check_shape            what is wrong, and exit with 1; nothing otherwise
    python -m scripts.check_shape --figures  the largest of each kind, and how many comments there are
    python -m scripts.check_shape FOLDER     the same for a part of engine/ only

What counts as a branch: `if`, `elif`, a conditional expression, a loop, `except`, a `case`, each `for` and `if` of a
comprehension, and each operand of `and` and `or` after the first.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from scripts.check_words import code_lines

ENGINE = Path(__file__).resolve().parent.parent / "engine"

BRANCHES = 12
NESTING = 4
MEMBERS = 20  # methods and properties without an underscore, or fields of a class that is not frozen
LINES = 450

Function = ast.FunctionDef | ast.AsyncFunctionDef
BRANCHING = ast.If | ast.IfExp | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.match_case
BLOCKS = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.TryStar | ast.Match


def branches(function: ast.AST) -> int:
    """Return how many ways lead through a function; functions inside it count for themselves."""
    total = 1
    for node in _own_nodes(function):
        if isinstance(node, BRANCHING):
            total += 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
    return total


def nesting(function: ast.AST) -> int:
    """Return how deep the blocks of a function lie in each other; `elif` is no deeper than its `if`."""

    def depth(node: ast.AST, level: int) -> int:
        deepest = level
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.Lambda | ast.ClassDef):
                continue
            is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
            deeper = isinstance(child, BLOCKS) and not is_elif
            deepest = max(deepest, depth(child, level + deeper))
        return deepest

    return depth(function, 0)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, Function | ast.Lambda | ast.ClassDef):
            yield child
            yield from _own_nodes(child)


def members(cls: ast.ClassDef) -> int:
    """Return how many public members a class has: its methods, and its fields unless it is a frozen value or an enum."""
    named = {node.name for node in cls.body if isinstance(node, Function)}
    if not _is_value(cls):
        named |= {node.id for node in _own_nodes(cls) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in ast.walk(cls):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value) == "self"
            ):
                named.add(node.attr)
    return sum(not name.startswith("_") for name in named)


def _is_value(cls: ast.ClassDef) -> bool:
    declared = " ".join(ast.unparse(node) for node in (*cls.decorator_list, *cls.bases))
    return any(word in declared for word in ("frozen", "Enum", "NamedTuple", "TypedDict"))


def measures(path: Path) -> Iterator[tuple[str, int, int, str]]:
    """Yield what a module has: the kind of figure, the figure, its line, and of what."""
    text = path.read_text(encoding="utf-8")
    yield "lines", text.count("\n"), 1, "module"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            yield "branches", branches(node), node.lineno, node.name
            yield "nesting", nesting(node), node.lineno, node.name
        elif isinstance(node, ast.ClassDef):
            yield "members", members(node), node.lineno, node.name


def comments(text: str) -> int:
    """Return how many lines have a comment that is meant for readers, not for a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    remarks = (token.string for token in tokens if token.type == tokenize.COMMENT)
    return sum(not remark.startswith(("# type:", "# pyright:", "# noqa", "# fmt:")) for remark in remarks)


LIMITS = {"branches": BRANCHES, "nesting": NESTING, "members": MEMBERS, "lines": LINES}


def main() -> int:
    """Print what is wrong."""
    folders = [word for word in sys.argv[1:] if not word.startswith("--")] or [""]
    paths = [path for folder in folders for path in sorted((ENGINE / folder).rglob("*.py"))]
    found = [
        (kind, figure, f"engine/{path.relative_to(ENGINE)}:{line}: {name}")
        for path in paths
        for kind, figure, line, name in measures(path)
    ]
    if "--figures" in sys.argv:
        for kind, most in LIMITS.items():
            print(f"{kind}: {sum(figure > most for k, figure, _ in found if k == kind)} over {most}")
            for figure, where in sorted(((f, w) for k, f, w in found if k == kind), reverse=True)[:5]:
                print(f"{figure:6} {where}")
        texts = [path.read_text(encoding="utf-8") for path in paths]
        print(f"comments for a line of code: {sum(map(comments, texts)) / sum(map(code_lines, texts)):.3f}")
        return 0
    wrong = [(kind, figure, where) for kind, figure, where in found if figure > LIMITS[kind]]
    for kind, figure, where in wrong:
        print(
            f"{where} has {figure} {kind}, {LIMITS[kind]} at most"
            if kind != "nesting"
            else f"{where} is nested {figure} deep, {NESTING} at most"
        )
    if wrong:
        print("Cut it by subject: see CONTRIBUTING.md.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
