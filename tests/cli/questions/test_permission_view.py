"""A question for permission as lines and choices."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.questions.permission_view import MAX_LINES, PermissionView, choice_lines
from engine.cli.terminal.terminal_text import ASCII
from engine.core.events import Offer, Right
from engine.core.ids import SessionId
from tests.cli.questions.questions import offers, permission_asked

PUSH = offers("git push", "git push *")


def view(detail: str = "ls", task: str = "", **more: Any) -> PermissionView:
    return PermissionView.of(permission_asked(detail=detail, **more), task_arguments=task)


def test_form_of_a_command() -> None:
    rights = (Right(permission="bash", pattern="ls"), Right(permission="edit", pattern="x.txt"))
    asking = view("ls > x.txt", rights=rights, opaque="$x names the program")
    assert asking.lines() == [
        "● Allow bash to run this command?",
        "    ls > x.txt",
        "  Also writes: x.txt",
        "  Cannot analyse this command: $x names the program",
    ]


def test_form_of_several_files() -> None:
    asking = view("--- a\n+++ a", tool="edit", permission="edit", patterns=("a", "b"))
    assert asking.lines(ASCII, position=(1, 3))[0] == "* Allow edit to change 2 files? (1 of 3)"


def test_choices_are_one_per_line() -> None:
    assert choice_lines(view(offers=PUSH[1:]).choices()) == [
        "  [y] Yes, once",
        "  [a] Yes, always in this session: git push *",
        "  [p] Yes, always in this project: git push *",
        "  [n] No, and stop",
        "  [e] No, and say what to do instead",
        "  [d] Details",
    ]


def test_several_patterns_have_numbers() -> None:
    choices = view(offers=PUSH).choices(same=2)
    assert [choice.key for choice in choices] == ["y", "A", "a1", "a2", "p1", "p2", "n", "e", "d"]
    assert choices[1].label == "Yes, once, for all 2 that ask for this: bash git push *"
    assert choice_lines(choices, is_numbered=True)[3] == "  4. Yes, always in this session: git push *"


def test_only_the_narrowest_offers_are_shown() -> None:
    keys = [choice.key for choice in view(offers=offers(*map(str, range(6)))).choices()]
    assert keys[1:5] == ["a1", "a2", "a3", "a4"]


@pytest.mark.parametrize("more", [{"patterns": ("sudo ls",)}, {"opaque": "why"}])
def test_danger_offers_no_always(more: dict[str, Any]) -> None:
    asking = view(**more)
    assert [choice.key for choice in asking.choices(same=2)] == ["yes", "n", "e", "d"]
    assert asking.choices()[0].label == f"Yes, once. Type the whole word: {asking.danger}"


@pytest.mark.parametrize("count", [MAX_LINES, MAX_LINES + 1, 500])
def test_long_command_shows_head_and_tail(count: int) -> None:
    asking = view("\n".join(f"echo {number}" for number in range(count)))
    shown = asking.lines()[1:]
    assert len(shown) == MAX_LINES
    assert (shown[0], shown[-1]) == ("    echo 0", f"    echo {count - 1}")
    hidden = [line for line in shown if "more lines" in line]
    assert len(hidden) == (count > MAX_LINES)
    if hidden:
        assert hidden[0] == f"    … {count - MAX_LINES + 1} more lines: d shows all {count} …"
    assert len(asking.lines(is_whole=True)) == count + 1


def test_details_name_rule_and_explanation() -> None:
    asking = view("git push 'a b'", rule="the rule 'ask * *' of the layer defaults")
    assert asking.detail_lines() == [
        "    git push 'a b'",
        "  Asked by: the rule 'ask * *' of the layer defaults",
        "  To see why each rule applies or not:",
        "    engine permissions explain bash 'git push '\"'\"'a b'\"'\"''",
    ]
    assert view("two\nlines").detail_lines() == ["    two", "    lines", "  Asked by: the tool itself"]
    offered = view("ls", offers=offers("ls", f"ls {'x' * 60}"))
    assert [line[:9] for line in offered.detail_lines()] == [
        "    ls",
        "  [a2] Ye",
        "  [p2] Ye",
        *["  Asked b", "  To see ", "    engin"],
    ]


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ('{"agent": "explore", "prompt": "find\\nall of it"}', "sub-agent explore: find all of it"),
        ('{"agent": "a\\nb", "prompt": ""}', "sub-agent a^Jb: a b"),
        ('{"prompt": "%s"}' % ("x" * 200), f"a sub-agent: {'x' * 100}…"),
        ("", "a sub-agent"),
        ("[1]", "a sub-agent: [1]"),
        ("{", "a sub-agent: {"),
    ],
)
def test_sub_agent_question_names_it(task: str, text: str) -> None:
    path = (SessionId("s"), SessionId("c"))
    assert view(task=task, path=path).lines()[-1] == f"  Asked by {text}"
    assert not view(task=task, path=path[:1]).requester


def test_detail_defaults_to_argument_then_patterns() -> None:
    assert view("ls -l").detail == "ls -l"
    assert PermissionView.of(permission_asked(detail=""), arguments='{"command": "ls -a"}').detail == "ls -a"
    assert PermissionView.of(permission_asked(detail="", patterns=("a", "b"))).detail == "a, b"


HIDDEN = [
    ("\r", "^M"),
    ("\u200d", "\\u200d"),
    ("\ufe0f", "\\ufe0f"),
    ("\u00ad", "\\u00ad"),
    ("\u00a0", "\\u00a0"),
    ("\u3164", "\\u3164"),
    ("\u2067", "\\u2067"),
    ("\u2028", "\\u2028"),
    ("\x0b", "^K"),
    ("\x1b", "^["),
    ("\x85", "\\x85"),
    ("\U000e0041", "\\U000e0041"),
    ("\U000e0101", "\\U000e0101"),
    ("\ue000", "\\ue000"),
]


@pytest.mark.parametrize(("hidden", "shown"), HIDDEN)
def test_question_shows_what_is_invisible(hidden: str, shown: str) -> None:
    right = Right(permission="read", pattern=f"a{hidden}b")
    offer = Offer(rights=(Right(permission="bash", pattern=f"o{hidden}p"),))
    asking = view(f"x{hidden}y", rights=(right,), offers=(offer,))
    lines = [*asking.lines(), *asking.detail_lines(), *choice_lines(asking.choices())]
    assert hidden not in "".join(lines)
    assert f"    x{shown}y" in lines
    assert f"  Also reads: a{shown}b" in lines
    assert f"  [a] Yes, always in this session: o{shown}p" in lines


@given(st.text(), st.text())
def test_question_is_ordinary_text(detail: str, name: str) -> None:
    asking = view(detail or "ls", tool=name, rights=(Right(permission=name, pattern=detail),), opaque=name)
    lines = [*asking.lines(), *asking.detail_lines(), *choice_lines(asking.choices())]
    assert all(char.isprintable() or char == "\t" for line in lines for char in line)


def test_line_breaks_cannot_imitate_the_engine() -> None:
    rights = (Right(permission="edit", pattern="a\n  [y] Yes"),)
    lines = view("ls\n  [y] Yes, once", rights=rights, opaque="b\nc").lines()
    assert lines[1:] == [
        "    ls",
        "      [y] Yes, once",
        "  Also writes: a^J  [y] Yes",
        "  Cannot analyse this command: b^Jc",
    ]


def test_same_pattern_is_the_widest_offer() -> None:
    one, other = view(offers=PUSH), view(offers=offers("git push -f", "git push *"), detail="git push -f")
    assert one.is_same(other)
    assert not one.is_same(view(offers=offers("git pull *")))
    assert not one.is_same(view(offers=PUSH, patterns=("sudo git push",)))
