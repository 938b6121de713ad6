"""Engines over a database: named by its URL, one goes on with what another began, and no secret is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import engine
from engine.core.errors import SessionElsewhere
from engine.core.events import CallAnnounced, Durable, TurnEnded
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.store.adapter import StoreAdapter
from engine.store.postgres.store import PostgresStore
from tests.conftest import REPOSITORY
from tests.store.server import shared_server
from tests.store.test_engine import model, say
from tests.support.bench import Bench

pytestmark = pytest.mark.os


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a database of one's own."""
    server = shared_server()
    name = server.name()
    server.do(f"CREATE DATABASE {name}")
    yield server.url(name)
    server.do(f"DROP DATABASE {name} WITH (FORCE)")


async def test_session_continues_in_another_engine(url: str, tmp_path: Path) -> None:
    async with (
        engine.open_engine(
            model=model(), tools=Bench().tools(), permissions=PermissionOptions(approver=AllowAll()), store=url
        ) as ours,
        engine.open_engine(
            model=model(), tools=Bench().tools(), permissions=PermissionOptions(approver=AllowAll()), store=url
        ) as theirs,
    ):
        session = await ours.create_session(cwd=tmp_path)
        result = await say(session, "look at it")
        assert (result.stop_reason, result.durable) == ("completed", True)
        with pytest.raises(SessionElsewhere):
            await theirs.open_session(session.id)
        events, state = session.events(), session.state
    async with engine.open_engine(
        model=model(), tools=Bench().tools(), permissions=PermissionOptions(approver=AllowAll()), store=url
    ) as eng:
        again = await eng.open_session(session.id)
        assert (again.state, tuple(again.events())) == (state, tuple(events))
        assert (await say(again, "and again")).durable


async def test_other_engine_watches_and_forks_a_turn(url: str, tmp_path: Path) -> None:
    async with (
        engine.open_engine(
            model=model(), tools=Bench().tools(), permissions=PermissionOptions(approver=AllowAll()), store=url
        ) as ours,
        engine.open_engine(
            model=model(), tools=Bench().tools(), permissions=PermissionOptions(approver=AllowAll()), store=url
        ) as theirs,
    ):
        session = await ours.create_session(cwd=tmp_path)
        seen: list[Durable] = []
        forks: list[engine.Session] = []

        async def watch() -> None:
            async for event in theirs.watch_session(session.id):
                seen.append(event)
                if isinstance(event, CallAnnounced):
                    forks.append(await theirs.fork_session(session.id))
                if isinstance(event, TurnEnded):
                    break

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                await say(session, "look at it")
        assert seen == list(session.events())[: len(seen)]
        assert forks
        assert all(fork.state.turn is None and fork.state.forked_from == session.id for fork in forks)
        assert (await say(forks[0], "and now")).durable
        # From where it was, after an engine that is gone.
        watch_on = theirs.watch_session(session.id, after=seen[-2].seq or 0)
        assert await anext(aiter(watch_on)) == seen[-1]
        with trio.move_on_after(0.2) as scope:
            await anext(aiter(watch_on))
        assert scope.cancelled_caught
        assert watch_on.seq == seen[-1].seq


async def test_url_selects_this_store(url: str) -> None:
    from engine.session.open_store import open_store_at

    store = await open_store_at(url)
    assert isinstance(store, PostgresStore)
    assert StoreAdapter.of(store).drafting is store
    await store.aclose()


def test_an_engine_shows_no_password() -> None:
    eng = engine.open_engine(model=model(), store="postgresql://agents:canary@db.example/agents")
    assert "canary" not in repr(eng)


def test_how_to_runs_on_a_database(url: str, tmp_path: Path) -> None:
    example = REPOSITORY / "docs" / "examples" / "howto_postgres.py"
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY), "AGENTS_DATABASE": url}
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (example.with_suffix(".out").read_text(), "")


@pytest.mark.parametrize("command", [["sessions", "list"], ["stats"], ["run", "hello"]])
def test_the_command_line_shows_no_password(command: list[str], tmp_path: Path) -> None:
    """Nobody answers at that port."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ENGINE_", "XDG_"))}
    environment = {**kept, "HOME": str(tmp_path), "ENGINE_STORE": "postgresql://agents:canary@127.0.0.1:1/agents"}
    done = subprocess.run(
        [sys.executable, "-m", "engine", *command],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "canary" not in done.stdout + done.stderr
