"""What describes the control protocol: the reference, the schema, the declarations; and that examples fit the schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.control.protocol.json_schema import protocol_schema
from engine.control.protocol.method_table import METHODS, SERVER_NOTES
from engine.control.protocol.wire_converter import to_json
from scripts import control_reference
from scripts.control_examples import EXAMPLES, NOTES

SCHEMA: dict[str, Any] = protocol_schema()
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list, tuple),
    "object": (dict,),
}


@pytest.mark.parametrize(("path", "text"), control_reference.files().items(), ids=lambda item: Path(item).suffix)
def test_files_are_what_the_classes_say(path: Path, text: str) -> None:
    assert path.read_text("utf-8") == text, "run `make surface`"


@pytest.mark.parametrize("name", METHODS)
def test_examples_fit_the_schema(name: str) -> None:
    params, result = EXAMPLES[name]
    method = SCHEMA["x-methods"][name]
    assert not wrong(to_json(params), method["params"])
    assert not wrong(to_json(result), method["result"])


@pytest.mark.parametrize("name", SERVER_NOTES)
def test_notifications_fit_the_schema(name: str) -> None:
    assert not wrong(to_json(NOTES[name]), SCHEMA["x-notifications"]["server"][name])


@pytest.mark.parametrize(
    "params", [{}, {"session_id": "s", "txt": ""}, {"session_id": "", "text": "a", "key": "k"}, {"session_id": 1}, []]
)
def test_the_schema_refuses_wrong_params(params: object) -> None:
    assert wrong(params, SCHEMA["x-methods"]["prompt"]["params"])


def test_references_lead_somewhere() -> None:
    assert set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(SCHEMA))) == set(SCHEMA["$defs"])


def wrong(value: Any, node: Any) -> str:
    """Say what is wrong by the schema: a validator of what this schema uses."""
    if node is False:
        return "nothing may be here"
    if "$ref" in node:
        return wrong(value, SCHEMA["$defs"][node["$ref"].rpartition("/")[2]])
    if "anyOf" in node:
        found = [wrong(value, member) for member in node["anyOf"]]
        return "" if "" in found else "; ".join(found)
    if "enum" in node and value not in node["enum"]:
        return f"{value!r} is none of {node['enum']}"
    if "const" in node and value != node["const"]:
        return f"{value!r} is not {node['const']!r}"
    if "type" in node and type(value) not in KINDS[node["type"]]:
        return f"{value!r} is no {node['type']}"
    if problem := wrong_size(value, node):
        return problem
    if node.get("type") == "array":
        first = node.get("prefixItems", [])
        nodes = [*first, *[node["items"]] * (len(value) - len(first))]
        return "".join(wrong(item, inner) for item, inner in zip(value, nodes, strict=True))
    if node.get("type") == "object":
        if missing := set(node.get("required", [])) - set(value):
            return f"{missing} missing"
        properties, more = node.get("properties", {}), node.get("additionalProperties", {})
        return "".join(wrong(item, properties.get(name, more)) for name, item in value.items())
    return ""


def wrong_size(value: Any, node: Any) -> str:
    low, high = node.get("minLength", node.get("minimum")), node.get("maxLength", node.get("maximum"))
    if low is not None and not low <= (len(value) if isinstance(value, str) else value) <= high:
        return f"{value!r} is not within {low} and {high}"
    if isinstance(value, str) and not re.search(node.get("pattern", ""), value):
        return f"{value!r} does not match"
    return ""
