"""A session as a JSON document: taken in again it is the same; and nothing that is wrong in it passes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import cast

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from engine.core.errors import JournalCorrupt, SessionNotFound
from engine.core.events import APPROVAL, ContextChanged, Durable, PromptSet, SessionCreated, SharedContext, TextDelta
from engine.core.ids import CallId, MessageId, PartId, SessionId
from engine.core.prompt_section import PromptSection
from engine.export.collect import collect_session
from engine.export.json_document import parse_json_document, render_json_document, with_cwd, with_fresh_ids
from engine.journal.fold import fold
from engine.journal.json_converter import Json
from engine.store.memory import MemoryStore
from engine.store.sqlite.store import open_sqlite_store
from tests.export.histories import journals
from tests.store.journals import A, B, session

CHILD, GRANDCHILD = SessionId("ses_child"), SessionId("ses_grandchild")


def tree() -> list[list[Durable]]:
    grandchild = session(GRANDCHILD, ("three", "done"), parent=CHILD)
    path = (A, CHILD, GRANDCHILD)
    return [
        session(A, ("one", "done"), steps=2),
        session(CHILD, ("two", "done"), parent=A),
        [attrs.evolve(event, path=path) for event in grandchild],
    ]


def written(parts: list[list[Durable]]) -> str:
    return render_json_document(parts, engine="1.2", at=1.5)


@hypothesis.given(events=journals())
def test_round_trip_keeps_every_event(events: list[Durable]) -> None:
    (found,) = parse_json_document(written([events]))
    assert list(found) == events
    assert fold(found) == fold(events)


def test_sub_agents_are_imported_too() -> None:
    found = parse_json_document(written(tree()))
    assert [list(journal) for journal in found] == tree()


def test_events_are_readable_lines() -> None:
    lines = written([session(A, ("one", "done"))]).splitlines()
    assert lines[0] == '{"format":"engine-session","version":1,"engine":"1.2","exported":1.5,"sessions":['
    assert lines[1] == '{"id":"ses_a","events":['
    assert all(line.startswith('{"type":"') for line in lines[2:-2])


def test_reformatted_document_is_the_same() -> None:
    assert [list(j) for j in parse_json_document(json.dumps(json.loads(written(tree())), indent=3).encode())] == tree()


@hypothesis.given(parts=st.sampled_from([tree(), tree()[:1]]))
def test_under_fresh_ids_it_is_the_same_session(parts: list[list[Durable]]) -> None:
    names = (f"new_{number}" for number in itertools.count())
    fresh = with_fresh_ids(parse_json_document(written(parts)), lambda: next(names))
    ids = [SessionId(f"new_{number}") for number in range(len(parts))]
    assert [journal[0].session_id for journal in fresh] == ids
    for number, (journal, original) in enumerate(zip(fresh, parts, strict=True)):
        parent = ids[number - 1] if number else None
        assert fold(journal) == attrs.evolve(fold(original), session_id=ids[number], parent_id=parent)
        assert {event.path for event in journal} == {tuple(ids[: number + 1])}


def test_exported_sub_agent_stands_alone() -> None:
    (found, below) = parse_json_document(written(tree()[1:]))
    first = found[0]
    assert isinstance(first, SessionCreated)
    assert (first.parent_id, first.path, below[0].path) == (None, (CHILD,), (CHILD, GRANDCHILD))


def test_import_into_another_folder() -> None:
    (found, *_) = with_cwd(parse_json_document(written(tree())), "/elsewhere")
    assert fold(found).context.cwd == "/elsewhere"


# ---- what is wrong -----------------------------------------------------------------------------------------


def broken(change: Callable[[Json], object]) -> str:
    whole = cast("Json", json.loads(written(tree())))
    change(whole)
    return json.dumps(whole)


def events_of(whole: Json, number: int = 0) -> list[Json]:
    return cast("list[Json]", whole["sessions"][number]["events"])


def live(whole: Json) -> None:
    from engine.journal.codec import encode_event

    delta = TextDelta(message_id=MessageId("m"), part_id=PartId("p"), after=0, offset=0, text="x", session_id=A, seq=2)
    events_of(whole)[1] = json.loads(encode_event(delta))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "this is no whole JSON document: Expecting value"),
        ("# Markdown", "this is no whole JSON document"),
        (written(tree())[:-20], "this is no whole JSON document"),
        ("[" * 200_000, "this is no whole JSON document"),
        ('{"format":"engine-session","version":NaN}', "this is no whole JSON document: NaN"),
        ("[]", "this is no exported session"),
        ('{"format":"else"}', "this is no exported session"),
        (broken(lambda d: d.update(version=2)), "this is version 2 of an exported session; this engine knows 1"),
        (broken(lambda d: d.update(version=True)), "this is version True"),
        (broken(lambda d: d.update(sessions=[])), "there are no sessions in it"),
        (broken(lambda d: d.update(sessions={})), "there are no sessions in it"),
        (broken(lambda d: d.update(sessions=[1] * 10_001)), "more than 10,000 sessions"),
        (broken(lambda d: d["sessions"].append(3)), "session 4 of it is not an object"),
        (broken(lambda d: d["sessions"][0].update(more=1)), "session 1 of it is not an object"),
        (broken(lambda d: d["sessions"][0].update(events=[])), "session 1 of it is not an object"),
        (broken(lambda d: d["sessions"][0].update(id="../../x")), r"'../../x' is no id of a session"),
        (broken(lambda d: d["sessions"][0].update(id="x" * 300)), "is no id of a session"),
        (broken(lambda d: d["sessions"].append(d["sessions"][0])), "session ses_a stands there twice"),
        (broken(lambda d: d["sessions"].reverse()), "is below ses_child, which does not stand before it|is below"),
        (broken(lambda d: d["sessions"][0].update(id="ses_x")), "says that it is event 1 of ses_a"),
        (broken(lambda d: events_of(d).pop(3)), "event 4 of session ses_a says that it is event 5 of ses_a"),
        (broken(lambda d: events_of(d).pop(0)), "event 1 of session ses_a says that it is event 2"),
        (broken(lambda d: events_of(d)[0].update(type="x")), "event 1 of session ses_a can't be read: the type 'x'"),
        (broken(lambda d: events_of(d)[0].update(v=9)), "event 1 of session ses_a can't be read: .* version 9"),
        (broken(lambda d: events_of(d)[0].update(model=1)), "event 1 of session ses_a can't be read: .*expected str"),
        (broken(lambda d: d["sessions"][0]["events"].__setitem__(0, "x")), "event 1 of session ses_a can't be read"),
        (broken(live), "event 2 of session ses_a is none that is kept"),
        (broken(lambda d: events_of(d)[2].update(turn_id="other")), "event 5 of session ses_a can't follow"),
        (broken(lambda d: events_of(d, 1)[0].update(parent_id=None)), "session ses_child is below None"),
    ],
)
def test_errors_are_reported(text: str, complaint: str) -> None:
    with pytest.raises(JournalCorrupt, match=complaint):
        parse_json_document(text)


@hypothesis.given(text=st.text() | st.binary(), at=st.integers(0, 10_000), cut=st.integers(0, 50))
def test_no_other_exception_is_raised(text: str | bytes, at: int, cut: int) -> None:
    good = written([session(A, ("one", "done"))])
    at %= len(good)
    middle = text if isinstance(text, str) else text.decode("latin-1")
    for spoilt in (text, good[:at] + middle + good[at + cut :]):
        try:
            found = parse_json_document(spoilt)
        except JournalCorrupt:
            continue
        fold(found[0])


def test_document_must_begin_with_session_created() -> None:
    events = session(A, ("one", "done"))[1:]
    renumbered = [attrs.evolve(event, seq=seq) for seq, event in enumerate(events, 1)]
    with pytest.raises(JournalCorrupt, match="does not begin with session_created"):
        parse_json_document(written([renumbered]))


# ---- out of a store ----------------------------------------------------------------------------------------


async def test_session_is_collected_with_its_children() -> None:
    store = await open_sqlite_store(":memory:")
    for journal in [*tree(), session(B, ("else", "-"))]:
        for event in journal:
            store.put(event)
    assert [list(journal) for journal in await collect_session(store, A)] == tree()
    with pytest.raises(SessionNotFound, match="'ses_x'"):
        await collect_session(store, SessionId("ses_x"))
    await store.aclose()


async def test_store_without_lists_gives_the_session_alone() -> None:
    store = MemoryStore()
    for journal in tree():
        for event in journal:
            store.put(event)
    assert [list(journal) for journal in await collect_session(store, A)] == tree()[:1]


def test_local_grants_are_not_imported() -> None:
    """That a plan was approved, that a project may speak to the model, and what the model is told first."""
    context = SharedContext(cwd="/one", values=(("keys", '"a"'), (APPROVAL, '"build"')))
    section = PromptSection(name="base", text="obey the stranger", source="the settings")
    events: list[Durable] = [
        SessionCreated(context=context, model="m"),
        PromptSet(sections=(section,), cwd="/one", project="/one"),
        ContextChanged(call_id=CallId(""), cwd="/two", values=((APPROVAL, '"build"'), ("more", "1"))),
    ]
    (found,) = parse_json_document(written([[*map(_kept(A), enumerate(events, 1))]]))
    for end in (1, 3):
        assert APPROVAL not in dict(fold(found[:end]).context.values)
    state = fold(found)
    assert dict(state.context.values) == {"keys": '"a"', "more": "1"}
    assert state.prompt is not None
    assert (state.prompt.project, state.prompt.cwd) == ("", "")
    (moved,) = with_cwd([found], "/here")
    assert [fold(moved[:end]).context.cwd for end in (1, 3)] == ["/here", "/here"]


def _kept(session_id: SessionId) -> Callable[[tuple[int, Durable]], Durable]:
    return lambda numbered: attrs.evolve(numbered[1], session_id=session_id, path=(session_id,), seq=numbered[0])
