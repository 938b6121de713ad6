from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.llm_types import (
    Finished,
    Ping,
    ReasoningChunk,
    ReasoningDone,
    ReasoningStarted,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    UsageReported,
)
from engine.core.messages import Usage
from engine.testing.script import Pause, call, cut, done, reasoning, spread, text


@given(st.text(), st.integers(-1, 9))
def test_cutting_loses_nothing(whole: str, pieces: int) -> None:
    parts = cut(whole, pieces)
    assert "".join(parts) == whole
    assert all(parts)
    assert len(parts) <= max(1, pieces)


def test_text() -> None:
    assert text("abcde", pieces=2) == (
        TextStarted("text"),
        TextChunk("text", "abc"),
        TextChunk("text", "de"),
        TextDone("text"),
    )
    assert text("", id="t") == (TextStarted("t"), TextDone("t"))


def test_reasoning() -> None:
    assert reasoning("hm", signature="s") == (
        ReasoningStarted("reasoning"),
        ReasoningChunk("reasoning", "hm"),
        ReasoningDone("reasoning", "s"),
    )


def test_a_call() -> None:
    assert call("read", '{"a":1}', id="c", pieces=2) == (
        ToolCallStarted("c", "read"),
        ToolCallChunk("c", '{"a"'),
        ToolCallChunk("c", ":1}"),
        ToolCallDone("c"),
    )
    chunk = call("read", {"path": "é"}, id="c")[1]
    assert isinstance(chunk, ToolCallChunk)
    assert json.loads(chunk.text) == {"path": "é"}


@pytest.mark.parametrize("usage", [None, Usage(input=1)])
def test_the_end(usage: Usage | None) -> None:
    expected = (Finished("calls", "tool_use"),)
    assert done("calls", raw="tool_use", usage=usage) == (
        expected if usage is None else (UsageReported(usage), *expected)
    )


def test_a_slow_host() -> None:
    assert spread([Ping(), Ping()], 0.5) == (Pause(0.5), Ping(), Pause(0.5), Ping())
