"""The changing methods over a real engine: sessions, questions, undo, and keys that make repeating safe."""

from __future__ import annotations

import base64
import secrets
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.control.control_methods import Caller
from engine.control.credentials import Login
from engine.control.engine_changes import EngineChanges
from engine.control.engine_methods import EngineMethods
from engine.control.engine_reads import EngineReads
from engine.control.protocol import answer_methods as an
from engine.control.protocol import session_methods as se
from engine.control.protocol import turn_methods as tu
from engine.control.protocol.error_kinds import Refusal, error_of
from engine.control.protocol.method_table import METHODS
from engine.control.protocol.recent_keys import RecentKeys
from engine.control.protocol.wire_converter import BadParams
from engine.control.turn_actions import media_of, settings_with
from engine.control.uploads import MOST_BYTES, UNFINISHED_SECONDS, Uploads
from engine.core.errors import (
    AlreadyAnswered,
    ConfigError,
    InputConflict,
    NothingParked,
    RequestNotFound,
    SessionError,
    SessionNotFound,
    StoreError,
    TurnOver,
)
from engine.core.settings import Limits, Settings
from engine.session.engine import Engine
from engine.session.engine_options import Ports
from engine.testing import Answer, Pause, ScriptedProvider, SlowStore, call, done, text


def opened(store: Path, *answers: str) -> Engine:
    script = [[*text(answer), *done()] for answer in answers]
    return engine.open_engine(model=ScriptedProvider(script), store=store)


@attrs.define
class Clock:
    time: float = 1_800_003_000.0

    def now(self) -> float:
        return self.time


def uploads() -> Uploads:
    return Uploads(now=trio.current_time, random=secrets.token_bytes)


def changes_of(eng: Engine) -> EngineChanges:
    return EngineChanges(eng, EngineReads(eng), uploads())


async def test_a_repeated_creation_makes_one_session(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as eng:
        changes, keys, results = changes_of(eng), RecentKeys(), []
        params = se.SessionCreateParams(cwd=str(tmp_path), title="A title", key="k")

        async def create() -> None:
            results.append(await changes.run("session.create", params, keys))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(create)
        await create()
        assert [type(result) for result in results] == [se.SessionCreateResult] * 4
        assert all(result == results[0] for result in results)
        rows = (await EngineReads(eng).list_sessions(se.SessionListParams())).rows
        assert [row.title for row in rows] == ["A title"]
        other = se.SessionCreateParams(cwd=str(tmp_path), title="Another", key="k")
        with pytest.raises(Refusal, match="other parameters"):
            await changes.run("session.create", other, keys)


async def test_a_failed_creation_may_be_repeated(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as eng:
        changes, keys = changes_of(eng), RecentKeys()
        params = se.SessionCreateParams(cwd=str(tmp_path / "later"), key="k")
        for wrong, facts in (
            (params, {"field": "cwd", "nearest": ""}),
            (attrs.evolve(params, cwd="/", agent="bild"), {"field": "agent", "nearest": "build"}),
            (
                attrs.evolve(params, cwd="/", model="antropic/claude"),
                {"error": "UnknownModel", "field": "model", "nearest": "anthropic/claude"},
            ),
        ):
            with pytest.raises(ConfigError) as refused:
                await changes.run("session.create", wrong, keys)
            assert error_of(refused.value).data == {"kind": "config", "retry": "no", "error": "ConfigError", **facts}
        (tmp_path / "later").mkdir()
        assert await changes.run("session.create", params, keys)


@pytest.mark.parametrize("steps", range(12))
async def test_a_creation_cut_off_happens_once(tmp_path: Path, steps: int) -> None:
    """A client whose connection is lost at any moment repeats its request."""
    async with opened(tmp_path / "s.db") as eng:
        changes, keys = changes_of(eng), RecentKeys()
        params = se.SessionCreateParams(cwd=str(tmp_path), title="A title", key="k")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(changes.run, "session.create", params, keys)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel(reason="the connection is lost")
        made = await changes.run("session.create", params, keys)
        assert isinstance(made, se.SessionCreateResult)
        rows = (await EngineReads(eng).list_sessions(se.SessionListParams())).rows
        assert [(row.id, row.title) for row in rows] == [(made.row.id, "A title")]


async def test_keys_of_sessions_survive_a_restart(tmp_path: Path) -> None:
    create = se.SessionCreateParams(cwd=str(tmp_path), title="A title", key="k")
    clock = Clock()

    def restarted() -> Engine:
        model = ScriptedProvider([[*text("one"), *done()]])
        return engine.open_engine(model=model, store=tmp_path / "s.db", ports=Ports(clock=clock))

    async with restarted() as eng:
        changes, keys = changes_of(eng), RecentKeys("owner")
        made = await changes.run("session.create", create, keys)
        assert isinstance(made, se.SessionCreateResult)
        fork = se.SessionForkParams(session_id=made.row.id, key="k")
        forked = await changes.run("session.fork", fork, keys)
        assert isinstance(forked, se.SessionCreateResult)
    clock.time += 3590
    async with restarted() as eng:
        changes, keys = changes_of(eng), RecentKeys("owner")
        again = [await changes.run("session.create", create, keys), await changes.run("session.fork", fork, keys)]
        assert [each.row.id for each in again if isinstance(each, se.SessionCreateResult)] == [
            made.row.id,
            forked.row.id,
        ]
        with pytest.raises(InputConflict):
            other = attrs.evolve(create, cwd="/")
            await changes_of(eng).run("session.create", other, RecentKeys("owner"))
        theirs = await changes.run("session.create", create, RecentKeys("other"))
        assert isinstance(theirs, se.SessionCreateResult)
        assert theirs.row.id != made.row.id
    # A key is kept for an hour.
    clock.time += 20
    async with restarted() as eng:
        later = await changes_of(eng).run("session.create", create, RecentKeys("owner"))
        assert isinstance(later, se.SessionCreateResult)
        assert later.row.id not in {made.row.id, theirs.row.id}


@pytest.mark.parametrize("trouble", ["", "fails", "hangs"])
async def test_results_say_what_is_not_durable(tmp_path: Path, autojump_clock: MockClock, trouble: str) -> None:
    store = SlowStore()
    waiting: list[Answer] = [[Pause(1_000), *text("one"), *done()]]
    settings = Settings(durable_within=1.0)
    async with engine.open_engine(model=ScriptedProvider(waiting), store=store, settings=settings) as eng:
        session = await eng.create_session(cwd=tmp_path)
        turns = changes_of(eng).turns
        store.fails, store.hangs = trouble == "fails", trouble == "hangs"
        prompted = await turns.prompt(tu.PromptParams(session_id=session.id, text="go", key="i-1"))
        steered = await turns.steer(
            tu.SteerParams(session_id=session.id, turn_id=prompted.turn_id, text="left", key="i-2")
        )
        queued = await turns.queue(tu.QueueParams(session_id=session.id, text="then", key="i-3"))
        assert [each.durable for each in (prompted, steered, queued)] == [not trouble] * 3
        store.fails = store.hangs = False
        again = await turns.prompt(tu.PromptParams(session_id=session.id, text="go", key="i-1"))
        assert (again.turn_id, again.durable) == (prompted.turn_id, True)
        # What waits is in each head and snapshot, so it has a limit; what was accepted before has passed it.
        long = tu.QueueParams(session_id=session.id, text="x" * (3 << 20), key="i-4")
        assert await turns.queue(long) == await turns.queue(long)
        for refused in (
            turns.queue(attrs.evolve(long, key="i-5")),
            turns.steer(tu.SteerParams(session_id=session.id, turn_id=prompted.turn_id, text=long.text, key="i-6")),
        ):
            with pytest.raises(Refusal, match="4 MB") as caught:
                await refused
            assert (caught.value.kind, caught.value.facts) == ("too_large", {"limit": 4 << 20})
        store.fails = True
        with pytest.raises(StoreError) as failed:
            await session.rename("A title")
        data = error_of(failed.value).data
        assert isinstance(data, dict)
        assert (data["kind"], data["durable"]) == ("store", False)
        store.fails = False


async def test_busy_names_a_turn_that_is_being_stored(tmp_path: Path, autojump_clock: MockClock) -> None:
    model = ScriptedProvider([[*text("one"), *done()]])
    async with engine.open_engine(model=model, store=SlowStore(delay=2.0)) as eng:
        session = await eng.create_session(cwd=tmp_path)
        turn = eng.start_turn(session, "go")
        params, caller = se.SessionParams(session_id=session.id), Caller("test", Login("owner", "full"))
        # Until its end is in the store, too: then there is nothing to undo.
        is_over = False
        while not is_over:
            await trio.sleep(0.5)
            with pytest.raises((Refusal, SessionError)) as refused:
                await EngineMethods(eng).run("compact.undo", params, caller)
            is_over = isinstance(refused.value, SessionError)
            if isinstance(refused.value, Refusal):
                assert refused.value.facts == {"error": "SessionBusy", "turn_id": turn.id, "status": "busy"}


async def test_a_session_through_its_life(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", "one", "two") as eng:
        changes, keys = changes_of(eng), RecentKeys()
        made = await changes.create(se.SessionCreateParams(cwd=str(tmp_path), key="k"), keys)
        session_id = made.row.id
        queued = await changes.run("queue", tu.QueueParams(session_id=session_id, text="go", key="i-1"), keys)
        again = await changes.run("queue", tu.QueueParams(session_id=session_id, text="go", key="i-1"), keys)
        assert isinstance(queued, tu.QueueResult)
        assert isinstance(again, tu.QueueResult)
        assert (queued.input_id, queued.seq) == (again.input_id, again.seq) == ("i-1", queued.seq)
        session = await eng.open_session(session_id)
        ids: list[str] = []
        async for event in session.subscribe(0):
            if isinstance(event, engine.TurnEnded):
                ids.append(event.turn_id or "")
                break
        (turn_id,) = ids
        waited = await changes.turns.wait(tu.WaitParams(session_id=session_id, turn_id=turn_id))
        assert waited.result is not None
        assert (waited.state, waited.result.text) == ("over", "one")
        with pytest.raises(TurnOver):
            await changes.turns.wait(tu.WaitParams(session_id=session_id, turn_id="none"))
        with pytest.raises(NothingParked):
            await changes.turns.resume(tu.ResumeParams(session_id=session_id, key="k"))
        fork = await changes.fork(se.SessionForkParams(session_id=session_id, key="k"), keys)
        assert fork.row.forked_from == session_id
        undone = await changes.undo(an.UndoParams(session_id=session_id, force=True, key="k"))
        assert [message.text for message in undone.inputs] == ["go"]
        assert (await changes.close(se.SessionParams(session_id=session_id))).released
        with pytest.raises(BadParams):
            await changes.delete(se.SessionDeleteParams(session_id=session_id, confirm="other"))
        removed = await changes.delete(se.SessionDeleteParams(session_id=session_id, confirm=session_id))
        assert removed.ids == (session_id,)
        with pytest.raises(SessionNotFound):
            await changes.delete(se.SessionDeleteParams(session_id=session_id, confirm=session_id))


@attrs.frozen
class Deploy:
    where: str


@engine.tool
async def deploy(arguments: Deploy, _: engine.ToolContext) -> str:
    """Deploy it."""
    return arguments.where


async def test_the_first_of_two_answers_wins(tmp_path: Path) -> None:
    script = [[*call("deploy", {"where": "here"}, id="c1"), *done()], [*text("done"), *done()]]
    async with engine.open_engine(model=ScriptedProvider(script), store=tmp_path / "s.db", tools=[deploy]) as eng:
        changes = changes_of(eng)
        session = await eng.create_session(cwd=tmp_path)
        turn = eng.start_turn(session, "go")
        async for event in turn:
            if isinstance(event, engine.PermissionAsked):
                break
        asked = await EngineReads(eng).questions(an.QuestionListParams())
        (row,) = asked.questions
        params = an.PermissionReplyParams(session_id=session.id, request_id=row.question.request_id, answer="once")
        results: list[object] = []

        async def reply() -> None:
            try:
                results.append(await changes.turns.reply(params))
            except AlreadyAnswered as late:
                results.append(late)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reply)
            nursery.start_soon(reply)
        (won,) = [result for result in results if isinstance(result, an.PermissionReplyResult)]
        (lost,) = [result for result in results if isinstance(result, AlreadyAnswered)]
        assert (won.effect, lost.answer, lost.seq) == ("allowed", "once", won.seq)
        assert (await turn.wait()).text == "done"
        with pytest.raises(RequestNotFound):
            await changes.turns.reply(an.PermissionReplyParams(session_id=session.id, request_id="none", answer="once"))


async def test_a_cancel_names_its_turn(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", "one", "two") as eng:
        changes = changes_of(eng)
        session = await eng.create_session(cwd=tmp_path)
        first = eng.start_turn(session, "first")
        await first.wait()
        second = eng.start_turn(session, "second")
        stale = await changes.turns.cancel(tu.CancelParams(session_id=session.id, turn_id=first.id))
        assert stale.state == "over"
        with pytest.raises(TurnOver):
            await changes.turns.cancel(tu.CancelParams(session_id=session.id, turn_id="none"))
        cancelled = await changes.turns.cancel(tu.CancelParams(session_id=session.id, turn_id=second.id))
        again = await changes.turns.cancel(tu.CancelParams(session_id=session.id, turn_id=second.id))
        assert cancelled.state == "ending"
        assert again.state in {"ending", "over"}
        assert (await second.wait()).stop_reason == "aborted"
        with pytest.raises(TurnOver):
            await changes.turns.steer(tu.SteerParams(session_id=session.id, turn_id=second.id, text="late", key="k"))


async def test_a_repeated_prompt_starts_one_turn(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    async with opened(store, "one") as eng:
        changes, keys = changes_of(eng), RecentKeys()
        session = await eng.create_session(cwd=tmp_path)
        params = tu.PromptParams(session_id=session.id, text="go", key="i-1", settings=se.TurnSettings(steps=3))
        results: list[object] = []

        async def prompt() -> None:
            results.append(await changes.run("prompt", params, keys))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prompt)
            nursery.start_soon(prompt)
        first = results[0]
        assert isinstance(first, tu.PromptResult)
        assert first == results[1]
        waited = await changes.turns.wait(tu.WaitParams(session_id=session.id, turn_id=first.turn_id))
        assert waited.result is not None
        assert waited.result.text == "one"
        with pytest.raises(InputConflict):
            await changes.turns.prompt(attrs.evolve(params, text="other"))
    # After a restart, too.
    async with opened(store) as eng:
        assert await changes_of(eng).turns.prompt(params) == first


async def test_waiting_input_is_removed(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", "one") as eng:
        changes, reads = changes_of(eng), EngineReads(eng)
        session = await eng.create_session(cwd=tmp_path)
        turn = eng.start_turn(session, "first")
        queued = await changes.turns.queue(tu.QueueParams(session_id=session.id, text="later", key="i-1"))
        head = (await reads.get_session(se.SessionParams(session_id=session.id))).head
        assert [each.input_id for each in head.queue] == [queued.input_id]
        params = tu.QueueRemoveParams(session_id=session.id, input_id="i-1")
        assert (await changes.turns.remove_input(params)).removed
        assert not (await changes.turns.remove_input(params)).removed
        assert (await turn.wait()).text == "one"


async def test_attachments_are_read_and_refused() -> None:
    sent = uploads()
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    (part,) = media_of((tu.Attachment(data=png, name="a"),), sent)
    assert part.media_type == "image/png"
    with pytest.raises(BadParams, match=r"attachments\[1\]"):
        media_of((tu.Attachment(data=png), tu.Attachment(data="%")), sent)
    with pytest.raises(Refusal, match="no such upload"):
        media_of((tu.Attachment(upload="u"),), sent)


def piece(data: bytes, size: int, upload: str | None = None) -> tu.UploadParams:
    return tu.UploadParams(size=size, data=base64.b64encode(data).decode(), upload=upload)


async def test_pieces_of_an_upload_become_one_file(autojump_clock: MockClock) -> None:
    sent = uploads()
    name = sent.receive(piece(b"one ", 7), "c1", 100).upload
    with pytest.raises(Refusal, match="no such upload"):
        sent.data(name)
    for connection, upload in (("c2", name), ("c1", "other")):
        with pytest.raises(Refusal, match="no such upload"):
            sent.receive(piece(b"two", 7, upload), connection, 100)
    assert sent.receive(piece(b"two", 7, name), "c1", 100) == tu.UploadResult(upload=name, received=7)
    sent.drop_unfinished("c1")
    assert sent.data(name) == b"one two"
    with pytest.raises(Refusal, match="no such upload"):
        sent.receive(piece(b"more", 7, name), "c1", 100)
    await trio.sleep(3599)
    assert sent.data(name) == b"one two"
    await trio.sleep(1)
    with pytest.raises(Refusal, match="no such upload"):
        sent.data(name)


async def test_refused_and_unfinished_uploads_leave_nothing(autojump_clock: MockClock) -> None:
    sent = uploads()
    with pytest.raises(Refusal, match="at most 100 bytes"):
        sent.receive(piece(b"a", 101), "c1", 100)
    refused: list[tuple[tu.UploadParams, str]] = [
        (piece(b"bcd", 3), "more than 3 bytes"),
        (tu.UploadParams(size=3, data="%"), "expected base64"),
    ]
    for params, problem in refused:
        name = sent.receive(piece(b"a", 3), "c1", 100).upload
        with pytest.raises((Refusal, BadParams), match=problem):
            sent.receive(attrs.evolve(params, upload=name), "c1", 100)
        with pytest.raises(Refusal, match="no such upload"):
            sent.receive(piece(b"bc", 3, name), "c1", 100)
    ended, silent = (sent.receive(piece(b"a", 3), connection, 100).upload for connection in ("c1", "c2"))
    sent.drop_unfinished("c1")
    assert sent.size == 1
    await trio.sleep(UNFINISHED_SECONDS)
    assert sent.size == 0
    for name, connection in ((ended, "c1"), (silent, "c2")):
        with pytest.raises(Refusal, match="no such upload"):
            sent.receive(piece(b"bc", 3, name), connection, 100)


async def test_attached_uploads_make_room_for_new_ones() -> None:
    sent, half = uploads(), bytes(MOST_BYTES // 2)
    first, second = sent.add(half), sent.add(half)
    with pytest.raises(Refusal, match="too much was uploaded"):
        sent.receive(piece(b"a", 3), "c1", 100)
    assert sent.data(second) == half
    sent.receive(piece(b"a", 3), "c1", 100)
    assert sent.data(first) == half
    with pytest.raises(Refusal, match="no such upload"):
        sent.data(second)


def test_settings_change_only_what_is_set() -> None:
    base = Settings(limits=Limits(steps=5, cost=1.0), agent_depth=3)
    changed = settings_with(base, se.TurnSettings(cost=2.0, auto_compact=False))
    assert changed == Settings(limits=Limits(steps=5, cost=2.0), agent_depth=3, auto_compact=False)
    assert settings_with(base, se.TurnSettings()) == base


async def test_handlers_are_of_the_table(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as eng:
        reads, changes = EngineReads(eng), changes_of(eng)
        assert not set(reads.handlers) & set(changes.handlers())
        assert {*reads.handlers, *changes.handlers()} <= set(METHODS)
