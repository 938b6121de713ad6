"""`render_atif`: a session as a trajectory for Harbor and what reads its files, in ATIF v1.7. Pure.

The Agent Trajectory Interchange Format is one JSON object: the agent, steps numbered from 1, and sums. A step is the
system prompt, a message of the user, or an answer of the model together with its calls and their results. The trajectories
of sub-agents are inside of their parent's, and the result of the call that started one names it.

What the format has no field for is in `extra`: how a call ended, who allowed it, the reason why an answer ended.
Images and files are named there with their size, without their content: the format takes paths only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

import attrs

from engine.core.errors import SessionError
from engine.core.events import StepEnded
from engine.core.ids import CallId, SessionId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    FilePart,
    MediaPart,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    Usage,
    UserMessage,
)
from engine.export.history import History, HistoryEntry
from engine.export.iso_time import iso_time

SCHEMA_VERSION: Final = "ATIF-v1.7"

_AGENT: Final = "engine"
# Levels of sub-agents: a damaged store may have a cycle.
_DEEPEST: Final = 20
_Object: TypeAlias = "dict[str, object]"


def render_atif(stories: Sequence[History], *, engine: str) -> str:
    """Return the trajectory of a session as JSON text. Raises `SessionError` for one without any message.

    Args:
        stories: its history, then those of its sub-agents.
        engine: the version of the engine.
    """
    below: dict[SessionId, list[History]] = {}
    for story in stories[1:]:
        if story.state.parent_id is not None:
            below.setdefault(story.state.parent_id, []).append(story)
    trajectory = _Writer(below, engine).trajectory(stories[0])
    if trajectory is None:
        raise SessionError(
            f"session {stories[0].state.session_id} has no messages, and a trajectory has at least one step\n"
            "Next: engine sessions export ID --format json"
        )
    text = json.dumps(trajectory, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    # Readers of the format refuse half of a surrogate pair; a pair in two halves becomes one character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@attrs.frozen(eq=False)
class _Writer:
    """Makes the objects of the format."""

    _below: Mapping[SessionId, Sequence[History]]
    _engine: str

    def trajectory(self, story: History, depth: int = 0) -> _Object | None:
        """Return the trajectory of a session with those of its sub-agents; None: it has no steps."""
        state = story.state
        children = list(self._children(story, depth))
        references: dict[CallId, list[_Object]] = {}
        for child, _ in children:
            if child.parent_call_id is not None:
                reference: _Object = {"trajectory_id": child.state.session_id, "session_id": child.state.session_id}
                references.setdefault(child.parent_call_id, []).append(reference)
        steps = list(_steps(story, references))
        if not steps:
            return None
        cost = state.cost + sum(_cost_of(trajectory) for _, trajectory in children)
        return _without_empty(
            {
                "schema_version": SCHEMA_VERSION,
                "session_id": state.session_id,
                "trajectory_id": state.session_id,
                "agent": _without_empty(
                    {
                        "name": _AGENT,
                        "version": self._engine,
                        "model_name": state.model,
                        "extra": _without_empty({"agent": state.agent}),
                    }
                ),
                "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
                "final_metrics": {**_final_tokens(state.usage), "total_cost_usd": cost, "total_steps": len(steps)},
                "subagent_trajectories": [trajectory for _, trajectory in children],
                "extra": _without_empty(
                    {"title": state.title, "cwd": state.context.cwd, "forked_from": state.forked_from or ""}
                ),
            }
        )

    def _children(self, story: History, depth: int) -> Iterator[tuple[History, _Object]]:
        if depth < _DEEPEST:
            for child in self._below.get(story.state.session_id, ()):
                trajectory = self.trajectory(child, depth + 1)
                if trajectory is not None:
                    yield child, trajectory


def _cost_of(trajectory: _Object) -> float:
    return cast("float", cast("_Object", trajectory["final_metrics"])["total_cost_usd"])


# -- steps -----------------------------------------------------------------------------------


def _steps(story: History, references: Mapping[CallId, Sequence[_Object]]) -> Iterator[_Object]:
    """Yield the steps, without their numbers."""
    prompt = "" if story.state.prompt is None else story.state.prompt.text
    if prompt:
        yield _without_empty({"timestamp": iso_time(story.created, "milliseconds"), "source": "system"}) | {
            "message": prompt
        }
    results = {
        result.call_id: result
        for entry in story.entries
        if isinstance(entry.message, ResultsMessage)
        for result in entry.message.results
    }
    for entry in story.entries:
        message = entry.message
        if isinstance(message, UserMessage):
            yield _user_step(entry, message)
        elif isinstance(message, AssistantMessage):
            observed = [_observation(call, results, references, story.answers) for call in message.calls]
            yield _agent_step(entry, message, story.steps.get(message.id), [each for each in observed if each])


def _user_step(entry: HistoryEntry, message: UserMessage) -> _Object:
    is_users = message.origin in {"user", "steer", "queue"}
    media = [part for part in message.parts if not isinstance(part, TextPart)]
    extra: _Object = {
        "origin": "" if message.origin == "user" else message.origin,
        "attachments": _attachments(media),
        "context_management": {"type": "compaction"} if message.origin == "summary" else {},
    }
    return _step(
        entry,
        "user" if is_users else "system",
        # What the model reads: a client may show something else.
        "".join(part.text for part in message.parts if isinstance(part, TextPart)),
        extra=extra,
        is_copied=is_users and entry.turn_id is None,
    )


def _agent_step(
    entry: HistoryEntry, message: AssistantMessage, end: StepEnded | None, observed: Sequence[_Object]
) -> _Object:
    reasoning = [part.text for part in message.parts if isinstance(part, ReasoningPart) and part.text]
    extra: _Object = {
        "finish": message.finish or "",
        # What a host has run by itself, a search say: only it can read the details.
        "provider_items": [part.kind for part in message.parts if isinstance(part, ProviderPart)],
    }
    step = _step(
        entry,
        "agent",
        message.text,
        extra=extra,
        # A message that came with a fork or an import: no request of this session wrote it.
        is_copied=end is None,
    )
    return step | _without_empty(
        {
            "model_name": message.model,
            "reasoning_content": "\n\n".join(reasoning),
            "tool_calls": [_tool_call(call) for call in message.calls],
            "observation": _without_empty({"results": list(observed)}),
            "metrics": {} if end is None else _metrics(end),
            "llm_call_count": 0 if end is None else 1,
        }
    )


def _step(entry: HistoryEntry, source: str, text: str, *, extra: _Object, is_copied: bool) -> _Object:
    """Return what all steps have. Only the message may be empty."""
    optional: _Object = {
        "timestamp": iso_time(entry.time, "milliseconds"),
        "source": source,
        "is_copied_context": is_copied,
        "extra": _without_empty(extra),
    }
    return {"message": text, **_without_empty(optional)}


def _tool_call(call: CallPart) -> _Object:
    """Return a call; arguments that are no JSON object, as the format demands, are in `extra` as they came."""
    try:
        arguments: object = json.loads(call.arguments or "{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        arguments = None
    is_object = isinstance(arguments, dict)
    return {
        "tool_call_id": call.call_id,
        "function_name": call.tool,
        "arguments": arguments if is_object else {},
        **({} if is_object else {"extra": {"arguments_text": call.arguments}}),
    }


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _observation(
    call: CallPart,
    results: Mapping[CallId, CallResult],
    references: Mapping[CallId, Sequence[_Object]],
    answers: Mapping[CallId, Sequence[str]],
) -> _Object:
    """Return the result of a call; empty if it has none, and has started no sub-agent."""
    result = results.get(call.call_id)
    found: _Object = {"subagent_trajectory_ref": list(references.get(call.call_id, ()))}
    if result is None:
        return {"source_call_id": call.call_id, **found} if found["subagent_trajectory_ref"] else {}
    settlement = result.settlement
    extra: _Object = {
        "status": "failed" if settlement.failed else settlement.status,
        "reason": settlement.reason or "",
        "outcome_unknown": settlement.outcome_unknown,
        "permission": list(answers.get(call.call_id, ())),
        "attachments": _attachments((*settlement.images, *settlement.files)),
    }
    return {
        "source_call_id": call.call_id,
        "content": settlement.text,
        **_without_empty(found),
        "extra": _without_empty(extra),
    }


def _attachments(media: Sequence[MediaPart]) -> Sequence[_Object]:
    return [
        _without_empty(
            {
                "media_type": part.media_type,
                "name": part.name if isinstance(part, FilePart) else "",
                "base64_chars": len(part.data),
            }
        )
        for part in media
    ]


# -- sums ------------------------------------------------------------------------------------


def _metrics(end: StepEnded) -> _Object:
    """Return the tokens and cost of a request; empty if its host has counted none."""
    usage = end.usage
    if not usage.total:
        return {}
    return _without_empty(
        {
            # As in ours, the cached ones are a part of the prompt's.
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.output,
            "cached_tokens": usage.cache_read,
            "cost_usd": end.cost,
            "extra": _without_empty(
                {"cache_creation_input_tokens": usage.cache_write, "reasoning_output_tokens": usage.reasoning}
            ),
        }
    )


def _final_tokens(usage: Usage) -> _Object:
    return {
        "total_prompt_tokens": usage.prompt,
        "total_completion_tokens": usage.output,
        "total_cached_tokens": usage.cache_read,
    }


def _without_empty(fields: _Object) -> _Object:
    """Return *fields* without those that are empty, zero or false: in the format, such a field is left out."""
    return {name: value for name, value in fields.items() if value}
