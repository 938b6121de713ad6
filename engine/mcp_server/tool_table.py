"""The tools that other agents call, as data. Pure.

No argument can widen what is allowed: a schema refuses what it does not name, and names no permission, no host and no server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Final, Literal

import attrs

from engine.core.schema import Json
from engine.json_schema.parse_schema import JsonSchema, parse_schema

ToolName = Literal["run", "wait", "cancel", "sessions", "show"]

# Clients end calls that are silent for a minute, and some end every call after five.
MOST_SECONDS: Final = 240
MOST_PROMPT_CHARS: Final = 1_000_000


@attrs.frozen(kw_only=True, eq=False, slots=False)
class ServedTool:
    """A tool as clients list it.

    Attributes:
        name: its name.
        title: for people.
        description: what a calling model reads.
        properties: the schemas of its arguments.
        required: the arguments that it needs.
        output: the schema of its structured result; None: it is not described.
        is_read_only: it changes nothing.
    """

    name: ToolName
    title: str
    description: str
    properties: Mapping[str, Json]
    required: tuple[str, ...] = ()
    output: Mapping[str, Json] | None = None
    is_read_only: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Json]:
        """The schema of all its arguments."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }

    @cached_property
    def checker(self) -> JsonSchema:
        """What checks arguments."""
        return parse_schema(json.dumps(self.input_schema))


_SESSION: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "description": "A session's id, from an earlier result.",
}
_TURN: Final[Mapping[str, Json]] = {
    "type": "object",
    "properties": {
        "session": {"type": "string", "description": "Pass it to run to continue, or to wait, cancel and show."},
        "stop_reason": {"type": ["string", "null"], "description": "Why the work ended; null: it still runs."},
        "detail": {"type": "string"},
        "usage": {"type": ["object", "null"], "description": "Tokens."},
        "cost": {"type": ["number", "null"], "description": "Dollars; null: unknown."},
        "changed_files": {
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "change": {"enum": ["created", "changed", "deleted"]}},
            },
            "description": "The files that the work changed; null: unknown.",
        },
        "denied": {
            "type": "array",
            "items": {"type": "object"},
            "description": "What was not allowed, and the rules that would allow it.",
        },
    },
    "required": ["session", "stop_reason", "usage", "cost", "changed_files", "denied"],
}


def _limit(kind: str, least: float, description: str) -> Json:
    return {"type": kind, "minimum": least, "description": description}


TOOLS: Final = (
    ServedTool(
        name="run",
        title="Run a coding task",
        description="Give a task to a coding agent that reads, changes and runs files in a folder, and return its answer when "
        "it is done. Pass the session of an earlier result to continue that conversation. A task that takes longer than you "
        "can wait: pass detach, then call wait.",
        properties={
            "prompt": {
                "type": "string",
                "minLength": 1,
                "maxLength": MOST_PROMPT_CHARS,
                "description": "The task, in full: the agent sees nothing of your conversation.",
            },
            "session": _SESSION,
            "cwd": {
                "type": "string",
                "maxLength": 4096,
                "description": "The folder to work in, below the server's root. Only for a new session.",
            },
            "model": {"type": "string", "minLength": 1, "maxLength": 200, "description": "One of the server's models."},
            "limits": {
                "type": "object",
                "properties": {
                    "steps": _limit("integer", 1, "Requests to the model."),
                    "tokens": _limit("integer", 1, "Input and output together."),
                    "cost": _limit("number", 0, "Dollars."),
                    "seconds": _limit("number", 0, "Time."),
                },
                "additionalProperties": False,
                "description": "Where to stop. They can only be stricter than the server's.",
            },
            "detach": {"type": "boolean", "description": "Return at once; the work continues."},
        },
        required=("prompt",),
        output=_TURN,
    ),
    ServedTool(
        name="wait",
        title="Wait for a task",
        description="Wait until the work in a session ends, and return its answer, as run does. If it still runs after "
        "that many seconds, stop_reason is null: call wait again.",
        properties={
            "session": _SESSION,
            "seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": MOST_SECONDS,
                "description": f"How long to wait, at most {MOST_SECONDS}. Default: 60.",
            },
        },
        required=("session",),
        output=_TURN,
    ),
    ServedTool(
        name="cancel",
        title="Cancel a task",
        description="Cancel the work in a session. What it has done so far stays.",
        properties={"session": _SESSION},
        required=("session",),
    ),
    ServedTool(
        name="sessions",
        title="List sessions",
        description="List the newest sessions, or search the messages of all for words.",
        properties={
            "query": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "Words to search for."}
        },
        is_read_only=True,
    ),
    ServedTool(
        name="show",
        title="Show a session",
        description="Show a session's folder, model, status and last answer.",
        properties={"session": _SESSION},
        required=("session",),
        is_read_only=True,
    ),
)
