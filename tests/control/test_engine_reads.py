"""The reading methods over real engines: live sessions, stored ones, and those that another engine has open."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

import engine
from engine.control.engine_reads import EngineReads
from engine.control.protocol import answer_methods as an
from engine.control.protocol import server_methods as sv
from engine.control.protocol import session_methods as se
from engine.control.protocol import watch_methods as wa
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.method_table import METHODS
from engine.control.protocol.wire_converter import to_json
from engine.core.errors import MessageNotFound, SessionNotFound
from engine.session.engine import Engine
from engine.testing import ScriptedProvider, call, done, text


@attrs.frozen
class Nothing:
    pass


def opened(store: Path, *answers: str) -> Engine:
    provider = ScriptedProvider([[*text(answer), *done()] for answer in answers])
    return engine.open_engine(model=provider, store=store)


async def test_stored_sessions_are_read_as_live_ones(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", "one", "two") as eng:
        reads = EngineReads(eng)
        session = await eng.create_session(cwd=tmp_path)
        await session.run("first")
        await session.run("second")
        live = await reads.get_session(se.SessionParams(session_id=session.id))
        page = await reads.messages(wa.MessagesParams(session_id=session.id))
        events = await reads.events(wa.EventsParams(session_id=session.id))
        async with opened(tmp_path / "s.db") as other:
            # Open elsewhere, and nothing is claimed.
            stored = EngineReads(other)
            seen = await stored.get_session(se.SessionParams(session_id=session.id))
            assert (live.mode, seen.mode) == ("live", "stored")
            assert seen.head.seq == live.head.seq
            assert await stored.messages(wa.MessagesParams(session_id=session.id)) == page
            assert await stored.events(wa.EventsParams(session_id=session.id)) == events
            assert (await stored.list_sessions(se.SessionListParams())).rows[0].title == live.row.title
        await session.rename("still mine")


async def test_rows_are_those_of_the_store(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", "one") as eng:
        session = await eng.create_session(cwd=tmp_path)
        await session.run("first")
        reads = EngineReads(eng)
        (row,) = (await reads.list_sessions(se.SessionListParams())).rows
        assert (await reads.get_session(se.SessionParams(session_id=session.id))).row == row


async def test_lists_are_paged_and_filtered(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", *["a"] * 5) as eng:
        reads = EngineReads(eng)
        made = [await eng.create_session(cwd=tmp_path) for _ in range(5)]
        for session in made:
            await session.run("go")
        seen: list[str] = []
        before: str | None = None
        while True:
            page = await reads.list_sessions(se.SessionListParams(limit=2, before=before))
            seen += [row.id for row in page.rows]
            before = page.next
            if before is None:
                break
        assert sorted(seen) == sorted(session.id for session in made)
        assert (await reads.list_sessions(se.SessionListParams(status="waiting"))).rows == ()
        assert len((await reads.list_sessions(se.SessionListParams(status="idle"))).rows) == 5


@engine.tool
async def ask(_: Nothing, context: engine.ToolContext) -> str:
    """Ask."""
    raise AssertionError(context)


async def test_rare_sessions_are_found(tmp_path: Path) -> None:
    script = [[*call("ask", {}, id="c1"), *done()], *[[*text("a"), *done()]] * 5]
    async with engine.open_engine(model=ScriptedProvider(script), store=tmp_path / "s.db", tools=[ask]) as eng:
        waiting = await eng.create_session(cwd=tmp_path)
        async for event in eng.start_turn(waiting, "go"):
            if isinstance(event, engine.PermissionAsked):
                break
        for _ in range(5):
            await (await eng.create_session(cwd=tmp_path)).run("go")
        page = await EngineReads(eng).list_sessions(se.SessionListParams(status="waiting", limit=2))
        assert [row.id for row in page.rows] == [waiting.id]


async def test_history_is_paged(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", "one", "two") as eng:
        session = await eng.create_session(cwd=tmp_path)
        for prompt in ("first", "second"):
            await session.run(prompt)
        reads = EngineReads(eng)
        newest = await reads.messages(wa.MessagesParams(session_id=session.id, limit=3))
        assert (len(newest.messages), newest.more) == (3, True)
        rest = await reads.messages(wa.MessagesParams(session_id=session.id, before=newest.messages[0].id))
        assert (*rest.messages, *newest.messages) == session.state.transcript[:]
        assert not rest.more
        first = await reads.events(wa.EventsParams(session_id=session.id, limit=3))
        after = await reads.events(wa.EventsParams(session_id=session.id, after=3))
        assert (first.more, after.more) == (True, False)
        assert [*first.events, *after.events] == list(session.events())


async def test_what_is_missing_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", "one") as eng:
        reads = EngineReads(eng)
        session = await eng.create_session(cwd=tmp_path)
        with pytest.raises(SessionNotFound):
            await reads.get_session(se.SessionParams(session_id="none"))
        with pytest.raises(MessageNotFound):
            await reads.messages(wa.MessagesParams(session_id=session.id, before="none"))
    async with engine.open_engine(model=ScriptedProvider([])) as eng:
        with pytest.raises(Refusal) as caught:
            await EngineReads(eng).search(se.SessionSearchParams(words="a"))
        assert caught.value.kind == "unsupported"


async def test_results_are_those_of_the_table(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", "one") as eng:
        reads = EngineReads(eng)
        session = await eng.create_session(cwd=tmp_path)
        await session.run("first")
        params = {
            "session.list": se.SessionListParams(),
            "session.search": se.SessionSearchParams(words="first"),
            "session.usage": se.SessionUsageParams(by="model"),
            "messages": wa.MessagesParams(session_id=session.id),
            "events": wa.EventsParams(session_id=session.id),
            "asked": an.QuestionListParams(),
            "agent.list": sv.OptionalSessionParams(),
            "tool.list": sv.OptionalSessionParams(session_id=session.id),
        }
        for name, handler in reads.handlers.items():
            assert METHODS[name].role == "read"
            result = await handler(params.get(name, se.SessionParams(session_id=session.id)))
            assert type(result) is METHODS[name].result
            assert to_json(result)
