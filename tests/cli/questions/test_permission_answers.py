"""Typed lines at a question for permission."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.questions.permission_answers import (
    AskAgain,
    AskFeedback,
    PermissionOutcome,
    Reply,
    ShowDetails,
    parse_answer,
    parse_feedback,
)
from engine.cli.questions.permission_view import PermissionView
from engine.session.answer_types import Always, Once, Reject
from tests.cli.questions.questions import offers, permission_asked

TWO = PermissionView.of(permission_asked(offers=offers("ls -l", "ls *")))
NONE = PermissionView.of(permission_asked(offers=()))
SUDO = PermissionView.of(permission_asked(patterns=("sudo ls",)))
AGAIN = AskAgain("That is not one of the choices.")
ALLOWING = ("y", "yes", "ok", "okay", "allow", "sure", "1", "once")
PROJECT_2 = Reply(Always(offer=1, scope="project"))


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (ALLOWING, Reply(Once())),
        (("a", "always", "a1"), Reply(Always())),
        (("a2",), Reply(Always(offer=1))),
        (("p", "project", "p1"), Reply(Always(scope="project"))),
        (("p2",), PROJECT_2),
        (("n", "no", "nope", "reject", "deny", "stop", "r"), Reply(Reject())),
        (("e", "instead"), AskFeedback()),
        (("d", "details"), ShowDetails()),
        (("", "  ", "\t"), AskAgain()),
        (("a3",), AskAgain("There is no choice a3.")),
        (("p9",), AskAgain("There is no choice p9.")),
        (("yess", "what?", "yes.", "2", "abcdefghijkl"), AGAIN),
        (("use head",), Reply(Reject(feedback="use head"))),
        (("yes please",), Reply(Reject(feedback="yes please"))),
        (("abcdefghijklm",), Reply(Reject(feedback="abcdefghijklm"))),
    ],
)
def test_words_in_any_case(words: tuple[str, ...], outcome: PermissionOutcome) -> None:
    for word in words:
        assert parse_answer(word, TWO) == outcome, word
        assert parse_answer(f"  {word} ", TWO) == outcome, word
    if isinstance(outcome, Reply) and not isinstance(outcome.answer, Reject):
        assert all(parse_answer(word.upper(), TWO) == outcome for word in words)


def test_always_needs_an_offer() -> None:
    for word in ("a", "always", "p", "project"):
        assert parse_answer(word, NONE) == AskAgain("This can be allowed only once.")


def test_danger_needs_the_whole_word() -> None:
    again = AskAgain("To allow this once, type yes: it uses sudo.")
    for word in {*ALLOWING, "a", "always", "p", "all", "A"} - {"yes"}:
        assert parse_answer(word, SUDO, same=2) == again, word
    assert parse_answer("Yes", SUDO) == Reply(Once())
    assert parse_answer("1", SUDO, is_numbered=True) == again
    assert parse_answer("n", SUDO) == Reply(Reject())


def test_capital_a_allows_all_of_a_pattern() -> None:
    all_of_them = Reply(Once(), to_same=True)
    assert parse_answer("A", TWO, same=3) == all_of_them
    assert parse_answer("all", TWO, same=3) == all_of_them
    assert parse_answer("A", TWO) == parse_answer("a", TWO, same=3) == Reply(Always())
    assert parse_answer("all", TWO) == AskAgain("No other question asks for the same.")


def test_numbers_select_lines() -> None:
    assert parse_answer("1", TWO, is_numbered=True) == Reply(Once())
    assert parse_answer("5", TWO, is_numbered=True) == PROJECT_2
    assert parse_answer("6", TWO, is_numbered=True) == Reply(Reject())
    for number in ("0", "9", "99999999999999999999"):
        assert parse_answer(number, TWO, is_numbered=True) == AskAgain("Answer with a number from 1 to 8.")


def test_feedback_is_a_line_or_nothing() -> None:
    assert parse_feedback(" no ") == Reply(Reject(feedback="no"))
    assert parse_feedback("  ") == AskAgain()


@given(st.text())
def test_nothing_else_allows(line: str) -> None:
    if line.strip().lower() in {*ALLOWING, "a", "always", "a1", "a2", "p", "project", "p1", "p2"}:
        return
    outcome = parse_answer(line, TWO)
    assert not isinstance(outcome, Reply) or isinstance(outcome.answer, Reject)
