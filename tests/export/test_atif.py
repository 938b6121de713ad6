"""A session as a trajectory in ATIF v1.7: what is in it, and that its readers accept it, whatever was said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from engine.core.errors import SessionError
from engine.core.events import Durable, HistoryReplaced, SessionCreated
from engine.core.ids import CallId, MessageId, PartId, SessionId
from engine.core.messages import ImagePart, TextPart, UserMessage
from engine.export.atif import render_atif
from engine.export.history import History, render_history
from engine.export.seed_events import seed_events
from tests.export.atif_format import Json, check_trajectory
from tests.export.histories import journals
from tests.export.said import TEXTS, session_of
from tests.store.journals import MODEL, A, B, created, numbered, session, turn

CALL = CallId("m1.1.c")  # the first call of `session`


def exported(stories: Sequence[History]) -> Json:
    """The trajectory of a session and its sub-agents, after its reader has accepted it."""
    text = render_atif(stories, engine="1.2")
    document = cast("Json", json.loads(text.encode("utf-8")))
    check_trajectory(document)
    return document


def test_calls_stand_with_their_results() -> None:
    document = exported([render_history(session(A, ("why?", "because"), steps=2))])
    user, asking, answering = document["steps"]
    assert user == {"step_id": 1, "timestamp": "2023-11-14T22:13:24.000+00:00", "source": "user", "message": "why?"}
    assert asking["tool_calls"] == [
        {"tool_call_id": CALL, "function_name": "read", "arguments": {"path": "engine/service.py", "offset": 100}}
    ]
    assert asking["observation"] == {
        "results": [{"source_call_id": CALL, "content": "read it", "extra": {"status": "completed"}}]
    }
    assert asking["metrics"] == {
        "prompt_tokens": 130,
        "completion_tokens": 50,
        "cached_tokens": 20,
        "cost_usd": 0.25,
        "extra": {"cache_creation_input_tokens": 10, "reasoning_output_tokens": 5},
    }
    assert (answering["message"], answering["model_name"], answering["llm_call_count"]) == ("because", MODEL, 1)
    assert document["agent"] == {"name": "engine", "version": "1.2", "model_name": MODEL}
    assert document["final_metrics"] == {
        "total_prompt_tokens": 260,
        "total_completion_tokens": 100,
        "total_cached_tokens": 40,
        "total_cost_usd": 0.5,
        "total_steps": 3,
    }


@hypothesis.given(events=journals())
def test_every_session_with_messages_is_valid(events: list[Durable]) -> None:
    story = render_history(events)
    if story.entries:
        exported([story])


@hypothesis.given(texts=st.lists(TEXTS, min_size=1, max_size=3))
def test_hostile_texts_are_valid(texts: list[str]) -> None:
    document = exported([session_of(texts)])
    said = [step["message"] for step in document["steps"] if step["source"] == "user"]
    assert said == [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]


def test_sub_agents_are_inside_their_parents() -> None:
    grandchild, uncalled = SessionId("ses_grandchild"), SessionId("ses_uncalled")
    journal = [
        session(A, ("one", "done"), steps=2),
        _called_by(CALL, session(B, ("two", "done"), steps=2, parent=A)),
        _called_by(CALL, session(grandchild, ("three", "done"), parent=B)),
        session(uncalled, ("four", "done"), parent=A),
        session(SessionId("ses_empty"), parent=A),
    ]
    document = exported([render_history(events) for events in journal])
    assert [child["trajectory_id"] for child in document["subagent_trajectories"]] == [B, uncalled]
    (result,) = document["steps"][1]["observation"]["results"]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": B, "session_id": B}]
    (below,) = document["subagent_trajectories"][0]["subagent_trajectories"]
    assert below["trajectory_id"] == grandchild
    # Tokens are the session's own; money is that of its sub-agents as well.
    assert document["final_metrics"]["total_prompt_tokens"] == 260
    assert document["final_metrics"]["total_cost_usd"] == 0.5 + 0.5 + 0.25 + 0.25


def test_cycle_of_parents_ends() -> None:
    parents = [session(A, ("one", "done"), parent=B), session(B, ("two", "done"), parent=A)]
    exported([render_history(events) for events in (parents[0], *parents)])


def test_arguments_that_are_no_object_are_kept() -> None:
    step = next(step for step in exported([session_of(['["a"', "[1]"])])["steps"] if "tool_calls" in step)
    assert step["tool_calls"] == [
        {"tool_call_id": "c0", "function_name": '["a"', "arguments": {}, "extra": {"arguments_text": '["a"'}}
    ]


def test_summary_is_a_step_of_the_system() -> None:
    summary = UserMessage(id=MessageId("s"), parts=(TextPart(id=PartId("sp"), text="it was read"),), origin="summary")
    events = [created(), *turn(1, "why?", "because"), HistoryReplaced(kind="compact", messages=(summary,))]
    steps = exported([render_history(numbered(events, A))])["steps"]
    assert [step["source"] for step in steps] == ["user", "agent", "system"]
    assert steps[-1]["extra"]["context_management"] == {"type": "compaction"}
    assert "is_copied_context" not in steps[-1]


def test_messages_of_a_fork_are_copied_context() -> None:
    earlier = render_history(session(A, ("why?", "because")))
    events = [
        *seed_events(
            B,
            kind="fork",
            messages=tuple(entry.message for entry in earlier.entries),
            context=earlier.state.context,
            model=MODEL,
            at=1.7e9,
        )
    ]
    events = numbered([*events, *turn(2, "and now?", "because")], B)
    steps = exported([render_history(events)])["steps"]
    assert [step.get("is_copied_context", False) for step in steps] == [True, True, False, False]


def test_images_are_named() -> None:
    message = UserMessage(id=MessageId("u"), parts=(ImagePart(media_type="image/png", data="aGk="),))
    story = render_history(
        seed_events(A, kind="import", messages=(message,), context=created().context, model=MODEL, at=1.7e9)
    )
    (step,) = exported([story])["steps"]
    assert step["message"] == ""
    assert step["extra"]["attachments"] == [{"media_type": "image/png", "base64_chars": 4}]


def test_session_without_messages_is_refused() -> None:
    with pytest.raises(SessionError, match="ses_a has no messages"):
        render_atif([render_history(session(A))], engine="1.2")


def _called_by(call: CallId, events: list[Durable]) -> list[Durable]:
    first = cast("SessionCreated", events[0])
    return [attrs.evolve(first, parent_call_id=call), *events[1:]]
