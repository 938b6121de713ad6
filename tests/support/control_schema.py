"""A validator of what the schema of the control protocol uses, and of whole messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.control.protocol.json_schema import protocol_schema
from engine.control.protocol.method_table import COMMON_ERRORS

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


def check_exchange(method: str, params: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Assert that an answer fits the schema; and its request, if that was accepted. An error is one of the method's row."""
    assert (answer["jsonrpc"], len(answer)) == ("2.0", 3)
    row = SCHEMA["x-methods"].get(method, {"errors": ["method"]})
    if "error" in answer:
        check_error(answer["error"])
        kind = answer["error"]["data"]["kind"]
        # What is not well formed has no method.
        assert kind in {*row["errors"], *COMMON_ERRORS, "request"}, f"{method} is answered with {kind}"
        return
    assert not (problem := wrong(dict(params), row["params"])), f"params of {method}: {problem}"
    assert not (problem := wrong(answer["result"], row["result"])), f"result of {method}: {problem}"


def check_error(error: Mapping[str, Any]) -> None:
    """Assert that an error is one of the table, and holds nothing else."""
    data = error["data"]
    row = SCHEMA["x-errors"][data["kind"]]
    assert error["code"] == row["code"]
    assert set(data) <= {"kind", "retry", "error", *row["facts"]}, data
    assert data["retry"] in {"no", "later", "same_key"}
    assert "Traceback" not in error["message"]


def check_note(message: Mapping[str, Any], sender: str = "server") -> None:
    """Assert that a notification fits the schema."""
    assert set(message) == {"jsonrpc", "method", "params"}
    node = SCHEMA["x-notifications"][sender][message["method"]]
    assert not (problem := wrong(message["params"], node)), f"{message['method']}: {problem}"


def wrong(value: Any, node: Any) -> str:
    """Say what is wrong by the schema: a validator of what this schema uses."""
    if node is False:
        return "nothing may be here"
    if "$ref" in node:
        return wrong(value, SCHEMA["$defs"][node["$ref"].rpartition("/")[2]])
    if "anyOf" in node:
        found = [wrong(value, member) for member in _candidates(value, node["anyOf"])]
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
        if len(value) > node.get("maxItems", len(value)):
            return f"{len(value)} items"
        first = node.get("prefixItems", [])
        nodes = [*first, *[node["items"]] * (len(value) - len(first))]
        return "".join(wrong(item, inner) for item, inner in zip(value, nodes, strict=True))
    if node.get("type") == "object":
        if missing := set(node.get("required", [])) - set(value):
            return f"{missing} missing"
        properties, more = node.get("properties", {}), node.get("additionalProperties", {})
        return "".join(wrong(item, properties.get(name, more)) for name, item in value.items())
    return ""


def _candidates(value: Any, members: list[Any]) -> list[Any]:
    """Return the members of a union that *value* may be: the one with its tag, so that it does not pass as another."""
    tag = value.get("type") if isinstance(value, dict) else None
    return [member for member in members if tag is not None and _tag_of(member) == tag] or members


def _tag_of(member: Any) -> str | None:
    target = SCHEMA["$defs"][member["$ref"].rpartition("/")[2]] if "$ref" in member else member
    tag: str | None = target.get("properties", {}).get("type", {}).get("const")
    return tag


def wrong_size(value: Any, node: Any) -> str:
    low, high = node.get("minLength", node.get("minimum")), node.get("maxLength", node.get("maximum"))
    if low is not None and not low <= (len(value) if isinstance(value, str) else value) <= high:
        return f"{value!r} is not within {low} and {high}"
    if isinstance(value, str) and not re.search(node.get("pattern", ""), value):
        return f"{value!r} does not match"
    return ""
