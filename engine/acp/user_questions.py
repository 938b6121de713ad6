"""Questions to the user in the editor's forms, and the user's answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import attrs

from engine.acp.tool_calls import diff_content, kind_of, locations_of, raw_input, text_content, title_of
from engine.core.events import PermissionAsked, QuestionAsked
from engine.core.schema import Json
from engine.session.answer_types import Always, Answer, Once, Reject

REJECTED: Final = "The user rejected this call in the editor."
UNSUPPORTED: Final = "The editor could not show the question."
_ALLOW: Final = "allow"
_REJECT: Final = "reject"
_SESSION: Final = "session"
_PROJECT: Final = "project"
_SKIP: Final = "skip"
_ANSWER_FIELD: Final = "answer"
_EDIT: Final = "edit"


@attrs.frozen
class CallFacts:
    """What is known of the call that asks: its arguments, its folder, the sub-agent whose call it is."""

    arguments: str = ""
    cwd: str = ""
    agent: str = ""


def permission_request(event: PermissionAsked, call: CallFacts, note: str = "") -> dict[str, Json]:
    """Return the params of `session/request_permission`, without the session; *note* is shown below what is asked."""
    tool_call: dict[str, Json] = {
        "toolCallId": event.call_id,
        "title": title_of(event.tool, call.arguments or event.detail, call.agent),
        "kind": kind_of(event.tool),
        "status": "pending",
        "content": _content(event, call, note),
        "locations": locations_of(call.arguments, call.cwd),
        "rawInput": raw_input(call.arguments),
    }
    return {"toolCall": tool_call, "options": permission_options(event)}


def _content(event: PermissionAsked, call: CallFacts, note: str) -> list[Json]:
    diffs = diff_content(event.detail, call.cwd) if event.permission == _EDIT else []
    notes = [] if diffs else [event.detail or ", ".join(event.patterns)]
    if event.opaque:
        notes.append(f"The effects of this command can't be determined: {event.opaque}")
    if event.rule:
        notes.append(f"Asked because of the rule: {event.rule}")
    notes.append(note)
    return [*diffs, *(text_content(each) for each in notes if each)]


def permission_options(event: PermissionAsked) -> list[Json]:
    """Return what the user may choose; "always" names in full what it would allow."""
    options: list[Json] = [_option(_ALLOW, "Allow once", "allow_once")]
    if event.offers:
        narrowest = event.offers[0].text
        options.append(_option(_SESSION, f"Allow always in this session: {narrowest}", "allow_always"))
        options.append(_option(_PROJECT, f"Allow always in this project: {narrowest}", "allow_always"))
    options.append(_option(_REJECT, "Reject", "reject_once"))
    return options


def permission_answer(event: PermissionAsked, option_id: str) -> Answer:
    """Return the answer that an option stands for; an unknown one rejects."""
    if option_id == _ALLOW:
        return Once()
    if event.offers and option_id == _SESSION:
        return Always(offer=0, scope="session")
    if event.offers and option_id == _PROJECT:
        return Always(offer=0, scope="project")
    # With feedback, so that the turn goes on: the model may do it in another way.
    return Reject(feedback=REJECTED)


def choice_request(event: QuestionAsked) -> dict[str, Json]:
    """Return a tool's question as a request for a permission, for an editor that has no forms: without the session."""
    choices = [_option(f"choice-{index}", choice.label, "allow_once") for index, choice in enumerate(event.choices)]
    details = [f"{choice.label}: {choice.description}" for choice in event.choices if choice.description]
    tool_call: dict[str, Json] = {
        "toolCallId": event.call_id or event.request_id,
        "title": event.question.partition("\n")[0][:200],
        "kind": "other",
        "status": "pending",
        "content": [text_content("\n".join([event.question, *details]))],
    }
    return {"toolCall": tool_call, "options": [*choices, _option(_SKIP, "Skip", "reject_once")]}


def selected_labels(event: QuestionAsked, option_id: str) -> tuple[str, ...]:
    """Return the answer that an option of `choice_request` stands for; none: the user has skipped the question."""
    for index, choice in enumerate(event.choices):
        if option_id == f"choice-{index}":
            return (choice.label,)
    return ()


def form_request(event: QuestionAsked) -> dict[str, Json]:
    """Return a tool's question as the params of `elicitation/create`, without the session."""
    labels: list[Json] = [choice.label for choice in event.choices]
    options: list[Json] = [
        {
            "const": choice.label,
            "title": f"{choice.label}: {choice.description}" if choice.description else choice.label,
        }
        for choice in event.choices
    ]
    field: dict[str, Json]
    if event.several and labels:
        field = {"type": "array", "title": "Answer", "items": {"anyOf": options}}
    elif labels:
        field = {"type": "string", "title": "Answer", "oneOf": options}
    else:
        field = {"type": "string", "title": "Answer"}
    params: dict[str, Json] = {
        "mode": "form",
        "message": event.question,
        "requestedSchema": {"type": "object", "properties": {_ANSWER_FIELD: field}, "required": [_ANSWER_FIELD]},
    }
    if event.call_id:
        params["toolCallId"] = event.call_id
    return params


def form_answers(result: Json) -> tuple[str, ...]:
    """Return what the user has entered; nothing: the question was declined."""
    if not isinstance(result, Mapping) or result.get("action") != "accept":
        return ()
    content = result.get("content")
    entered = content.get(_ANSWER_FIELD) if isinstance(content, Mapping) else None
    values = cast("list[object]", entered) if isinstance(entered, list) else [entered]
    return tuple(value for value in values if isinstance(value, str) and value.strip())


def selected_option(result: Json) -> str | None:
    """Return the option that the user has chosen; empty: the prompt is being cancelled; None: it is no answer at all."""
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if not isinstance(outcome, dict):
        return None
    if outcome.get("outcome") == "cancelled":
        return ""
    option = outcome.get("optionId")
    return option if outcome.get("outcome") == "selected" and isinstance(option, str) and option else None


def _option(option_id: str, name: str, kind: str) -> dict[str, Json]:
    return {"optionId": option_id, "name": name, "kind": kind}
