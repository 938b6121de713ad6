"""The public surface is pinned in surface.txt: each name of `engine.__all__`, and how it is called.

Changing it is a decision, and needs a news fragment. Pin it anew with `make surface`, and read the difference.
"""

import ast
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

GOLDEN = Path(__file__).with_name("surface.txt")
MOST_NAMES = 25


def surface() -> list[str]:
    """The public surface, a line for each name and, indented, for each public member of a class."""
    import engine  # a surface that cannot be imported fails one test, not the collection

    return [line for name in sorted(engine.__all__) for line in _describe(name, getattr(engine, name))]


def _describe(name: str, thing: object) -> Iterator[str]:
    if isinstance(thing, types.ModuleType):
        yield f"{name}: module"
    elif isinstance(thing, type):
        bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
        yield f"{name}: class({bases}){_signature(thing)}"
        yield from (f"    {member}" for member in _members(thing))
    elif callable(thing) and not isinstance(thing, types.GenericAlias):
        kind = "async " if inspect.iscoroutinefunction(thing) else ""
        yield f"{name}: {kind}{_signature(thing)}"
    else:
        yield f"{name}: {_tidy(repr(thing))}"


def _members(cls: type) -> Iterator[str]:
    """Public methods and properties that the engine defines; attributes are in the signature."""
    for name, attribute in sorted(inspect.getmembers_static(cls)):
        owner = next(base for base in cls.__mro__ if name in vars(base))
        if name.startswith("_") or not owner.__module__.startswith("engine"):
            continue
        function = attribute.__func__ if isinstance(attribute, classmethod | staticmethod) else attribute
        if isinstance(attribute, property):
            yield f"{name}: property"
        elif inspect.isfunction(function):
            kind = "async " if inspect.iscoroutinefunction(function) else ""
            yield f"{name}: {kind}{_signature(function)}"


def _signature(thing: object) -> str:
    if not callable(thing):
        return ""
    try:
        return _tidy(str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return "(...)"


def _tidy(text: str) -> str:
    """Drop what differs between runs and versions: addresses, quotes of forward references, our own module paths."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"\b(?:engine|typing|collections\.abc|types)\.(?:\w+\.)*", "", text)
    return text.replace("'", "")


def test_the_public_names_are_few_and_sorted() -> None:
    import engine

    assert len(engine.__all__) <= MOST_NAMES
    assert len(set(engine.__all__)) == len(engine.__all__)
    assert set(engine.__all__) <= set(dir(engine))


def test_the_surface_is_what_was_pinned() -> None:
    if not GOLDEN.exists():
        pytest.fail(f"there is no {GOLDEN.name} yet: write it with `make surface`, and read it")
    pinned = GOLDEN.read_text(encoding="utf-8").splitlines()
    assert surface() == pinned, "the public surface changed: if that is meant, `make surface` and a news fragment"


def test_type_checkers_see_the_names_that_the_runtime_has() -> None:
    """The names are lazy at run time; under TYPE_CHECKING each is imported explicitly, as itself."""
    import engine

    assert engine.__file__ is not None
    tree = ast.parse(Path(engine.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("engine")
        for alias in node.names
    }
    assert set(engine.__all__) <= imported | set(vars(engine))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        GOLDEN.write_text("\n".join(surface()) + "\n", encoding="utf-8")
    else:
        print("\n".join(surface()))
