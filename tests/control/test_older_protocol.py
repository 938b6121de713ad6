"""The protocol as clients of earlier releases know it: what they send is still taken, and what they read is still there.

`recorded/protocol-N.json` is the schema of the protocol's version N as it was first released. Within a version, only
additions are allowed; another file is recorded when the version changes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_schema import SCHEMA

RECORDED = [json.loads(file.read_text("utf-8")) for file in sorted(Path(__file__).with_name("recorded").iterdir())]
Node = dict[str, Any]
# Of a method; its summary and its errors may change.
_LASTING = ("params", "result", "role")


def broken(old: Node, new: Node) -> Iterator[str]:
    """Yield what a client or a server of the *old* schema would trip over with the *new* one."""
    yield from (f"{method} is gone" for method in old["x-methods"].keys() - new["x-methods"].keys())
    sent = {reference(row["params"]) for row in old["x-methods"].values()}
    for method, row in old["x-methods"].items():
        if method in new["x-methods"]:
            yield from (f"{method}: other {key}" for key in _LASTING if new["x-methods"][method][key] != row[key])
    for side, notes in old["x-notifications"].items():
        yield from (f"{name} is gone" for name in notes.keys() - new["x-notifications"][side].keys())
    for name, was in old["$defs"].items():
        now = new["$defs"].get(name)
        if now is None:
            yield f"{name} is gone"
        else:
            yield from (f"{name}: {problem}" for problem in broken_class(was, now, is_sent=name in sent))


def reference(node: Node) -> str:
    return str(node.get("$ref", "")).rpartition("/")[2]


def broken_class(was: Node, now: Node, *, is_sent: bool) -> Iterator[str]:
    fields, current = was.get("properties", {}), now.get("properties", {})
    yield from (f"the field {field} is gone" for field in fields.keys() - current.keys())
    before, after = set(was.get("required", ())), set(now.get("required", ()))
    if is_sent:
        yield from (f"{field} is required now" for field in after - before)
    else:
        yield from (f"{field} may be missing now" for field in before - after)
    yield from (f"{kind} is gone" for kind in kinds(was) - kinds(now))
    for field in fields.keys() & current.keys():
        yield from (f"{field}: {kind} is gone" for kind in kinds(fields[field]) - kinds(current[field]))


def kinds(node: Node) -> set[str]:
    """Return the types, classes and words that a value may be."""
    found = {reference(node)} if "$ref" in node else set()
    declared = node.get("type", ())
    found |= {declared} if isinstance(declared, str) else set(declared)
    found |= {json.dumps(value) for value in node.get("enum", ())}
    found |= {json.dumps(node["const"])} if "const" in node else set()
    for member in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        found |= kinds(member)
    return found | ({f"[{kind}]" for kind in kinds(node["items"])} if isinstance(node.get("items"), dict) else set())


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda schema: str(schema["x-protocol"]["max"]))
def test_later_protocol_only_adds(recorded: Node) -> None:
    assert list(broken(recorded, SCHEMA)) == []


@pytest.mark.parametrize(
    ("path", "change", "problem"),
    [
        (("x-methods",), "prompt", "prompt is gone"),
        (("$defs", "PromptParams", "properties"), "text", "the field text is gone"),
        (("$defs", "AgentRow", "properties"), "mode", "the field mode is gone"),
        (("$defs",), "TurnEnded", "TurnEnded is gone"),
    ],
)
def test_a_removal_is_found(path: tuple[str, ...], change: str, problem: str) -> None:
    changed = copy.deepcopy(SCHEMA)
    node: Any = changed
    for name in path:
        node = node[name]
    del node[change]
    assert any(problem in each for each in broken(RECORDED[-1], changed))


def test_a_new_demand_is_found() -> None:
    changed = copy.deepcopy(SCHEMA)
    changed["$defs"]["PromptParams"]["required"].append("settings")
    assert "PromptParams: settings is required now" in list(broken(RECORDED[-1], changed))
    changed = copy.deepcopy(SCHEMA)
    changed["$defs"]["AgentRow"]["required"].remove("mode")
    assert "AgentRow: mode may be missing now" in list(broken(RECORDED[-1], changed))
    changed = copy.deepcopy(SCHEMA)
    changed["$defs"]["AgentRow"]["properties"]["mode"] = {"type": "integer"}
    assert "AgentRow: mode: string is gone" in list(broken(RECORDED[-1], changed))
