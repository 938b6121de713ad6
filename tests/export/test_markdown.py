"""A conversation as Markdown: readable, and taken in again whatever was said in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import hypothesis
import pytest
from hypothesis import strategies as st

from engine.core.errors import JournalCorrupt
from engine.core.messages import AssistantMessage, UserMessage
from engine.export.history import render_history
from engine.export.markdown import Conversation, parse_markdown, render_markdown
from engine.export.sanitize import escape_unsafe_chars
from tests.export.histories import journal_of
from tests.export.said import HOSTILE, TEXTS, session_of
from tests.store.journals import A, session


def counting() -> Callable[[str], str]:
    numbers = itertools.count(1)
    return lambda kind: f"{kind}_{next(numbers)}"


def read(text: str) -> Conversation:
    return parse_markdown(text, counting())


def said(conversation: Conversation) -> list[tuple[str, str]]:
    return [
        ("user" if isinstance(message, UserMessage) else "assistant", message.text)
        for message in conversation.messages
        if isinstance(message, (UserMessage, AssistantMessage))
    ]


def test_export_reads_like_a_conversation() -> None:
    story = render_history(session(A, ("Why does it fail?", "I'll look."), steps=2))
    assert render_markdown(story, "Fix the parser") == (
        "---\n"
        "format: engine-conversation/1\n"
        "title: Fix the parser\n"
        "session: ses_a\n"
        "folder: /home/dev/project\n"
        "model: anthropic/claude-sonnet-4-5\n"
        "created: 2023-11-14T22:13:21+00:00\n"
        "---\n\n"
        "# Fix the parser\n\n"
        "## User\n\nWhy does it fail?\n\n"
        "## Assistant\n\nI'll look.\n\n"
        "## Calls\n\n**read**\n\n"
        '~~~json\n{"path":"engine/service.py","offset":100}\n~~~\n\n'
        "completed:\n\n~~~text\nread it\n~~~\n\n"
        "## Assistant\n\nI'll look.\n"
    )


def test_import_joins_the_steps_of_an_answer() -> None:
    story = render_history(session(A, ("Why?", "I'll look."), ("Thanks", "Bye"), steps=2))
    found = read(render_markdown(story, "Fix the parser"))
    assert (found.title, found.model) == ("Fix the parser", "anthropic/claude-sonnet-4-5")
    assert said(found) == [
        ("user", "Why?"),
        ("assistant", "I'll look.\n\nI'll look."),
        ("user", "Thanks"),
        ("assistant", "Bye\n\nBye"),
    ]
    assert [message.id for message in found.messages] == ["msg_1", "msg_3", "msg_5", "msg_7"]


@hypothesis.given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_any_text_round_trips_within_its_message(texts: list[str]) -> None:
    text = render_markdown(session_of(texts), texts[0])
    text.encode()
    assert escape_unsafe_chars(text) == text
    expected: list[tuple[str, str]] = []
    for words in texts:
        shown = escape_unsafe_chars(words).strip("\n")
        if shown.strip():
            expected.append(("user", shown))
            expected.append(("assistant", shown))
    try:
        found = read(text)
    except JournalCorrupt:
        assert expected == []
    else:
        assert said(found) == expected


def test_replaced_history_is_exported_but_undone_turns_not() -> None:
    story = render_history(journal_of(["turn", "blocked", "compact", "turn", "turn", "undo"]))
    text = render_markdown(story, "")
    assert [(name, body) for name, body in said(read(text))] == [
        ("user", "ask 2"),
        ("assistant", "answer 2"),
        ("user", "ask 5"),
        ("assistant", "answer 5"),
    ]
    assert "## Engine\n\nthe summary\n" in text
    assert "not to be said" not in text


def test_handwritten_markdown_is_imported() -> None:
    found = read(
        "\ufeff# A talk\r\n\r\nSome words before.\r\n\r\n## User\r\nHello\r\nthere\r\n\r\n## Assistant\r\n\r\nHi!"
    )
    assert (found.title, found.model) == ("A talk", "")
    assert said(found) == [("user", "Hello\nthere"), ("assistant", "Hi!")]


def test_engine_messages_are_left_out() -> None:
    assert said(read("## Assistant\nHello\n## User\nHi\n## Calls\nx\n## Engine\ny\n## Assistant\nz")) == [
        ("user", "Hi"),
        ("assistant", "z"),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "there is no conversation"),
        ("# Notes\n\nsomething", "there is no conversation"),
        ("## User\n\n\n## Assistant\n", "there is no conversation"),
        (
            "---\nformat: engine-conversation/2\n---\n## User\nhi\n",
            "its format is 'engine-conversation/2'; this engine",
        ),
    ],
)
def test_invalid_markdown_is_reported(text: str, complaint: str) -> None:
    with pytest.raises(JournalCorrupt, match=complaint):
        read(text)


@hypothesis.given(text=TEXTS | st.text())
def test_no_other_exception_is_raised(text: str) -> None:
    try:
        read(text)
    except JournalCorrupt:
        return


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_has_nothing_to_obey(text: str) -> None:
    assert escape_unsafe_chars("a\U000e0101\ufe01\u034fb\u2764\ufe0f") == "a\\U000e0101\\ufe01\\u034fb\u2764\ufe0f"
    assert not set(escape_unsafe_chars(text)) & {"\x1b", "\x00", "\x07", "\r", "\u202e", "\u2028", "\ud83d"}


def test_long_texts_take_linear_time() -> None:
    count = 200_000
    for text in ("`" * count, "**" * count, "#" * count, "# " + " #" * count, "~" * count, "\\" * count, "\n" * count):
        conversation = render_markdown(session_of([text]), text)
        assert len(conversation) > 0
