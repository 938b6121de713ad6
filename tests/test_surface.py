"""The public surface is pinned in surface.txt: each name of each facade, and how it is called.

Changing it is a decision, and needs a news fragment. Pin it anew with `make surface`, and read the difference.
"""

import ast
import inspect
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NewType

import pytest

ENGINE = Path(__file__).resolve().parent.parent / "engine"
GOLDEN = Path(__file__).with_name("surface.txt")
MOST_NAMES = 25
FACADES = (
    "engine",
    "engine.agents",
    "engine.compaction",
    "engine.config",
    "engine.errors",
    "engine.events",
    "engine.client",
    "engine.control",
    "engine.export",
    "engine.fleet",
    "engine.hooks",
    "engine.language_servers",
    "engine.mcp",
    "engine.options",
    "engine.pace",
    "engine.permission",
    "engine.prompt",
    "engine.providers",
    "engine.settings_file",
    "engine.snapshots",
    "engine.store",
    "engine.telemetry",
    "engine.testing",
    "engine.tools",
)


# Defined now, before any test uses the codec: that resolves the annotations of its base class in place, and a subclass
# that is defined afterwards has a signature with other texts.
import_module("engine.agents.agent_result")


def exports(facade: str) -> list[str]:
    """The names that a facade offers."""
    names: list[str] = import_module(facade).__all__
    return names


def surface() -> list[str]:
    """The public surface: a line for each name of a facade and, indented, for each public member of a class.

    What two facades offer is described once, in the first of them.
    """
    lines: list[str] = []
    described: dict[int, str] = {}
    for facade in FACADES:
        lines += ["", f"[{facade}]"]
        for name in exports(facade):
            value = getattr(import_module(facade), name)
            # Equal types such as two Literals may or may not be one object, depending on what was imported before.
            is_definition = isinstance(value, type) or inspect.isfunction(value)
            first = described.setdefault(id(value), f"{facade}.{name}") if is_definition else f"{facade}.{name}"
            lines += _describe(name, value) if first == f"{facade}.{name}" else [f"{name}: {first}"]
    return lines[1:]


def _describe(name: str, thing: object) -> Iterator[str]:
    if isinstance(thing, types.ModuleType):
        yield f"{name}: module"
    elif isinstance(thing, type):
        bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
        yield f"{name}: class({bases}){_signature(thing)}"
        yield from (f"    {member}" for member in _members(thing))
    elif isinstance(thing, NewType):
        yield f"{name}: NewType({thing.__supertype__.__name__})"
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
    text = re.sub(r"\b(?:engine|typing|collections\.abc|types|ev)\.(?:\w+\.)*", "", text)  # ev: `core.events`
    return text.replace("'", "")


def test_engine_offers_few_names() -> None:
    assert len(exports("engine")) <= MOST_NAMES


def test_the_surface_is_what_was_pinned() -> None:
    if not GOLDEN.exists():
        pytest.fail(f"there is no {GOLDEN.name} yet: write it with `make surface`, and read it")
    pinned = GOLDEN.read_text(encoding="utf-8").splitlines()
    # In a process of its own: what other tests have imported changes how inherited types are spelled.
    path = str(Path(__file__).resolve().parent.parent)
    printed = subprocess.run(
        [sys.executable, __file__], check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert printed.stdout.splitlines() == pinned, (
        "the public surface changed: if that is meant, `make surface` and a news fragment"
    )


@pytest.mark.parametrize("facade", FACADES)
def test_type_checkers_see_runtime_names(facade: str) -> None:
    module = import_module(facade)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.asname
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == set(exports(facade))
    assert dir(module) == exports(facade)


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'engine\.events' has no attribute 'Missing'"):
        getattr(import_module("engine.events"), "Missing")  # noqa: B009  # a type checker would refuse it


def test_every_package_with_names_is_a_listed_facade() -> None:
    lazy = {path for path in ENGINE.rglob("*.py") if "lazy_exports(\n" in path.read_text(encoding="utf-8")}
    listed = {Path(import_module(facade).__file__ or "") for facade in FACADES}
    assert lazy - {ENGINE / "core" / "lazy.py"} == listed


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        GOLDEN.write_text("\n".join(surface()) + "\n", encoding="utf-8")
    else:
        print("\n".join(surface()))
