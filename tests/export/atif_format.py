"""What a reader of ATIF v1.7 accepts: the fields of the format as a JSON Schema, and the rules that a schema can't say.

Written from the format's RFC (0001, of Harbor) and compared by hand with Harbor's own models, which refuse unknown fields.
"""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from typing import Any, Final

Json = dict[str, Any]

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_MONEY: Final = {"type": "number", "minimum": 0}
_ANY: Final = {"type": "object"}


def _object(required: Json, optional: Json) -> Json:
    return {
        "type": "object",
        "properties": required | optional,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


_CONTENT: Final = {
    "anyOf": [
        _TEXT,
        _list(
            {
                "anyOf": [
                    _object({"type": {"const": "text"}, "text": _TEXT}, {}),
                    _object(
                        {
                            "type": {"const": "image"},
                            "source": _object({"media_type": _TEXT, "path": _TEXT}, {}),
                        },
                        {},
                    ),
                ]
            }
        ),
    ]
}
_REFERENCE: Final = {
    **_object({}, {"trajectory_id": _TEXT, "session_id": _TEXT, "trajectory_path": _TEXT, "extra": _ANY}),
    "anyOf": [{"required": ["trajectory_id"]}, {"required": ["trajectory_path"]}],
}
_STEP: Final = _object(
    {
        "step_id": {"type": "integer", "minimum": 1},
        "source": {"enum": ["system", "user", "agent"]},
        "message": _CONTENT,
    },
    {
        "timestamp": _TEXT,
        "model_name": _TEXT,
        "reasoning_effort": {"type": ["string", "number"]},
        "reasoning_content": _TEXT,
        "tool_calls": _list(
            _object({"tool_call_id": _TEXT, "function_name": _TEXT, "arguments": _ANY}, {"extra": _ANY})
        ),
        "observation": _object(
            {
                "results": _list(
                    _object(
                        {},
                        {
                            "source_call_id": _TEXT,
                            "content": _CONTENT,
                            "subagent_trajectory_ref": _list(_REFERENCE),
                            "extra": _ANY,
                        },
                    )
                )
            },
            {},
        ),
        "metrics": _object(
            {},
            {
                "prompt_tokens": _COUNT,
                "completion_tokens": _COUNT,
                "cached_tokens": _COUNT,
                "cost_usd": _MONEY,
                "prompt_token_ids": _list(_COUNT),
                "completion_token_ids": _list(_COUNT),
                "logprobs": _list({"type": "number"}),
                "extra": _ANY,
            },
        ),
        "is_copied_context": {"type": "boolean"},
        "llm_call_count": _COUNT,
        "extra": _ANY,
    },
)
_TRAJECTORY: Final = _object(
    {
        "schema_version": {"const": "ATIF-v1.7"},
        "agent": _object(
            {"name": _TEXT, "version": _TEXT}, {"model_name": _TEXT, "tool_definitions": _list(_ANY), "extra": _ANY}
        ),
        "steps": {**_list(_STEP), "minItems": 1},
    },
    {
        "session_id": _TEXT,
        "trajectory_id": _TEXT,
        "notes": _TEXT,
        "final_metrics": _object(
            {},
            {
                "total_prompt_tokens": _COUNT,
                "total_completion_tokens": _COUNT,
                "total_cached_tokens": _COUNT,
                "total_cost_usd": _MONEY,
                "total_steps": _COUNT,
                "extra": _ANY,
            },
        ),
        "continued_trajectory_ref": _TEXT,
        "extra": _ANY,
        "subagent_trajectories": _list({"$ref": "#"}),
    },
)
# Imported by name: its types are a package of their own.
_VALIDATOR: Any = import_module("jsonschema").Draft202012Validator(_TRAJECTORY)
_OF_AGENTS: Final = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def check_trajectory(document: Json) -> None:
    """Raise `AssertionError` or `ValidationError` if a reader of the format would refuse *document*."""
    _VALIDATOR.validate(document)
    _check_rules(document)


def _check_rules(document: Json) -> None:
    for number, step in enumerate(document["steps"], 1):
        assert step["step_id"] == number
        if "timestamp" in step:
            datetime.fromisoformat(step["timestamp"])
        if step["source"] != "agent":
            assert not _OF_AGENTS & step.keys()
        if step.get("llm_call_count") == 0:
            assert not {"metrics", "reasoning_content"} & step.keys()
        calls = {call["tool_call_id"] for call in step.get("tool_calls", [])}
        for result in step.get("observation", {}).get("results", []):
            assert result.get("source_call_id") in {None, *calls}
    children = document.get("subagent_trajectories", [])
    ids = [child["trajectory_id"] for child in children]
    assert len(set(ids)) == len(ids)
    for child in children:
        _check_rules(child)
