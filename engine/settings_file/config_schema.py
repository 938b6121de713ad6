"""The JSON Schema of the configuration file, from the classes of its tables."""

from __future__ import annotations

import json
from typing import cast

from engine.core.schema import Json, schema_of
from engine.settings_file.config_keys import SECTIONS, VERSION_KEY
from engine.settings_file.document import VERSION


def config_schema() -> dict[str, Json]:
    """Return the schema of a configuration file as JSON sees it: each table is an object."""
    properties: dict[str, Json] = {VERSION_KEY: {"const": VERSION}}
    for name, section in SECTIONS.items():
        table: Json = (
            {"type": "object"} if section.table is None else _without_null(json.loads(schema_of(section.table)))
        )
        properties[name] = {"type": "object", "additionalProperties": table} if section.is_named else table
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:engine:config:{VERSION}",
        "title": "The configuration file of the engine",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _without_null(node: Json) -> Json:
    """Return a schema without null, which TOML does not have: a value that is unset is not there."""
    if isinstance(node, list):
        return [_without_null(each) for each in node]
    if not isinstance(node, dict):
        return node
    out = {name: _without_null(each) for name, each in node.items() if not (name == "default" and each is None)}
    choices = [each for each in cast("list[Json]", out.get("anyOf", [])) if each != {"type": "null"}]
    if len(choices) == 1:
        del out["anyOf"]
        out = cast("dict[str, Json]", choices[0]) | out
    elif choices:
        out["anyOf"] = choices
    return out
