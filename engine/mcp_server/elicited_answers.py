"""Questions of a turn as forms of MCP's elicitation, and the answers that come back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from engine.acp.user_questions import form_answers, form_request, permission_answer, permission_options
from engine.core.events import PermissionAsked, QuestionAsked
from engine.core.schema import Json
from engine.permission.question_text import allow_question, further_rights, opaque_warning
from engine.session.answer_types import Answer, Reject

_FIELD: Final = "decision"
# What holds longer than the session is for the user's own tools to allow, not for a caller's form.
_OFFERED: Final = frozenset({"allow", "session", "reject"})
_UNANSWERED: Final = "The user did not allow this call."

Question = PermissionAsked | QuestionAsked


def elicitation_params(question: Question) -> dict[str, Json]:
    """Return the params of `elicitation/create` for a question."""
    if isinstance(question, QuestionAsked):
        form = form_request(question)
        return {"mode": "form", "message": question.question, "requestedSchema": form["requestedSchema"]}
    options: list[Json] = [
        {"const": option["optionId"], "title": option["name"]}
        for option in cast("list[dict[str, Json]]", permission_options(question))
        if option["optionId"] in _OFFERED
    ]
    return {
        "mode": "form",
        "message": "\n".join(_permission_lines(question)),
        "requestedSchema": {
            "type": "object",
            "properties": {_FIELD: {"type": "string", "title": "Decision", "oneOf": options}},
            "required": [_FIELD],
        },
    }


def _permission_lines(question: PermissionAsked) -> list[str]:
    lines = [allow_question(question), question.detail or ", ".join(question.patterns), *further_rights(question)]
    if warning := opaque_warning(question):
        lines.append(warning)
    if question.danger:
        lines.append(f"Careful: {question.danger}")
    if question.rule:
        lines.append(f"Asked by: {question.rule}")
    return lines


def permission_reply(question: PermissionAsked, result: Json) -> Answer:
    """Return the answer that a form's result stands for; whatever is no clear approval refuses."""
    if isinstance(result, Mapping) and result.get("action") == "accept":
        content = result.get("content")
        decision = content.get(_FIELD) if isinstance(content, Mapping) else None
        if isinstance(decision, str) and decision in _OFFERED:
            return permission_answer(question, decision)
    # With feedback, so that the turn goes on: the model may do it in another way.
    return Reject(feedback=_UNANSWERED)


def question_reply(result: Json) -> tuple[str, ...]:
    """Return what was entered; nothing: the question was declined."""
    return form_answers(result)
