"""A complete session as a JSON document: its events and those of its sub-agents, so that it can be imported. Pure.

    {"format":"engine-session","version":1,"engine":"0.1.0","exported":1.7e9,"sessions":[
    {"id":"ses_a","events":[
    {"type":"session_created","v":1,…},
    …]},
    {"id":"ses_b","events":[…]}]}

The first session is the one that was exported; the others are its descendants, each after its parent. An event has the
form of the store and the wire, in the version in which it was written; reading upgrades it. Reading is as strict as the
codec, and all or nothing.

A document is not trusted. It grants no rights: the approval of a plan and the trust in a project's files are removed, and
the system prompt is built again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, TypeAlias, cast

import attrs

from engine.core.errors import JournalCorrupt
from engine.core.events import APPROVAL, DURABLE_TYPES, ContextChanged, Durable, PromptSet, SessionCreated
from engine.core.ids import SessionId
from engine.journal.codec import decode_event, encode_event
from engine.journal.fold import apply
from engine.journal.state import SessionState

FORMAT: Final = "engine-session"
VERSION: Final = 1
# A document is parsed in memory, and may come from anywhere.
MAX_SESSIONS: Final = 10_000

_ID: Final = re.compile(r"[\w.:@+=-]{1,200}\Z", re.ASCII)
_Object: TypeAlias = "dict[str, object]"

Journals: TypeAlias = Sequence[Sequence[Durable]]


def render_json_document(journals: Journals, *, engine: str, at: float) -> str:
    """Return the document of *journals*, the exported session's first, then its descendants'.

    Args:
        journals: the events of each session, from the first on.
        engine: the version of the engine that exports.
        at: when, in seconds since the epoch.
    """
    # Joined as text, an event a line: a diff of two exports shows the events that differ, and `encode_event` has done the
    # work already.
    head = json.dumps({"format": FORMAT, "version": VERSION, "engine": engine, "exported": at}, separators=(",", ":"))
    sessions = ",\n".join(
        f'{{"id":{json.dumps(journal[0].session_id)},"events":[\n'
        + ",\n".join(encode_event(event) for event in journal)
        + "\n]}"
        for journal in journals
    )
    return f'{head[:-1]},"sessions":[\n{sessions}\n]}}\n'


def parse_json_document(text: str | bytes) -> tuple[tuple[Durable, ...], ...]:
    """Return the journals of a document, after checking every event. Raises `JournalCorrupt` with the reason.

    The first session loses its parent, which is not in the document; and all sessions lose the rights that only the user
    of this machine can grant.
    """
    journals: dict[SessionId, tuple[Durable, ...]] = {}
    paths: dict[SessionId, tuple[SessionId, ...]] = {}
    for number, item in enumerate(_sessions_in(text)):
        session_id, documents = _session(item, number)
        if session_id in journals:
            raise JournalCorrupt(f"session {session_id} stands there twice")
        events = [_without_rights(_event(entry, session_id, seq)) for seq, entry in enumerate(documents, 1)]
        first = events[0]
        if not isinstance(first, SessionCreated):
            raise JournalCorrupt(f"session {session_id} does not begin with session_created")
        if number == 0:
            events[0] = first = attrs.evolve(first, parent_id=None, parent_call_id=None)
        # Parents come first, so a cycle of parents can't be written.
        elif first.parent_id not in paths:
            raise JournalCorrupt(f"session {session_id} is below {first.parent_id}, which does not stand before it")
        paths[session_id] = (*(paths[first.parent_id] if first.parent_id is not None else ()), session_id)
        journals[session_id] = _check_order(events, session_id, paths[session_id])
    return tuple(journals.values())


def with_fresh_ids(journals: Journals, fresh: Callable[[], str]) -> tuple[tuple[Durable, ...], ...]:
    """Return the same sessions under other ids."""
    ids = {journal[0].session_id: SessionId(fresh()) for journal in journals}
    return tuple(tuple(_with_ids(event, ids) for event in journal) for journal in journals)


def with_cwd(journals: Journals, cwd: str) -> tuple[tuple[Durable, ...], ...]:
    """Return the same sessions with *cwd* as their working directory from the beginning."""
    return tuple(tuple(_with_cwd(event, cwd) for event in journal) for journal in journals)


def _with_cwd(event: Durable, cwd: str) -> Durable:
    match event:
        case SessionCreated():
            return attrs.evolve(event, context=attrs.evolve(event.context, cwd=cwd))
        case ContextChanged():
            # Each of these events repeats the working directory, even if it is about something else.
            return attrs.evolve(event, cwd=cwd)
        case _:
            return event


def _without_rights(event: Durable) -> Durable:
    match event:
        case SessionCreated():
            return attrs.evolve(event, context=event.context.without(APPROVAL))
        case ContextChanged():
            return attrs.evolve(event, values=tuple(value for value in event.values if value[0] != APPROVAL))
        case PromptSet():
            # A prompt for another folder is built again in the next turn, and the user is asked about the project.
            return attrs.evolve(event, cwd="", project="")
        case _:
            return event


def _with_ids(event: Durable, ids: Mapping[SessionId, SessionId]) -> Durable:
    event = attrs.evolve(
        event, session_id=ids[event.session_id], path=tuple(ids.get(name, name) for name in event.path)
    )
    if isinstance(event, SessionCreated):
        parent, origin = event.parent_id, event.forked_from
        event = attrs.evolve(
            event,
            parent_id=None if parent is None else ids.get(parent, parent),
            forked_from=None if origin is None else ids.get(origin, origin),
        )
    return event


# -- reading ---------------------------------------------------------------------------------


def _sessions_in(text: str | bytes) -> Sequence[object]:
    # Python's parser takes NaN and Infinity, which no other reader of the document would.
    try:
        value: object = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise JournalCorrupt(f"this is no whole JSON document: {error}") from error
    if not isinstance(value, dict) or cast("_Object", value).get("format") != FORMAT:
        raise JournalCorrupt(f'this is no exported session: it does not say "format": "{FORMAT}"')
    whole = cast("_Object", value)
    version = whole.get("version")
    if type(version) is not int or version != VERSION:
        raise JournalCorrupt(f"this is version {version!r} of an exported session; this engine knows {VERSION}")
    sessions = whole.get("sessions")
    if not isinstance(sessions, list) or not sessions:
        raise JournalCorrupt("there are no sessions in it")
    if len(cast("list[object]", sessions)) > MAX_SESSIONS:
        raise JournalCorrupt(f"there are more than {MAX_SESSIONS:,} sessions in it")
    return cast("list[object]", sessions)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _session(item: object, number: int) -> tuple[SessionId, Sequence[object]]:
    entry = cast("_Object", item) if isinstance(item, dict) else {}
    session_id, documents = entry.get("id"), entry.get("events")
    if not isinstance(session_id, str) or not isinstance(documents, list) or not documents or len(entry) != 2:
        raise JournalCorrupt(f"session {number + 1} of it is not an object with exactly an id and events")
    if not _ID.match(session_id):
        raise JournalCorrupt(f"{session_id[:80]!r} is no id of a session")
    return SessionId(session_id), cast("list[object]", documents)


def _event(entry: object, session_id: SessionId, seq: int) -> Durable:
    try:
        event = decode_event(json.dumps(entry))
    except JournalCorrupt as error:
        raise JournalCorrupt(f"event {seq} of session {session_id} can't be read: {error}") from error
    if not isinstance(event, DURABLE_TYPES):
        raise JournalCorrupt(f"event {seq} of session {session_id} is none that is kept")
    if event.seq != seq or event.session_id != session_id:
        raise JournalCorrupt(
            f"event {seq} of session {session_id} says that it is event {event.seq} of {event.session_id[:80]}"
        )
    return event


def _check_order(events: Sequence[Durable], session_id: SessionId, path: tuple[SessionId, ...]) -> tuple[Durable, ...]:
    """Return *events* after checking that each can follow the ones before it."""
    state = SessionState()
    for event in events:
        try:
            state = apply(state, event)
        except JournalCorrupt as error:
            raise JournalCorrupt(f"event {event.seq} of session {session_id} can't follow: {error}") from error
    return tuple(attrs.evolve(event, path=path) for event in events)
