"""The page about hooks names all points, subjects, decisions, events and names of tools, and nothing that is not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import attrs
import pytest

from engine.core import hooks
from engine.core.hooks import Hooks, Remark, Subject
from engine.tools.claude_hooks.load import HOOK_EVENTS, load_hooks
from engine.tools.claude_hooks.tool_names import names_of

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "reference" / "hooks.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return (
        PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        or PAGE.partition(f"\n### {title}\n")[2].partition("\n#")[0]
    )


def rows(text: str) -> list[list[str]]:
    found = [
        [cell.strip() for cell in line.strip("|").split(" |")] for line in text.splitlines() if line.startswith("| `")
    ]
    return [row for row in found if row]


def classes(base: type) -> list[type]:
    found = [thing for thing in vars(hooks).values() if isinstance(thing, type) and issubclass(thing, base)]
    return sorted(found, key=lambda cls: cls.__name__)


def own_fields(cls: type) -> dict[str, object]:
    inherited = {field.name for parent in cls.__mro__[1:] if attrs.has(parent) for field in attrs.fields(parent)}
    return {field.name: field.default for field in attrs.fields(cls) if field.name not in inherited}


def test_every_point_with_its_subject_and_its_decision() -> None:
    told = {row[0].strip("`"): tuple(re.findall(r"\[`(\w+)`\]", " ".join(row[2:]))) for row in rows(section("Points"))}
    assert list(told) == [field.name for field in attrs.fields(Hooks)]
    for point, (subject, decision) in told.items():
        hint = str(Hooks.__annotations__[point])
        kind = getattr(hooks, re.findall(r"\w+Hook", hint)[0])
        assert (f"engine.core.hooks.{subject}]" in str(kind), f"engine.core.hooks.{decision} |" in str(kind)) == (
            True,
            True,
        ), point


@pytest.mark.parametrize("cls", [*classes(Subject), *classes(Remark)], ids=lambda cls: cls.__name__)
def test_every_value_has_its_fields_and_their_defaults(cls: type) -> None:
    told = {row[0].strip("`"): row[1] for row in rows(section(f"`{cls.__name__}`"))}
    fields = own_fields(cls)
    assert list(told) == list(fields)
    if issubclass(cls, Remark):
        assert {name: ast.literal_eval(shown.strip("`")) for name, shown in told.items()} == fields


def test_every_event_stands_at_its_points() -> None:
    events = {row[0].strip("`"): row for row in rows(section("Events"))}
    assert set(events) == HOOK_EVENTS
    for event, row in events.items():
        made = load_hooks({event: [{"hooks": [{"type": "command", "command": "x"}]}]})
        points = {field.name for field in attrs.fields(Hooks) if getattr(made, field.name)}
        assert set(re.findall(r"`(\w+)`", row[1])) == points


def test_every_name_of_a_tool() -> None:
    for row in rows(section("Names of tools")):
        assert names_of(row[0].strip("`")) == tuple(re.findall(r"`(\w+)`", row[1]))
