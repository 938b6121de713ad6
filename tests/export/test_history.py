"""What people read of a session: the answers to questions for permission."""

from __future__ import annotations

import attrs

from engine.core.events import CallStarted, Durable, PermissionAnswered, PermissionAsked
from engine.core.ids import CallId, RequestId
from engine.export.history import render_history
from engine.export.markdown import render_markdown
from tests.store.journals import A, numbered, session


def asked_session() -> tuple[list[Durable], CallId]:
    """Return a session whose first call was asked about twice."""
    events = session(A, ("Why does it fail?", "I'll look."), steps=2)
    start = next(index for index, event in enumerate(events) if isinstance(event, CallStarted))
    first = events[start]
    assert isinstance(first, CallStarted)
    questions: list[Durable] = []
    for number, answer in enumerate(("once", "reject")):
        request_id = RequestId(f"r{number}")
        questions += [
            PermissionAsked(
                turn_id=first.turn_id,
                request_id=request_id,
                call_id=first.call_id,
                tool="read",
                permission="read",
                patterns=("a\n## User",),
                rule="the rule R",
            ),
            PermissionAnswered(
                turn_id=first.turn_id,
                request_id=request_id,
                answer="once" if answer == "once" else "reject",
                by="panel",
            ),
        ]
    plain = [attrs.evolve(event, seq=None) for event in (*events[:start], *questions, *events[start:])]
    return list(numbered(plain, A)), first.call_id


def test_answers_are_kept_with_their_call() -> None:
    events, call_id = asked_session()
    answers = render_history(events).answers
    assert answers == {
        call_id: (
            "Allowed once: read a\n## User; by panel; asked by the rule R",
            "Denied: read a\n## User; by panel; asked by the rule R",
        )
    }


def test_markdown_shows_answers_on_one_line() -> None:
    events, _ = asked_session()
    text = render_markdown(render_history(events), "title")
    assert "\n\nAllowed once: read a ## User; by panel; asked by the rule R\n\nDenied: " in text
