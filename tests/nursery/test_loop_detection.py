"""Going in circles (T6): what is found, what is progress, and how it escalates."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.events import DoomAction, DoomKind
from engine.nursery.loop_detection import (
    ERROR_STREAK,
    NEAR_MAX_CHARS,
    PERIODS,
    REPEATS,
    RepetitionDetector,
    Signature,
    digest,
    is_near,
    signature_of,
)

# A call as "tool arguments", and its result: one that begins with "!" is an error, None is one still to come.
Call = tuple[str, str | None]
Said = tuple[DoomKind, DoomAction] | None


def play(calls: Iterable[Call], window: RepetitionDetector | None = None) -> list[Said]:
    """Make calls, each with its result once it has been looked at; return what was found at each."""
    seen_by = window or RepetitionDetector()
    found: list[Said] = []
    for call, result in calls:
        tool, _, arguments = call.partition(" ")
        seen, finding = seen_by.check(signature_of(tool, arguments))
        if result is not None:
            seen.result, seen.is_error = digest(result), result.startswith("!")
        found.append(None if finding is None else (finding.kind, finding.action))
    return found


def found_first(calls: Iterable[Call]) -> tuple[int, DoomKind] | None:
    """Return which call was the first one found, counted from 1, and as what."""
    return next(((number, said[0]) for number, said in enumerate(play(calls), 1) if said is not None), None)


def same(calls: str, times: int) -> list[Call]:
    """Calls a, b, … of tools that differ, each with a result of its own that never changes."""
    block: list[Call] = [(f'{name} {{"of":"{name}"}}', f"result of {name}") for name in calls]
    return block * times


# -- circles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        (same("a", 2), None),
        (same("a", 3), (3, "repeat")),
        (same("ab", 2), None),
        (same("ab", 3), (6, "repeat")),
        (same("abc", 3), (9, "repeat")),
        (same("abcd", 3), (12, "repeat")),
        (same("abcde", 3), (15, "repeat")),
        (same("abcdefghijkl", 3), (36, "repeat")),
        (same("abcdefghijklm", 5), None),
        ([*same("b", 2), *same("a", 3)], (5, "repeat")),
        ([*same("xyz", 1), *same("ab", 3)], (9, "repeat")),
        ([*same("aa", 1), *same("b", 1), *same("aa", 1)], None),
    ],
    ids=lambda value: "".join(call[0][0] for call in value) if isinstance(value, list) else str(value),
)
def test_repeated_blocks_of_one_to_twelve_calls(calls: list[Call], found: tuple[int, DoomKind] | None) -> None:
    """Found when the last call of the third block is looked at, which is before it starts."""
    assert found_first(calls) == found


def test_third_identical_step_is_detected_before_it_runs() -> None:
    assert play(same("a", 3)) == [None, None, ("repeat", "nudge")]


def test_the_order_of_keys_makes_no_other_call() -> None:
    calls: list[Call] = [('t {"a":1,"b":2}', "r"), ('t {"b": 2, "a": 1}', "r")]
    assert signature_of("t", '{"a":1,"b":2}') == signature_of("t", '{ "b" :2,"a":1}')
    assert found_first([*calls, calls[0]]) == (3, "repeat")


def test_another_input_is_another_call() -> None:
    calls: list[Call] = [
        ('read {"path":"first/file.py"}', "same"),
        ('read {"path":"completely/different.txt"}', "same"),
        ('read {"path":"README"}', "same"),
    ]
    assert found_first(calls) is None
    assert found_first([*calls[:2], *calls[:2]]) is None


def test_polling_with_other_results_is_progress() -> None:
    assert found_first([("poll {}", f"{number} % done") for number in range(9)]) is None


def test_one_changed_result_is_progress() -> None:
    calls: list[Call] = [("poll {}", "waiting"), ("poll {}", "waiting more"), ("poll {}", "waiting")]
    assert found_first(calls) is None
    assert found_first([*calls, ("poll {}", "waiting"), ("poll {}", "waiting")]) == (5, "repeat")


def test_changed_result_in_a_cycle_is_progress() -> None:
    calls = same("ab", 2)
    assert found_first([*calls, ("a " + '{"of":"a"}', "something new"), *same("b", 1)]) is None


def test_pending_result_is_no_progress() -> None:
    """Three equal calls in one message: the third is found though none has run yet."""
    assert found_first([("t {}", None)] * 3) == (3, "repeat")


def test_identical_invalid_calls_are_detected() -> None:
    assert found_first([("read {", "!the arguments are not valid JSON")] * 3) == (3, "repeat")


# -- errors, near repeats, monologue -------------------------------------------------------------------


def failing(tool: str, times: int) -> list[Call]:
    words = ["alpha", "brown fox", "c", "delta wing fighter", "e/f/g", "hotel", "india rubber", "jay"]
    return [(f'{tool} {{"q":"{words[number]}"}}', f"!{words[number]} failed") for number in range(times)]


def test_a_streak_of_errors_of_one_tool() -> None:
    assert found_first(failing("t", ERROR_STREAK)) is None
    assert found_first(failing("t", ERROR_STREAK + 1)) == (ERROR_STREAK + 1, "errors")


def test_a_success_or_another_tool_breaks_the_streak() -> None:
    for between in (('t {"q":"fine"}', "ok"), ('other {"q":"fine"}', "!failed")):
        calls = [*failing("t", ERROR_STREAK - 1), between, *failing("t", 2)]
        assert found_first(calls) is None


def test_similar_calls_get_one_nudge() -> None:
    calls: list[Call] = [(f'grep {{"pattern":"the_function_name_{number}"}}', "no match") for number in range(8)]
    found = play(calls)
    assert found == [None, None, ("near_repeat", "nudge"), *[None] * 5]
    window = RepetitionDetector()
    play(calls, window)
    assert play(same("a", 3), window)[-1] == ("repeat", "nudge"), "a near repeat must not use up an escalation"


def test_nearly_equal_calls_with_other_results_are_progress() -> None:
    assert found_first([(f'read {{"path":"chapter_{number}.md"}}', f"text {number}") for number in range(6)]) is None


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("", "", True),
        ("abcdefghij", "abcdefghij", True),
        ('{"path":"src/engine/a.py"}', '{"path":"src/engine/b.py"}', True),
        ('{"path":"a"}', '{"path":"something/else/entirely"}', False),
        ("abc", "xyz", False),
        ("a" * (NEAR_MAX_CHARS + 1), "a" * NEAR_MAX_CHARS + "b", False),
        ("a" * 10_000, "a" * 10_000, True),
    ],
)
def test_similar_arguments(one: str, other: str, near: bool) -> None:
    assert is_near(one, other) is near
    assert is_near(other, one) is near


def test_three_equal_texts_are_a_monologue() -> None:
    window = RepetitionDetector()
    found = [window.check_text(text) for text in ("I am done.", " I am done.\n", "I am done.")]
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert (found[2].kind, found[2].action) == ("monologue", "nudge")


def test_different_or_missing_text_is_no_monologue() -> None:
    window = RepetitionDetector()
    assert [window.check_text(text) for text in ("a", "b", "a", "b", "a", "a", "", " ", "\n")] == [None] * 9
    assert window.check_text("a") is not None


# -- what becomes of it ----------------------------------------------------------------------------------


def test_escalates_from_nudge_to_question_to_stop() -> None:
    assert [said and said[1] for said in play(same("a", 6))] == [None, None, "nudge", "ask", "stop", "stop"]


def test_escalates_across_kinds() -> None:
    window = RepetitionDetector()
    assert play(same("a", 3), window)[-1] == ("repeat", "nudge")
    assert play(failing("t", ERROR_STREAK + 1), window)[-1] == ("errors", "ask")
    finding = [window.check_text("so it is") for _ in range(3)][-1]
    assert finding is not None
    assert (finding.kind, finding.action) == ("monologue", "stop")


def test_new_input_makes_a_new_beginning() -> None:
    window = RepetitionDetector()
    play([*same("a", 4), *failing("t", ERROR_STREAK)], window)
    window.check_text("so")
    window.check_text("so")
    window.reset()
    assert play(same("a", 3), window) == [None, None, ("repeat", "nudge")]
    window.reset()
    assert play(failing("t", ERROR_STREAK), window) == [None] * ERROR_STREAK
    assert window.check_text("so") is None


def test_new_input_resets_nudges_and_permissions() -> None:
    window = RepetitionDetector()
    near: list[Call] = [(f'grep {{"pattern":"the_function_{n}"}}', "none") for n in range(3)]
    assert play(near, window)[-1] == ("near_repeat", "nudge")
    window.allow(signature_of("a", '{"of":"a"}'))
    window.reset()
    assert play(near, window)[-1] == ("near_repeat", "nudge")
    assert play(same("a", 3), window)[-1] == ("repeat", "nudge")


def test_always_allowed_repetition_is_ignored() -> None:
    window = RepetitionDetector()
    play(same("a", 3), window)
    window.allow(signature_of("a", '{"of":"a"}'))
    assert play(same("a", 20), window) == [None] * 20
    assert play(same("b", 3), window)[-1] == ("repeat", "ask"), "only that call was allowed"


def test_finding_describes_itself() -> None:
    window = RepetitionDetector()
    for _ in range(2):
        seen, _ = window.check(signature_of("read", "{}"))
        seen.result = digest("r")
    _, finding = window.check(signature_of("read", "{}"))
    assert finding is not None
    assert finding.detail == "the same call for the 3rd time, with the same results: read"


# -- identities -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "canonical"),
    [
        ("", "{}"),
        ("{}", "{}"),
        (' {"b": [1, 2], "a": {"d": 1, "c": null}} ', '{"a":{"c":null,"d":1},"b":[1,2]}'),
        ("{broken", "{broken"),
        ("9" * 5_000, "9" * 5_000),
        ("[" * 100_000, "[" * 100_000),
        ('"\\ud800"', '"\\ud800"'),
    ],
    ids=lambda value: value[:10],
)
def test_signature_is_canonical_json_or_raw_text(arguments: str, canonical: str) -> None:
    assert signature_of("t", arguments) == Signature(tool="t", arguments=canonical)


def test_any_result_has_a_digest() -> None:
    assert digest("\ud800") != digest("\udfff")
    assert len(digest("x" * 1_000_000)) == 24


# -- whatever is called ------------------------------------------------------------------------------------

CALLS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "!"])), max_size=30)


def is_circle(calls: list[tuple[str, str]]) -> bool:
    """The rule in other words: the end of *calls* is one block three times, results equal; the last has none yet."""
    for period in PERIODS:
        block = calls[-REPEATS * period :]
        if len(block) == REPEATS * period and all(
            block[i][0] == block[i % period][0] and (i == len(block) - 1 or block[i][1] == block[i % period][1])
            for i in range(len(block))
        ):
            return True
    return False


@given(calls=CALLS)
def test_detection_agrees_with_the_rule(calls: list[tuple[str, str]]) -> None:
    """For tools so different that nothing is near, and never an error: findings and circles are the same."""
    told = [(call, "x" if result == "!" else result) for call, result in calls]
    found = play((f"{tool} {{}}", result) for tool, result in told)
    for number, said in enumerate(found, 1):
        assert (said is not None and said[0] == "repeat") == is_circle(told[:number])
