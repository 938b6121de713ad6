"""The schema of the Agent Client Protocol, as the npm package `@agentclientprotocol/sdk` brings it: what agents may send."""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.support.javascript import PACKAGES

# Imported by name: its types are a package of their own.
jsonschema: Any = import_module("jsonschema")
SDK: Final = PACKAGES / "@agentclientprotocol" / "sdk"
_FILE: Final = SDK / "schema" / "v1" / "schema.json"
HAS_SCHEMA: Final = _FILE.exists()


@cache
def _schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(_FILE.read_text())
    return loaded


@cache
def _definitions() -> dict[tuple[str, str], str]:
    """The names of definitions, by method and kind: Request, Response, Notification."""
    kinds = ("Request", "Response", "Notification")
    return {
        (value["x-method"], kind): name
        for name, value in _schema()["$defs"].items()
        if "x-method" in value
        for kind in kinds
        if name.endswith(kind)
    }


@cache
def _validator(name: str) -> Any:
    target = {"$ref": f"#/$defs/{name}"} if name else {"anyOf": _schema()["anyOf"]}
    return jsonschema.Draft202012Validator({**target, "$defs": _schema()["$defs"]})


def check_by_schema(message: dict[str, Any], method: str) -> None:
    """Raise `jsonschema.ValidationError` for what an agent may not send; *method* is that of the message, or that it answers."""
    # As a whole, then by its own definition: answers all look alike to the first.
    _validator("").validate(message)
    if "error" in message:
        _validator("Error").validate(message["error"])
        return
    kind = ("Request" if "id" in message else "Notification") if "method" in message else "Response"
    name = _definitions().get((method, kind))
    if name is not None:
        _validator(name).validate(message["result" if kind == "Response" else "params"])
    else:
        assert method.startswith("_"), f"the protocol has no {kind.lower()} {method!r}"


def checked_lines(path: Path) -> list[dict[str, Any]]:
    """Check each line that an agent has written, and return its messages. What its answers are about is not known."""
    messages: list[dict[str, Any]] = [json.loads(line) for line in path.read_bytes().splitlines()]
    for message in messages:
        if "method" in message:
            check_by_schema(message, message["method"])
        else:
            _validator("").validate(message)
    return messages
