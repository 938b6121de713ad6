"""Questions and answers, without a terminal."""

import time

import pytest

from engine.cli.questions.permission_view import PermissionView
from engine.cli.terminal.terminal_text import UNICODE
from engine.cli.turn.question_prompts import (
    answer_prompt,
    parse_choices,
    permission_text,
    recovery_question,
    requester_line,
    settled_line,
    tool_question,
)
from engine.core.events import Choice, QuestionAnswered, QuestionAsked, RecoveryAnswered, RecoveryAsked
from engine.core.ids import CallId, RequestId, SessionId
from tests.cli.questions.questions import permission_asked

R = RequestId("r")


def test_plain_terminals_number_the_choices() -> None:
    view = PermissionView.of(permission_asked())
    assert permission_text(view, UNICODE, position=(2, 3), is_numbered=True) == (
        "Question: Allow bash to run this command? (2 of 3)\n    ls\n  1. Yes, once\n"
        "  2. Yes, always in this session: ls\n  3. Yes, always in this project: ls\n  4. No, and stop\n"
        "  5. No, and say what to do instead\n  6. Details\n"
    )
    assert permission_text(view, UNICODE).startswith("● Allow bash to run this command?\n    ls\n  [y] Yes, once\n")


def test_sub_agent_of_a_question_is_named() -> None:
    path = (SessionId("s"), SessionId("c"))
    asked = QuestionAsked(request_id=R, call_id=CallId("c"), question="Why?", path=path)
    assert (
        requester_line(asked, '{"agent": "explore", "prompt": "find it"}') == "  Asked by sub-agent explore: find it\n"
    )
    assert requester_line(permission_asked(), "{}") == ""


def test_failed_model_names_the_reset() -> None:
    asked = RecoveryAsked(request_id=R, model="a/b", message="enough", reset_at=time.time() + 3_600)
    lines = recovery_question(asked, UNICODE).splitlines()
    assert lines[:2] == ["● Model a/b failed:", "    enough"]
    assert lines[2].startswith("    Limit resets at ")
    assert lines[2].endswith(("(in 60 min 0 s)", "(in 59 min 59 s)", "(in 59 min 58 s)"))
    assert answer_prompt(asked) == "  [w] Wait and retry  [s] Stop, or a model name: "


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (QuestionAnswered(request_id=R, outcome="withdrawn"), "  Withdrawn, as its call has ended.\n"),
        (QuestionAnswered(request_id=R, outcome="answered", by="panel"), "  Answered (by panel).\n"),
        (RecoveryAnswered(request_id=R, answer="stop", by="a\nb"), "  Stopped (by a^Jb).\n"),
    ],
)
def test_line_about_who_answered(event: QuestionAnswered | RecoveryAnswered, line: str) -> None:
    assert settled_line(event) == line


@pytest.mark.parametrize(
    ("line", "several", "answers"),
    [
        ("1", False, ("a",)),
        ("2, 1", True, ("b", "a")),
        ("2, 1", False, ("2, 1",)),
        ("3", False, ("3",)),
        (" words ", False, ("words",)),
        ("", True, ()),
    ],
)
def test_choices_are_numbers_or_words(line: str, several: bool, answers: tuple[str, ...]) -> None:
    choices = (Choice(label="a"), Choice(label="b"))
    asked = QuestionAsked(request_id=R, call_id=CallId("c"), question="?", choices=choices, several=several)
    assert parse_choices(line, asked) == answers


def test_model_question_cannot_imitate_the_engine() -> None:
    label = "no\n    2  yes"
    asked = QuestionAsked(
        request_id=R,
        call_id=CallId("c"),
        question="Which?\n● Allow bash to run this command?\n  once (o)",
        choices=(Choice(label=label, description="a\nb"), Choice(label="yes")),
    )
    assert tool_question(asked, UNICODE) == (
        "● Which?\n    ● Allow bash to run this command?\n      once (o)\n    1  no^J    2  yes: a^Jb\n    2  yes\n"
    )
