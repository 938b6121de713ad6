"""Questions and answers, without a terminal."""

import pytest

from engine.answers import Always, Answer, Once, Reject
from engine.cli.dialogue import answer_of, choices, detail_of, question
from engine.cli.text import UNICODE
from engine.events import PermissionAsked
from engine.ids import CallId, RequestId


def asked(**more: object) -> PermissionAsked:
    facts = {"tool": "bash", "permission": "bash", "patterns": ("ls",), "detail": "ls", **more}
    return PermissionAsked(request_id=RequestId("r"), call_id=CallId("c"), **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("o", Once()),
        (" Once ", Once()),
        ("y", Once()),
        ("YES", Once()),
        ("a", Always()),
        ("always", Always()),
        ("r", Reject()),
        ("No", Reject()),
        ("use head", Reject(feedback="use head")),
        ("yes please", Reject(feedback="yes please")),
        ("", None),
        ("  ", None),
    ],
)
def test_answers(line: str, answer: Answer | None) -> None:
    """Only the exact words allow: whatever else is typed, nothing runs."""
    assert answer_of(line) == answer


def test_a_question_shows_all_of_the_command_and_nothing_is_hidden() -> None:
    text = question(asked(), "ls\nrm -rf \x1b[8m/\u202e", UNICODE)
    assert text == "● bash asks for the permission: bash\n    ls\n    rm -rf ^[[8m/\\u202e\n"


def test_a_question_without_detail_shows_the_patterns() -> None:
    assert "    src/a, src/b\n" in question(asked(patterns=("src/a", "src/b")), "", UNICODE)


@pytest.mark.parametrize(
    ("more", "scope"),
    [
        ({"offers": ("git log *", "git *")}, "git log *"),
        ({}, "ls"),
        ({"patterns": ()}, "every bash"),
        ({"offers": ("one\ntwo",)}, "one"),
    ],
)
def test_what_always_would_allow_is_shown(more: dict[str, object], scope: str) -> None:
    assert f"always in this session: {scope} (a)" in choices(asked(**more))


def test_the_detail_is_what_the_tool_tells_of_it_or_else_what_the_model_wrote() -> None:
    assert detail_of(asked(), "{}") == "ls"
    assert detail_of(asked(detail=""), '{"command": "ls -l"}') == "ls -l"
