"""flake8-async, in a third of its time: `python -m scripts.async_rules --enable CODES FILE…`.

It goes through the concrete syntax tree of each file once for each visitor, and finds out where every node is each time.
Most rules need only the abstract tree, which costs a twentieth: where they find nothing, and no enabled rule could find
anything in the concrete one, that is not looked at. Elsewhere the places of its nodes are found once.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from libcst.metadata import MetadataWrapper

# Neither has types.
flake8_async: Any = import_module("flake8_async")
runner: Any = import_module("flake8_async.runner")

YIELD_IN_SCOPE = "ASYNC101"


def concrete_codes() -> frozenset[str]:
    """The rules that need the concrete tree."""
    return frozenset(code for visitor in runner.ERROR_CLASSES_CST for code in visitor.error_codes)


def needs_concrete_tree(tree: ast.AST, codes: Collection[str]) -> bool:
    """Tell whether one of these rules could find something in the concrete tree of a file."""
    nodes = list(ast.walk(tree))
    if concrete_codes().intersection(codes) - {YIELD_IN_SCOPE}:  # they are about asynchronous functions
        return any(isinstance(node, ast.AsyncFunctionDef) for node in nodes)
    blocks = [node for node in nodes if isinstance(node, (ast.With, ast.AsyncWith))]
    return any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for block in blocks for inner in ast.walk(block))


def problems_in(source: str) -> Iterator[Any]:
    """Yield what `flake8_async.Plugin.run` yields, with its options."""
    options = flake8_async.Plugin._options
    found = list(runner.Flake8AsyncRunner.run(tree := ast.parse(source), options))
    if not found and not needs_concrete_tree(tree, options.enabled_codes):
        return
    concrete = runner.Flake8AsyncRunner_cst(options, flake8_async.cst_parse_module_native(source))
    # No visitor changes the tree unless it is to mend it, so the nodes stay where they are.
    nodes = MetadataWrapper(concrete.module, unsafe_skip_copy=True)
    ignored: Mapping[int, Collection[str]] = {}
    for visitor in (*concrete.utility_visitors, *concrete.visitors):
        nodes.visit(visitor)
        ignored = visitor.noqas
    yield from concrete.state.problems
    for problem in found:
        codes = ignored.get(problem.line)
        if codes is None or (codes and problem.code not in codes):
            yield problem


def main() -> int:
    """Print the problems; return the exit code."""
    parser = ArgumentParser(prog="async_rules")
    flake8_async.Plugin.add_options(parser)
    arguments = parser.parse_args()
    flake8_async.Plugin.parse_options(arguments)
    code = 0
    for name in arguments.files:
        with tokenize.open(Path(name)) as file:
            source = file.read()
        for problem in sorted(problems_in(source)):
            print(f"{name}:{problem}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
