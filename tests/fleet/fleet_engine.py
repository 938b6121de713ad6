"""One engine of a fleet, in a process of its own, and what the tools of all of them have done, in a table."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import attrs
import psycopg
import trio

import engine
from engine.core.errors import SessionLost
from engine.core.llm_types import ModelRequest
from engine.core.messages import ResultsMessage, UserMessage
from engine.core.protocols import Store
from engine.core.settings import Settings
from engine.fleet.sweeper import sweep
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import live_session
from engine.store.postgres.open import open_postgres_store
from engine.store.postgres.store import PostgresStore
from engine.store.store_protocols import SessionQuery
from engine.testing.script import Answer, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.tool import Tool

# So many calls each turn makes, one after the other.
CALLS = 5
# So many turns each engine runs at once.
WIDTH = 3
_EVERYTHING = SessionQuery(limit=100_000)
EFFECTS = "CREATE TABLE IF NOT EXISTS public.effects (call text NOT NULL, pid bigint NOT NULL, at float8 NOT NULL)"


@attrs.frozen
class Effect:
    """Do something that must not be done twice."""

    key: str


def effect_tool(place: str, seconds: float = 0.0) -> Tool:
    """Return a tool that counts each run of a call in a table, and takes so long after that."""

    def record(key: str) -> None:
        with psycopg.connect(place, autocommit=True) as connection:
            row = (key, os.getpid(), time.time())
            connection.execute("INSERT INTO public.effects (call, pid, at) VALUES (%s, %s, %s)", row)

    @engine.tool(name="effect")
    async def effect(args: Effect, ctx: engine.ToolContext) -> str:
        await trio.to_thread.run_sync(record, f"{ctx.session_id} {ctx.call_id}")
        await trio.sleep(seconds)
        return f"did {args.key}"

    return effect


def answer(request: ModelRequest) -> Answer:
    """Make one call more than there are results; end after so many of them."""
    results = sum(len(m.results) for m in request.transcript if isinstance(m, ResultsMessage))
    told = sum(isinstance(m, UserMessage) for m in request.transcript)
    if results >= CALLS:
        return [*text("All of it is done.", pieces=3), *done()]
    key = f"{results}.{told}"
    return [*text("Next.", pieces=2), Pause(0.005), *call("effect", {"key": key}, id=f"call_{key}"), *done("calls")]


@attrs.frozen
class Told:
    """What a process tells, into a pipe."""

    to: int

    def tell(self, **facts: object) -> None:
        os.write(self.to, f"{json.dumps(facts)}\n".encode())


def open_engine(store: Store, place: str, folder: Path, seconds: float = 0.0) -> engine.Engine:
    """Return an engine whose turns may be resumed."""
    return engine.open_engine(
        model=ScriptedProvider([answer], repeat=True),
        tools=[effect_tool(place, seconds)],
        settings=Settings(resume="auto"),
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        files=FileOptions(spill=folder / "spill"),
    )


async def run_engine(place: str, folder: Path, told: Told, end: int, lease_seconds: float) -> None:
    """Begin turns, and go on with those of others, until *end* can be read; return when nothing runs any more."""
    store = await open_postgres_store(place, lease_seconds=lease_seconds, timeout=20)
    is_ending = False
    async with open_engine(store, place, folder) as eng, trio.open_nursery() as nursery:

        async def work() -> None:
            while not is_ending:
                session = await eng.create_session(cwd=folder)
                turn = eng.start_turn(session, "go")
                async with trio.open_nursery() as watching:
                    watching.start_soon(promise, session)
                    await turn.wait()
                    watching.cancel_scope.cancel()
                # On a busy machine, an engine may be so late that another one has taken its sessions.
                with suppress(SessionLost):
                    await eng.close_session(session.id)

        async def promise(session: engine.Session) -> None:
            """Tell what is flushed, again and again: it is promised."""
            with suppress(SessionLost):
                await keep_promising(session)

        async def keep_promising(session: engine.Session) -> None:
            while True:
                newest = next(live_session(session).journal.newest_first())
                assert newest.seq is not None
                await store.flushed(session.id, newest.seq)
                told.tell(session=session.id, seq=newest.seq, time=newest.time)
                await trio.sleep(0.01)

        nursery.start_soon(sweep, eng)
        async with trio.open_nursery() as working:
            for _ in range(WIDTH):
                working.start_soon(work)
            told.tell(ready=os.getpid())
            await trio.lowlevel.wait_readable(end)
            is_ending = True
        # What others have left goes on here, or there.
        while any(row.status != "idle" for row in await store.list_sessions(_EVERYTHING)):
            await trio.sleep(0.05)
        nursery.cancel_scope.cancel()


async def sessions_of(store: PostgresStore) -> list[str]:
    return [row.id for row in await store.list_sessions(_EVERYTHING)]
