"""Questions and answers, without a terminal."""

import time

import attrs
import pytest

from engine.cli.questions.open_questions import OpenQuestions
from engine.cli.questions.question_prompts import (
    answer_prompt,
    labelled,
    parse_choices,
    recovery_question,
    requester_lines,
    settled_line,
    tool_question,
)
from engine.cli.terminal.terminal_text import UNICODE
from engine.core.events import Choice, QuestionAnswered, QuestionAsked, RecoveryAnswered, RecoveryAsked
from engine.core.ids import CallId, RequestId, SessionId
from tests.cli.questions.questions import permission_asked

R = RequestId("r")


def test_plain_terminals_number_the_choices() -> None:
    open_questions = OpenQuestions()
    for number in range(3):
        open_questions.feed(attrs.evolve(permission_asked(), request_id=RequestId(f"r{number}")))
    open_questions.remove(RequestId("r0"))
    view = open_questions.first.view
    assert view is not None
    lines = labelled(open_questions.lines_of_first(UNICODE), UNICODE)
    assert [*lines, *open_questions.choices_of(view, is_numbered=True)] == [
        "Question: Allow bash to run this command? (2 of 3)",
        "    ls",
        "  1. Yes, once",
        "  2. Yes, once, for all 2 that ask for this: bash ls",
        "  3. Yes, always in this session: ls",
        "  4. Yes, always in this project: ls",
        "  5. No, and stop",
        "  6. No, and say what to do instead",
        "  7. Details",
    ]


def test_sub_agent_of_a_question_is_named() -> None:
    path = (SessionId("s"), SessionId("c"))
    asked = QuestionAsked(request_id=R, call_id=CallId("c"), question="Why?", path=path)
    task = '{"agent": "explore", "prompt": "find it"}'
    assert requester_lines(asked, task) == ["  Asked by sub-agent explore: find it"]
    assert requester_lines(permission_asked(), "{}") == []


def test_failed_model_names_the_reset() -> None:
    asked = RecoveryAsked(request_id=R, model="a/b", message="enough", reset_at=time.time() + 3_600)
    lines = recovery_question(asked, UNICODE)
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
    assert "\n".join(tool_question(asked, UNICODE)) == (
        "● Which?\n    ● Allow bash to run this command?\n      once (o)\n    1  no^J    2  yes: a^Jb\n    2  yes"
    )
