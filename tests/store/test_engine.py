"""An engine over a store in a file: it goes on after a restart, a full disk costs no turn, and no secret is kept."""

from __future__ import annotations

# ruff: noqa: ASYNC240 -- the files are small
import sqlite3
from pathlib import Path
from urllib.parse import quote, urlsplit

import trio

import engine
from engine.core.errors import ProviderError
from engine.core.settings import RetryPolicy, Settings
from engine.permission.allow_all import AllowAll
from engine.providers.registry import resolve
from engine.session.engine_options import PermissionOptions
from engine.session.session import live_session
from engine.store.sqlite.store import open_sqlite_store
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, Fail, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.providers.test_secrets import FORMS, KEY, NAME, PASSWORD, echoed, error, refusal
from tests.support.bench import Bench


def model() -> ScriptedProvider:
    answers = [
        [*text("I will look."), *call("read", {"n": 1}, id="c1"), *done("calls")],
        [*text("It is done."), *done()],
        [*text("Good bye."), *done()],
    ]
    return ScriptedProvider(answers, repeat=True)


async def say(session: engine.Session, words: str) -> engine.TurnResult:
    async with session.prompt(words) as turn:
        async for _ in turn:
            pass
    return turn.result


async def test_a_session_goes_on_in_another_engine(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    async with engine.open_engine(
        model=model(),
        tools=Bench().tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        store=await open_sqlite_store(path),
    ) as eng:
        session = await eng.create_session(cwd=tmp_path)
        result = await say(session, "look at it")
        assert (result.stop_reason, result.durable) == ("completed", True)
        events, state = session.events(), session.state
    store = await open_sqlite_store(path)
    async with engine.open_engine(
        model=model(), tools=Bench().tools(), permissions=PermissionOptions(approver=AllowAll()), store=store
    ) as eng:
        again = await eng.open_session(session.id)
        assert (again.state, again.events()) == (state, events)
        assert (await say(again, "and again")).durable
        (row,) = await store.list_sessions()
        assert (row.title, row.turns, row.seq, row.usage) == (
            "look at it",
            2,
            live_session(again).journal.seq,
            again.state.usage,
        )
        assert [hit.session.id for hit in await store.search("look")] == [session.id]
        stored = await store.load(session.id)
        assert tuple(stored) == again.events()


async def test_quoted_secret_is_in_no_stored_byte(tmp_path: Path) -> None:
    """The canary, for all files beside the database as well, while it is open and when it is closed."""

    def quoting(request: ReceivedRequest) -> Answer:
        if len(server.requests) == 1:
            return refusal(401, error(f"bad key in {echoed(request)}", type="authentication_error"))
        return [*text("so far")[:-1], Fail(ProviderError(echoed(request)))]

    server = ScriptedServer(quoting)
    settings = Settings(retry=RetryPolicy(attempts=1, base=0.0), headless="deny")
    path = tmp_path / "sessions.db"
    async with trio.open_nursery() as nursery:
        url = urlsplit(await nursery.start(server.serve))
        address = url._replace(netloc=f"me:{quote(PASSWORD, safe='')}@{url.netloc}").geturl()
        host = resolve(NAME, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address})
        store = await open_sqlite_store(path)
        async with engine.open_engine(model=host, store=store, settings=settings, tools=Bench().tools()) as eng:
            session = await eng.create_session()
            for words in ("the first words", "the second words"):
                assert (await say(session, words)).stop_reason != "completed"
            store.save_state(session.state)
            await store.flushed(session.id, live_session(session).journal.seq)
            assert sorted(found.name for found in tmp_path.iterdir()) == [
                "sessions.db",
                "sessions.db-shm",
                "sessions.db-wal",
            ]
            kept = b"".join(found.read_bytes() for found in tmp_path.iterdir())
        nursery.cancel_scope.cancel(reason="the test is over")
    kept += b"".join(found.read_bytes() for found in tmp_path.iterdir())
    assert len(server.requests) >= 2
    assert b"the second words" in kept
    for form in FORMS:
        assert form.encode() not in kept, "a secret is in the file"


async def test_a_store_that_is_locked_costs_no_turn(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = await open_sqlite_store(path, lock_timeout=0.1)
    async with engine.open_engine(
        model=model(), tools=Bench().tools(), permissions=PermissionOptions(approver=AllowAll()), store=store
    ) as eng:
        session = await eng.create_session(cwd=tmp_path)
        await store.flushed(session.id, 1)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        result = await say(session, "look at it")
        assert (result.stop_reason, result.durable) == ("completed", False)
        other.execute("COMMIT")
        other.close()
        result = await say(session, "again")
        assert (result.stop_reason, result.durable) == ("completed", True)
        assert len(await store.load(session.id)) == live_session(session).journal.seq
