"""What is typed while questions appear: the guard, and single keys."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.questions.answer_guard import QUIET_SECONDS, REACTION_SECONDS, AnswerGuard
from engine.cli.questions.permission_answers import Reply, ShowDetails
from engine.cli.questions.permission_view import PermissionView
from engine.cli.questions.question_keys import Focused, KeyOutcome, Pending, QuestionKeys, Typed
from engine.session.answer_types import Always, Once, Reject
from tests.cli.questions.questions import offers, permission_asked

ONE = PermissionView.of(permission_asked())
TWO = PermissionView.of(permission_asked(offers=offers("ls -l", "ls *")))
SUDO = PermissionView.of(permission_asked(patterns=("sudo ls",)))
LATER = 100.0


def painted(view: PermissionView, same: int = 1) -> QuestionKeys:
    keys = QuestionKeys()
    keys.paint(view, LATER - 50, same=same)
    return keys


def press(keys: QuestionKeys, text: str) -> list[KeyOutcome]:
    return [keys.press(key, LATER, has_draft=False) for key in text]


@pytest.mark.parametrize(
    ("view", "typed", "outcome"),
    [
        (ONE, "y", Reply(Once())),
        (ONE, "Y", Reply(Once())),
        (ONE, "a", Reply(Always())),
        (ONE, "n", Reply(Reject())),
        (ONE, "d", ShowDetails()),
        (TWO, "a2", Reply(Always(offer=1))),
        (TWO, "p1", Reply(Always(scope="project"))),
        (SUDO, "yes", Reply(Once())),
        (SUDO, "y", Pending("y")),
        (TWO, "a", Pending("a")),
        (TWO, "al", Typed("al")),
        (SUDO, "yo", Typed("yo")),
        (SUDO, "a", Typed("a")),
        (ONE, "x", Typed("x")),
        (ONE, "\r", Typed("\r")),
        (ONE, "\n", Typed("\n")),
    ],
)
def test_keys_of_a_quiet_user(view: PermissionView, typed: str, outcome: KeyOutcome) -> None:
    assert press(painted(view), typed)[-1] == outcome


def test_capital_a_is_a_choice_of_its_own() -> None:
    assert press(painted(TWO, same=2), "A") == [Reply(Once(), to_same=True)]
    assert press(painted(ONE), "A") == [Reply(Always())]


def test_enter_never_allows_after_tab() -> None:
    keys = painted(SUDO)
    assert keys.press("\t", LATER, has_draft=True) == Focused(is_focused=True)
    assert press(keys, "y\r") == [Pending("y"), Typed("y\r")]


def test_tab_answers_beside_a_draft() -> None:
    keys = painted(ONE)
    assert keys.press("y", LATER, has_draft=True) == Typed("y")
    assert keys.press("\t", LATER, has_draft=True) == Focused(is_focused=True)
    assert keys.press("y", LATER, has_draft=True) == Reply(Once())
    keys.paint(ONE, LATER)
    assert keys.press("y", LATER, has_draft=True) == Typed("y")
    assert press(keys, "\t\t") == [Focused(is_focused=True), Focused(is_focused=False)]
    assert press(keys, "y") == [Typed("y")]


def test_details_leave_the_answer_to_the_next_key() -> None:
    keys = painted(ONE)
    assert press(keys, "dy") == [ShowDetails(), Reply(Once())]
    keys = painted(ONE)
    keys.paste("text", LATER)
    assert press(keys, "\tdy") == [Focused(is_focused=True), ShowDetails(), Reply(Once())]


def test_pasted_text_never_answers() -> None:
    keys = painted(ONE)
    assert keys.paste("y", LATER) == Typed("y")
    assert press(keys, "y") == [Typed("y")]
    assert painted(TWO).paste("yes\n", LATER) == Typed("yes\n")


def test_a_next_question_takes_no_half_answer() -> None:
    keys = painted(TWO)
    assert press(keys, "a") == [Pending("a")]
    assert keys.paint(TWO, LATER) == "a"
    assert press(keys, "1") == [Typed("1")]
    assert painted(TWO).close() == ""


@pytest.mark.parametrize(
    ("steps", "allows"),
    [
        (lambda guard: guard.paint(0.0), True),
        (lambda guard: None, False),
        (lambda guard: guard.paint(0.0, has_draft=True), False),
        (lambda guard: guard.paint(9.9), False),  # nobody reads so fast
        (lambda guard: (guard.note_typed(0.0), guard.paint(0.69)), False),
        (lambda guard: (guard.note_typed(0.0), guard.paint(0.7)), True),
        (lambda guard: (guard.paint(0.0), guard.note_typed(1.0)), False),
        (lambda guard: (guard.paint(0.0), guard.note_typed(1.0), guard.paint(2.0)), True),
        (lambda guard: (guard.paint(0.0), guard.note_typed(1.0), guard.note_silence()), True),
        (lambda guard: (guard.paint(0.0), guard.note_typed(1.0), guard.focus()), True),
        (lambda guard: (guard.paint(0.0), guard.note_answer(9.5), guard.paint(9.6)), False),
        (lambda guard: (guard.paint(0.0), guard.note_answer(9.2), guard.paint(9.2)), True),
        (lambda guard: (guard.paint(0.0), guard.note_answer(1.0)), False),
        # The Enter that sends a message ends it; a key that bounces still answers nothing.
        (lambda guard: (guard.note_typed(9.0), guard.note_sent(9.0), guard.paint(9.01)), True),
        (lambda guard: (guard.note_typed(9.4), guard.note_sent(9.4), guard.paint(9.41)), False),
        (lambda guard: (guard.note_sent(9.0), guard.note_typed(9.1), guard.paint(9.2)), False),
        (lambda guard: (guard.note_sent(9.0), guard.paint(9.1), guard.note_typed(9.2)), False),
        (lambda guard: (guard.paint(0.0), guard.note_typed(1.0), guard.note_sent(1.0)), False),
    ],
)
def test_when_a_key_may_answer(steps: Callable[[AnswerGuard], object], allows: bool) -> None:
    guard = AnswerGuard()
    steps(guard)
    assert guard.allows(10.0, has_draft=False) is allows


KEYS = st.sampled_from("yYaApPnNeEdD12s \r\n")
PAUSES = st.floats(0.0, QUIET_SECONDS, exclude_max=True)


@given(
    st.lists(st.tuples(KEYS, PAUSES, st.booleans(), st.sampled_from([ONE, TWO, SUDO])), max_size=60),
    st.floats(0.0, QUIET_SECONDS, exclude_max=True),
)
def test_continuous_typing_answers_nothing(
    typing: list[tuple[str, float, bool, PermissionView]], before: float
) -> None:
    """Questions appear at any time while somebody types: none is answered, and no character is lost."""
    keys, now, draft = QuestionKeys(), 1_000.0, ""
    typed = [keys.press("t", now, has_draft=False)]
    now += before
    for key, pause, appears, view in typing:
        if appears:
            assert keys.paint(view, now, has_draft=bool(draft)) == ""
        typed.append(keys.press(key, now, has_draft=bool(draft)))
        draft = "" if key in "\r\n" else draft + key
        now += pause
    assert typed == [Typed("t"), *(Typed(key) for key, *_ in typing)]


@given(st.lists(st.tuples(st.sampled_from("yans1"), st.floats(0.0, 3.0), st.booleans()), max_size=60))
def test_one_answer_for_each_reading(presses: list[tuple[str, float, bool]]) -> None:
    """Whatever the rhythm: an answer comes no sooner than a person can have read the question."""
    keys, now, shown = QuestionKeys(), 1_000.0, None
    for key, pause, appears in presses:
        if appears:
            keys.paint(ONE, now)
            shown = now
        now += pause
        if isinstance(keys.press(key, now, has_draft=False), Reply):
            assert shown is not None
            assert now - shown >= REACTION_SECONDS
            keys.close()
            shown = None
