"""Questions and answers, without a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.terminal.terminal_text import UNICODE
from engine.cli.turn.question_prompts import (
    answer_prompt,
    parse_answer,
    permission_detail,
    permission_question,
    requester_line,
    tool_question,
)
from engine.core.events import Choice, Offer, PermissionAsked, QuestionAsked, Right
from engine.core.ids import CallId, RequestId, SessionId
from engine.session.answer_types import Always, Answer, Once, Reject


def offers(*patterns: str) -> tuple[Offer, ...]:
    return tuple(Offer(rights=(Right(permission="bash", pattern=pattern),)) for pattern in patterns)


def asked(**more: object) -> PermissionAsked:
    facts = {"tool": "bash", "permission": "bash", "patterns": ("ls",), "detail": "ls", "offers": offers("ls"), **more}
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
        ("a1", Always()),
        ("p", Always(scope="project")),
        ("A2", Always(offer=1)),
        ("p2", Always(offer=1, scope="project")),
        ("a3", None),
        ("p9", None),
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
    assert parse_answer(line, asked(offers=offers("ls -l", "ls *"))) == answer


def test_always_without_an_offer_is_rejected() -> None:
    assert parse_answer("a", asked(offers=())) is None


def test_question_shows_the_whole_command_escaped() -> None:
    text = permission_question(asked(), "ls\nrm -rf \x1b[8m/\u202e", UNICODE)
    assert text == "● Allow bash to run this command?\n    ls\n    rm -rf ^[[8m/\\u202e\n"


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\r", "^M"),
        ("\u200d", "\\u200d"),
        ("\u200c", "\\u200c"),
        ("\ufe0f", "\\ufe0f"),
        ("\u00ad", "\\u00ad"),
        ("\u00a0", "\\u00a0"),
        ("\u3000", "\\u3000"),
        ("\u3164", "\\u3164"),
        ("\u2800", "\\u2800"),
        ("\u2067", "\\u2067"),
        ("\u2028", "\\u2028"),
        ("\x0b", "^K"),
        ("\x85", "\\x85"),
        ("\U000e0041", "\\U000e0041"),
        ("\U000e0101", "\\U000e0101"),
        ("\ue000", "\\ue000"),
    ],
)
def test_question_shows_what_nobody_sees(hidden: str, shown: str) -> None:
    right = Right(permission="read", pattern=f"a{hidden}b")
    offer = Offer(rights=(Right(permission="bash", pattern=f"o{hidden}p"),))
    request = asked(rights=(right,), opaque=f"c{hidden}d", offers=(offer,))
    text = permission_question(request, f"x{hidden}y", UNICODE)
    assert hidden not in text
    assert f"    x{shown}y\n" in text
    assert f"a{shown}b" in text
    assert f"c{shown}d" in text
    assert hidden not in answer_prompt(request)


@given(st.text())
def test_question_shows_ordinary_text_only(text: str) -> None:
    lines = permission_question(asked(), text or "ls", UNICODE).split("\n")
    assert all(char.isprintable() or char == "\t" for line in lines for char in line)


def test_a_question_without_detail_shows_the_patterns() -> None:
    assert "    src/a, src/b\n" in permission_question(asked(patterns=("src/a", "src/b")), "", UNICODE)


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        (
            offers("git log -3", "git log *"),
            "once (o), always in this session: git log -3 (a1), or git log * (a2), the same for the whole project (p1), ",
        ),
        (offers("ls"), "once (o), always in this session: ls (a), the same for the whole project (p), "),
        (offers("one\ntwo"), "once (o), always in this session: one^Jtwo (a), the same for the whole project (p), "),
        ((), "once (o), "),
    ],
)
def test_prompt_shows_offers(offered: tuple[Offer, ...], told: str) -> None:
    assert answer_prompt(asked(offers=offered)) == f"  {told}reject and stop (r), or type what to do instead: "


def test_question_shows_further_rights_and_opaque_reason() -> None:
    rights = (Right(permission="bash", pattern="ls"), Right(permission="outside", pattern="/etc"))
    text = permission_question(asked(rights=rights, opaque="$x names the program"), "ls /etc", UNICODE)
    assert text == (
        "● Allow bash to run this command?\n    ls /etc\n    Outside the project: /etc\n"
        "    Cannot analyse this command: $x names the program\n"
    )


def test_line_breaks_cannot_imitate_the_engine() -> None:
    rights = (Right(permission="edit", pattern="a\n  once (o), or"),)
    assert permission_question(asked(rights=rights, opaque="b\nc"), "ls", UNICODE) == (
        "● Allow bash to run this command?\n    ls\n    Also writes: a^J  once (o), or\n"
        "    Cannot analyse this command: b^Jc\n"
    )


def test_detail_defaults_to_the_main_argument() -> None:
    assert permission_detail(asked(), "{}") == "ls"
    assert permission_detail(asked(detail=""), '{"command": "ls -l"}') == "ls -l"


@pytest.mark.parametrize(
    ("task_arguments", "told"),
    [
        ('{"agent": "explore", "prompt": "find\\nall of it"}', "the sub-agent explore, which works on: find all of it"),
        ('{"agent": "a\\nb", "prompt": ""}', "the sub-agent a^Jb, which works on: a b"),
        ('{"prompt": "%s"}' % ("x" * 200), f"a sub-agent, which works on: {'x' * 100}…"),
        ("", "a sub-agent"),
        ("[1]", "a sub-agent, which works on: [1]"),
        ("{", "a sub-agent, which works on: {"),
    ],
)
def test_sub_agent_question_names_the_requester(task_arguments: str, told: str) -> None:
    assert requester_line(asked(path=(SessionId("s"), SessionId("c"))), task_arguments) == f"    for {told}\n"
    assert requester_line(asked(path=(SessionId("s"),)), task_arguments) == ""


def test_model_question_cannot_imitate_the_engine() -> None:
    label = "no\n    2  yes"
    asked = QuestionAsked(
        request_id=RequestId("r"),
        call_id=CallId("c"),
        question="Which?\n● Allow bash to run this command?\n  once (o)",
        choices=(Choice(label=label, description="a\nb"), Choice(label="yes")),
    )
    assert tool_question(asked, UNICODE) == (
        "● Which?\n    ● Allow bash to run this command?\n      once (o)\n    1  no^J    2  yes: a^Jb\n    2  yes\n"
    )
