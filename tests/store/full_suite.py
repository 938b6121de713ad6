"""What a store promises beyond the port of the turn: leases, lists, search, retention, watching, remembering."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import SessionElsewhere, StoreError
from engine.core.events import (
    Durable,
    HistoryReplaced,
    InputAdmitted,
    PartDiscarded,
    PermissionAnswered,
    PermissionAsked,
    PromptBlocked,
    SessionTitled,
    StepEnded,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from engine.core.ids import CallId, InputId, MessageId, PartId, RequestId, SessionId, TurnId
from engine.core.messages import TextPart, Usage, UserMessage
from engine.journal.fold import fold
from engine.journal.partial_output import DraftStore
from engine.store.database import DatabaseStore
from engine.store.store_protocols import FullStore, SessionQuery, SessionRow, Spending, SpendingKind, SpendingQuery
from engine.store.write_commands import DeleteSession
from tests.store.journals import BEGIN, MODEL, STEP_USAGE, A, B, created, noted, notes, numbered, session, turn
from tests.store.suite import StoreSuite

C = SessionId("ses_c")
CHILD = SessionId("ses_child")


def drafted(session_id: SessionId, part_id: str, offset: int, text: str) -> TextDelta:
    return TextDelta(
        session_id=session_id,
        path=(session_id,),
        message_id=MessageId("m"),
        part_id=PartId(part_id),
        after=2,
        offset=offset,
        text=text,
    )


class FullPlace(Protocol):
    """Where several stores keep the same sessions, also at the same time."""

    async def open(self) -> FullStore:
        """Open one more store there."""
        ...


async def put_all(store: FullStore, *journals: Sequence[Durable]) -> None:
    for journal in journals:
        for event in journal:
            store.put(event)
        await store.flushed(journal[-1].session_id, journal[-1].seq or 0)


async def ids(store: FullStore, query: SessionQuery | None = None) -> list[str]:
    return [row.id for row in await store.list_sessions(query or SessionQuery())]


class FullSuite(StoreSuite):
    """A store that can do all of it."""

    @abstractmethod
    def places(self) -> AbstractContextManager[FullPlace]:
        """Make a place which is empty, and is gone after the block."""

    # ---- lists -----------------------------------------------------------------------------

    async def test_row_summarises_the_session(self) -> None:
        with self.places() as place:
            store = await place.open()
            events = session(A, ("Fix the\n parser", "done"), ("And the docs", "done too"), steps=2)
            await put_all(store, events)
            state = fold(events)
            assert list(await store.list_sessions(SessionQuery())) == [
                SessionRow(
                    id=A,
                    parent_id=None,
                    root_id=A,
                    title="Fix the parser",
                    cwd="/home/dev/project",
                    model=MODEL,
                    created=BEGIN + 1,
                    updated=BEGIN + len(events),
                    seq=len(events),
                    messages=6,
                    turns=2,
                    status="idle",
                    stop_reason="completed",
                    usage=state.usage,
                    cost=state.cost,
                    holder="here",
                )
            ]
            await store.aclose()

    async def test_newest_come_first_page_by_page(self) -> None:
        with self.places() as place:
            store = await place.open()
            names = [SessionId(f"ses_{number:02}") for number in range(25)]
            # Some have the same time: the order is still one.
            await put_all(store, *(session(name, ("hi", "ho"), at=BEGIN + n // 3) for n, name in enumerate(names)))
            seen: list[SessionRow] = []
            while page := await store.list_sessions(SessionQuery(limit=4, before=seen[-1] if seen else None)):
                seen += page
            assert [row.id for row in seen] == names[::-1]
            await store.aclose()

    async def test_children_and_folders_are_listed_separately(self) -> None:
        with self.places() as place:
            store = await place.open()
            await put_all(store, session(A, cwd="/a"), session(B, cwd="/b"), session(CHILD, cwd="/a", parent=A))
            assert sorted(await ids(store)) == [A, B]
            assert await ids(store, SessionQuery(cwd="/a")) == [A]
            assert await ids(store, SessionQuery(parent_id=A)) == [CHILD]
            assert await ids(store, SessionQuery(parent_id=B)) == []
            assert await ids(store, SessionQuery(id=CHILD)) == [CHILD]
            assert await ids(store, SessionQuery(id=A, cwd="/a")) == [A]
            assert await ids(store, SessionQuery(id=SessionId("none"))) == []
            (child,) = await store.list_sessions(SessionQuery(parent_id=A))
            assert (child.parent_id, child.root_id) == (A, A)
            await store.aclose()

    async def test_host_counts_may_be_anything(self) -> None:
        usage = Usage(input=2**70, output=-(2**70), cache_read=2**63)
        step = list(turn(1, "hi", "ho"))[:-2]
        ended = StepEnded(
            step=1,
            message_id=MessageId("m1.1"),
            results_id=MessageId("r"),
            finish="stop",
            usage=usage,
            cost=float("nan"),
        )
        events = numbered([created(), *step, ended], A)
        with self.places() as place:
            store = await place.open()
            await put_all(store, events)
            (row,) = await store.list_sessions(SessionQuery())
            assert (row.seq, row.cost, row.usage.output) == (len(events), 0.0, 0)
            assert row.usage.input == row.usage.cache_read > 2**40
            await store.aclose()

    async def test_status_follows_the_session(self) -> None:
        turn_id = TurnId("t")
        started: list[Durable] = [created(), TurnStarted(turn_id=turn_id)]
        request = PermissionAsked(
            request_id=RequestId("r"), call_id=CallId("c"), tool="bash", permission="bash", patterns=()
        )
        answered = PermissionAnswered(request_id=RequestId("r"), answer="once")
        with self.places() as place:
            store = await place.open()
            await put_all(store, numbered(started, A))
            assert (await store.list_sessions(SessionQuery()))[0].status == "busy"
            await put_all(store, numbered([request], A, after=2))
            assert (await store.list_sessions(SessionQuery()))[0].status == "waiting"
            await put_all(store, numbered([answered, request], A, after=3))
            assert (await store.list_sessions(SessionQuery()))[0].status == "waiting"
            await put_all(store, numbered([answered], A, after=5))
            assert (await store.list_sessions(SessionQuery()))[0].status == "busy"
            other = await place.open()
            (row,) = await other.list_sessions(SessionQuery())
            assert (row.status, row.holder) == ("busy", "elsewhere")
            await store.aclose()
            (row,) = await other.list_sessions(SessionQuery())
            assert (row.status, row.holder) == ("interrupted", "nobody")
            await other.aclose()

    def test_rows_are_equal_for_any_batches(self) -> None:
        """What is found in a batch, and in many, is one thing; and the sums agree with the fold."""

        @given(
            words=st.lists(st.sampled_from(["", " ", "fix it", "look\x00here", "\ud800?", "語を書く"]), max_size=4),
            cuts=st.lists(st.integers(0, 60), max_size=5),
            blocked=st.none() | st.integers(1, 4),
        )
        def check(words: list[str], cuts: list[int], blocked: int | None) -> None:
            events: list[Durable] = [created()]
            for number, said in enumerate(words, 1):
                events += turn(number, said, f"answer to {said}", steps=2)
            if blocked is not None and blocked <= len(words):
                events.append(PromptBlocked(message_id=MessageId(f"u{blocked}"), source="hook", reason="no"))
            journal = numbered(events, A)
            with self.places() as place:
                rows = [trio.run(_row_of, place, journal, at) for at in ([], sorted({*cuts}))]
            assert rows[0] == rows[1]
            state = fold(journal)
            assert (rows[0].seq, rows[0].usage, rows[0].turns) == (state.seq, state.usage, state.turns)
            assert rows[0].cost == pytest.approx(state.cost)
            results = sum(type(message).__name__ == "ResultsMessage" for message in state.transcript)
            assert rows[0].messages == len(state.transcript) - results

        check()

    # ---- search ----------------------------------------------------------------------------

    async def test_words_are_found_in_messages(self) -> None:
        with self.places() as place:
            store = await place.open()
            await put_all(
                store,
                session(A, ("Why is the parser slow?", "It reads the file twice."), at=BEGIN),
                session(B, ("Überprüfe flushed_seq bitte", "日本語の検索ができます"), at=BEGIN + 100, cwd="/b"),
            )
            cases: dict[str, list[tuple[str, str]]] = {
                "parser slow": [(A, "Why is the \ue000parser\ue001 \ue000slow\ue001?")],
                "SLOW pars": [(A, "Why is the \ue000parser\ue001 \ue000slow\ue001?")],
                "pars slow": [],
                "twice": [(A, "It reads the file \ue000twice\ue001.")],
                "uberpruf": [(B, "\ue000Überprüfe\ue001 flushed_seq bitte")],
                "flushed_seq": [(B, "Überprüfe \ue000flushed_seq\ue001 bitte")],
                "seq": [(B, "Überprüfe flushed_\ue000seq\ue001 bitte")],
                "検索": [(B, "日本語の\ue000検索\ue001ができます")],
                'a "quoted* AND (broken NEAR': [],
                "": [],
                "?!": [],
                "parser twice": [],  # in one session, but not in one text
            }
            for words, expected in cases.items():
                assert [(hit.session.id, hit.snippet) for hit in await store.search(words)] == expected, words
            assert [hit.session.id for hit in await store.search("bitte", cwd="/b")] == [B]
            assert [hit.session.id for hit in await store.search("bitte", cwd="/home/dev/project")] == []
            await store.aclose()

    async def test_one_hit_per_session_newest_first(self) -> None:
        with self.places() as place:
            store = await place.open()
            await put_all(
                store, session(A, ("needle one", "-"), ("needle two", "-")), session(B, ("needle three", "-"))
            )
            hits = await store.search("needle")
            assert [(hit.session.id, hit.snippet, hit.role, hit.seq) for hit in hits] == [
                (B, "\ue000needle\ue001 three", "user", 2),
                (A, "\ue000needle\ue001 two", "user", 10),
            ]
            assert [hit.session.id for hit in await store.search("needle", limit=1)] == [B]
            await store.aclose()

    async def test_searches_and_lists_are_consistent_snapshots(self) -> None:
        with self.places() as place:
            ours, theirs = await place.open(), await place.open()
            names = [SessionId(f"ses_{number}") for number in range(10)]
            rounds = 0

            async def come_and_go() -> None:
                for _ in range(15):
                    await ours.import_sessions([session(name, ("parser", "parser")) for name in names])
                    for name in names:
                        await ours.delete(name)
                nursery.cancel_scope.cancel(reason="done")

            async def look() -> None:
                nonlocal rounds
                while True:
                    found = sorted((hit.session.id for hit in await theirs.search("parser")), key=names.index)
                    # Those that are there are the last ones of an import, which is whole.
                    assert found == names[len(names) - len(found) :]
                    rounds += 1

            async with trio.open_nursery() as nursery:
                nursery.start_soon(come_and_go)
                nursery.start_soon(look)
            assert rounds > 5
            await ours.aclose()
            await theirs.aclose()

    async def test_undone_messages_are_not_found(self) -> None:
        ended = StepEnded(
            step=1,
            message_id=MessageId("m2.1"),
            results_id=MessageId("r"),
            finish=None,
            usage=Usage(),
            cost=0,
            kept=False,
        )
        discarded = PartDiscarded(message_id=MessageId("m1.1"), part_id=PartId("m1.1.text"), reason="provider_retry")
        blocked = PromptBlocked(message_id=MessageId("u1"), source="hook", reason="secret")
        with self.places() as place:
            store = await place.open()
            events = session(A, ("alpha", "beta"), ("gamma", "delta"))
            await put_all(store, events)
            count = len(events)
            taken_back: list[Durable] = [discarded, blocked, ended]
            for number, event in enumerate(taken_back, 1):
                await put_all(store, numbered([event], A, after=count + number - 1))
            found = {word: len(await store.search(word)) for word in ("alpha", "beta", "gamma", "delta")}
            assert found == {"alpha": 0, "beta": 0, "gamma": 1, "delta": 0}
            assert (await store.list_sessions(SessionQuery()))[0].title == "gamma"
            await store.aclose()

    async def test_engine_reports_are_not_the_users_words(self) -> None:
        part = TextPart(id=PartId("p"), text="the kraken was found")
        message = UserMessage(id=MessageId("r1"), parts=(part,), origin="engine", display="a report of krakens")
        report = InputAdmitted(input_id=InputId("i"), mode="steer", message=message)
        with self.places() as place:
            store = await place.open()
            (first, *others) = session(A, ("alpha", "beta"))
            await put_all(store, numbered([first, report, *others], A))
            assert [len(await store.search(word)) for word in ("kraken", "krakens", "alpha")] == [0, 0, 1]
            assert (await store.list_sessions(SessionQuery()))[0].title == "alpha"
            await store.aclose()

    # ---- titles, origins -------------------------------------------------------------------

    async def test_set_title_replaces_the_first_prompt(self) -> None:
        with self.places() as place:
            store = await place.open()
            await put_all(store, session(A, ("Fix the parser", "done")))
            seq = len(session(A, ("Fix the parser", "done")))
            steps: list[tuple[SessionTitled, str, str]] = [
                (SessionTitled(title="Parser\n repair", by="model"), "Parser repair", "model"),
                (SessionTitled(title="", by="model", usage=Usage(input=1)), "Parser repair", "model"),
                (SessionTitled(title="Mending", by="user"), "Mending", "user"),
                (SessionTitled(title="Parser again", by="model"), "Mending", "user"),
                (SessionTitled(title="", by="user"), "Fix the parser", "user"),
                (SessionTitled(title="Thorough mending", by="user"), "Thorough mending", "user"),
            ]
            for number, (event, title, by) in enumerate(steps, seq + 1):
                await put_all(store, numbered([event], A, after=number - 1))
                (row,) = await store.list_sessions(SessionQuery())
                assert (row.title, row.titled_by) == (title, by), event
                assert row.first_words == ("" if title == "Fix the parser" else "Fix the parser"), event
            hits = await store.search("mending")
            assert [(hit.session.id, hit.role, hit.snippet) for hit in hits] == [
                (A, "title", "Thorough \ue000mending\ue001")
            ]
            assert [hit.role for hit in await store.search("repair")] == []
            await store.aclose()

    async def test_title_survives_undone_messages(self) -> None:
        blocked = PromptBlocked(message_id=MessageId("u1"), source="hook", reason="no")
        with self.places() as place:
            store = await place.open()
            events = session(A, ("secret words", "-"))
            titled = SessionTitled(title="Kept", by="user")
            await put_all(store, events, numbered([titled, blocked], A, after=len(events)))
            await put_all(store, session(B, ("secret words", "-")))
            await put_all(store, numbered([blocked], B, after=len(events)))
            assert {row.id: row.title for row in await store.list_sessions(SessionQuery())} == {A: "Kept", B: ""}
            assert [hit.session.id for hit in await store.search("kept")] == [A]
            await store.aclose()

    async def test_fork_names_its_origin_and_history(self) -> None:
        messages = fold(session(A, ("Fix the parser", "I mended it"), steps=2)).transcript[:]
        begun: list[Durable] = [
            attrs.evolve(created(), forked_from=A, agent="plan"),
            HistoryReplaced(kind="fork", messages=messages),
        ]
        with self.places() as place:
            store = await place.open()
            await put_all(store, numbered(begun, B))
            (row,) = await store.list_sessions(SessionQuery())
            assert (row.forked_from, row.agent, row.title, row.messages) == (A, "plan", "Fix the parser", 3)
            assert [(hit.session.id, hit.role) for hit in await store.search("mended")] == [(B, "assistant")]
            await store.aclose()

    async def test_ids_are_found_by_prefix(self) -> None:
        with self.places() as place:
            store = await place.open()
            await put_all(store, session(B), session(A), session(CHILD, parent=A))
            assert list(await store.ids()) == [A, B, CHILD]
            assert list(await store.ids("ses_c")) == [CHILD]
            assert list(await store.ids(A)) == [A]
            assert list(await store.ids("x")) == list(await store.ids("ses_\ud800")) == []
            await store.aclose()

    # ---- taking sessions in ------------------------------------------------------------------

    async def test_import_is_all_or_nothing(self) -> None:
        root, child = session(A, ("one", "done"), steps=2), session(CHILD, ("two", "done"), parent=A)
        with self.places() as place:
            store = await place.open()
            await put_all(store, session(B, ("three", "-")))
            with pytest.raises(StoreError, match="session ses_b can't be imported: it exists already"):
                await store.import_sessions([root, child, session(B, ("four", "-"))])
            assert list(await store.ids()) == [B]
            await store.import_sessions([root, child])
            assert [list(await store.load(name)) for name in (A, CHILD)] == [root, child]
            (row,) = await store.list_sessions(SessionQuery(parent_id=A))
            assert (row.id, row.title, row.holder) == (CHILD, "two", "nobody")
            assert [hit.session.id for hit in await store.search("one")] == [A]
            assert (await store.spending(SpendingQuery()))[0].steps == 4
            # It is gone on with as any other; and who holds one keeps it.
            await put_all(store, numbered(list(turn(9, "more", "-")), A, after=len(root)))
            with pytest.raises(StoreError, match="already"):
                await store.import_sessions([root])
            await put_all(store, numbered(list(turn(10, "more", "-")), A, after=len(root) + 8))
            other = await place.open()
            await store.claim(C)
            with pytest.raises(StoreError, match="open in another engine"):
                await other.import_sessions([session(C, ("five", "-"))])
            await other.aclose()
            await store.aclose()

    async def test_cancelled_import_is_all_or_nothing(self) -> None:
        with self.places() as place:
            store = await place.open()
            taken = number = 0
            # Until one is: however long that takes on a machine that has much to do.
            while number < 40 or not taken:
                names = [SessionId(f"ses_{number}.{n}") for n in range(3)]
                with trio.move_on_after(number * 0.0002):
                    await store.import_sessions([session(name, ("one", "-"), steps=9) for name in names])
                # What comes later in the writer's queue is done later.
                await put_all(store, [noted(B, number + 1)])
                found = list(await store.ids(f"ses_{number}."))
                assert found in ([], names)
                taken += bool(found)
                number += 1
            assert taken < number
            await store.aclose()

    # ---- what was spent --------------------------------------------------------------------

    async def test_spending_is_summed_by_every_kind(self) -> None:
        day = 86_400.0
        start = BEGIN // day * day
        dear = attrs.evolve(created(cwd="/b"), model="openai/gpt-5")
        other = [
            attrs.evolve(event, model="openai/gpt-5") if isinstance(event, StepStarted) else event
            for event in turn(1, "in b", "-")
        ]
        titled = SessionTitled(title="Made up", by="model", model="small", usage=Usage(input=7, output=3), cost=0.125)
        with self.places() as place:
            store = await place.open()
            await put_all(
                store,
                session(A, ("in a", "-"), steps=2, at=start + 100, cwd="/a"),
                session(CHILD, ("for a", "-"), at=start + 200, parent=A, cwd="/elsewhere"),
                numbered([dear, *other, titled], B, at=start + day - 3),
            )
            step = STEP_USAGE
            three = step + step + step
            beside = Usage(input=7, output=3)

            async def by(kind: SpendingKind, since: float | None = None, until: float | None = None) -> list[Spending]:
                return list(await store.spending(SpendingQuery(by=kind, since=since, until=until)))

            assert await by("total") == [Spending(key="", sessions=2, steps=4, usage=three + step + beside, cost=1.125)]
            assert await by("model") == [
                Spending(key=MODEL, sessions=1, steps=3, usage=three, cost=0.75),
                Spending(key="openai/gpt-5", sessions=1, steps=1, usage=step, cost=0.25),
                Spending(key="small", sessions=1, usage=beside, cost=0.125),
            ]
            assert await by("folder") == [
                Spending(key="/a", sessions=1, steps=3, usage=three, cost=0.75),
                Spending(key="/b", sessions=1, steps=1, usage=step + beside, cost=0.375),
            ]
            assert await by("session") == [
                Spending(key=A, name="in a", sessions=1, steps=3, usage=three, cost=0.75),
                Spending(key=B, name="Made up", sessions=1, steps=1, usage=step + beside, cost=0.375),
            ]
            for chosen, steps in (((A,), {A: 3}), ((B, A), {A: 3, B: 1}), ((CHILD,), {}), ((), {})):
                some = await store.spending(SpendingQuery(by="session", of=chosen))
                assert {row.key: row.steps for row in some} == steps
            (of_one,) = await store.spending(SpendingQuery(of=(B,)))
            assert of_one == Spending(key="", sessions=1, steps=1, usage=step + beside, cost=0.375)
            assert [(row.key, row.steps) for row in await by("day")] == [("2023-11-14", 3), ("2023-11-15", 1)]
            assert [(row.key, row.steps) for row in await by("day", since=start + day)] == [("2023-11-15", 1)]
            assert [(row.key, row.steps) for row in await by("day", until=start + day)] == [("2023-11-14", 3)]
            # Where clocks are ahead by an hour, and by two from some day on.
            ahead = await store.spending(SpendingQuery(by="day", clock=((start - day, 3600), (start + day, 7200))))
            assert [(row.key, row.steps) for row in ahead] == [("2023-11-14", 3), ("2023-11-15", 1)]
            behind = await store.spending(SpendingQuery(by="day", clock=((0.0, -3600),)))
            assert [(row.key, row.steps) for row in behind] == [("2023-11-13", 3), ("2023-11-14", 1)]
            await store.aclose()

    async def test_deleted_spending_is_anonymous(self) -> None:
        with self.places() as place:
            store = await place.open()
            await put_all(store, session(A, ("one", "-"), cwd="/a"), session(CHILD, ("two", "-"), parent=A))
            await put_all(store, session(B, ("three", "-"), cwd="/b"))
            before = [
                (row.key, row.steps, row.usage, row.cost) for row in await store.spending(SpendingQuery(by="model"))
            ]
            await store.aclose()
            store = await place.open()
            await store.delete(A)
            after = await store.spending(SpendingQuery(by="model"))
            assert [(row.key, row.steps, row.usage, row.cost) for row in after] == before
            assert [row.sessions for row in after] == [1]
            folders = await store.spending(SpendingQuery(by="folder"))
            assert [(row.key, row.sessions, row.steps) for row in folders] == [("", 0, 2), ("/b", 1, 1)]
            await store.aclose()

    def test_spending_is_equal_for_any_batches(self) -> None:
        @settings(max_examples=25)
        @given(cuts=st.lists(st.integers(0, 60), max_size=5), steps=st.integers(1, 4))
        def check(cuts: list[int], steps: int) -> None:
            events = [
                created(),
                *turn(1, "one", "-", steps=steps),
                SessionTitled(title="x", by="user"),
                *turn(2, "two", "-"),
                SessionTitled(title="y", by="model"),
            ]
            journal = numbered(events, A)
            found: list[list[list[Spending]]] = []
            for at in ([], sorted({*cuts})):
                # What was spent outlives what is deleted, so each has a place of its own.
                with self.places() as place:
                    found.append(trio.run(_spending_of, place, journal, at))
            assert found[0] == found[1]
            state = fold(journal)
            assert [(row.usage, row.cost) for row in found[0][0]] == [(state.usage, state.cost)]

        check()

    # ---- leases ----------------------------------------------------------------------------

    async def test_session_is_open_in_one_engine(self) -> None:
        with self.places() as place:
            ours, theirs = await place.open(), await place.open()
            await ours.claim(A)
            await ours.claim(A)
            with pytest.raises(SessionElsewhere) as caught:
                await theirs.claim(A)
            assert (caught.value.session_id, caught.value.pid > 0, caught.value.until > 0) == (A, True, True)
            ours.release(A)
            ours.release(B)
            await put_all(ours, notes(B, 1))
            await theirs.claim(A)
            await theirs.aclose()
            await ours.claim(A)
            await ours.aclose()

    async def test_putting_claims_and_later_engines_write_nothing(self) -> None:
        with self.places() as place:
            ours, theirs = await place.open(), await place.open()
            await put_all(ours, notes(A, 3))
            theirs.put(noted(A, 4, "an intruder"))
            await put_all(theirs, notes(B, 2))
            with pytest.raises(StoreError, match="open in another engine"):
                await theirs.flushed(A, 4)
            with pytest.raises(StoreError, match="open in another engine"):
                theirs.put(noted(A, 5, "an intruder"))
            with pytest.raises(SessionElsewhere):
                await theirs.claim(A)
            await put_all(ours, notes(A, 2, after=3))
            assert list(await theirs.load(A)) == notes(A, 5)
            await ours.aclose()
            # It is free now; a claim makes good what was refused.
            await theirs.claim(A)
            await put_all(theirs, notes(A, 2, after=5))
            assert list(await theirs.load(A)) == notes(A, 7)
            await theirs.aclose()

    async def test_lost_session_cannot_be_continued_from_memory(self) -> None:
        with self.places() as place:
            ours, theirs = await place.open(), await place.open()
            await put_all(ours, notes(A, 3))
            ours.release(A)
            await put_all(ours, notes(B, 1))
            await put_all(theirs, notes(A, 2, after=3))
            theirs.release(A)
            await put_all(theirs, notes(C, 1))
            ours.put(noted(A, 4, "doubled"))
            with pytest.raises(StoreError, match="open it again"):
                await ours.flushed(A, 4)
            assert list(await ours.load(A)) == notes(A, 5)
            await ours.aclose()
            await theirs.aclose()

    async def test_neither_gap_nor_duplicate_is_written(self) -> None:
        with self.places() as place:
            store = await place.open()
            await put_all(store, notes(A, 2), notes(B, 2))
            store.put(noted(A, 4))
            store.put(noted(B, 2))
            await put_all(store, notes(C, 1))
            for session_id, seq in ((A, 4), (B, 2)):
                with pytest.raises(StoreError, match="open it again"):
                    store.put(noted(session_id, seq + 1))
            with pytest.raises(StoreError, match="open it again"):
                await store.flushed(A, 4)
            assert list(await store.load(A)) == notes(A, 2)
            assert list(await store.load(B)) == notes(B, 2)
            await store.aclose()

    async def test_release_waits_for_earlier_events(self) -> None:
        with self.places() as place:
            ours, theirs = await place.open(), await place.open()
            for event in notes(A, 500):
                ours.put(event)
            ours.release(A)
            await ours.flushed(A, 500)
            assert list(await theirs.load(A)) == notes(A, 500)
            await put_all(theirs, notes(A, 1, after=500))
            await ours.aclose()
            await theirs.aclose()

    async def test_cancelled_claim_holds_nothing(self) -> None:
        with self.places() as place:
            ours, theirs = await place.open(), await place.open()
            cancelled = 0
            for number in range(60):
                name = SessionId(f"ses_{number}")
                with trio.move_on_after(number * 0.00005) as scope:
                    await ours.claim(name)
                cancelled += scope.cancelled_caught
                if not scope.cancelled_caught:
                    ours.release(name)
                await put_all(ours, [noted(B, number + 1)])
                await theirs.claim(name)
            assert cancelled > 1
            await ours.aclose()
            await theirs.aclose()

    async def test_invalid_name_harms_no_other_session(self) -> None:
        with self.places() as place:
            store = await place.open()
            for odd in (SessionId("\ud800"), SessionId("a\x00b")):
                for ask in (store.claim, store.load, store.open_session, store.delete):
                    with pytest.raises(StoreError, match="there is no session"):
                        await ask(odd)
                with pytest.raises(StoreError, match="there is no session"):
                    await store.wait_for_events(odd, 0)
                store.release(odd)
                store.put(noted(odd, 1))
                with pytest.raises(StoreError, match="nothing more of session"):
                    await store.flushed(odd, 1)
            await put_all(store, notes(A, 1))
            await store.aclose()

    # ---- watching --------------------------------------------------------------------------

    async def test_other_engines_events_are_seen(self) -> None:
        with self.places() as place:
            ours, theirs = await place.open(), await place.open()
            seen: list[Durable] = []

            async def watch() -> None:
                while len(seen) < 30:
                    seen.extend(await theirs.wait_for_events(A, len(seen)))

            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(watch)
                    for seq in range(1, 31, 5):
                        await put_all(ours, notes(A, 5, after=seq - 1))
                        await trio.sleep(0.02)
            assert seen == notes(A, 30)
            await ours.aclose()
            await theirs.aclose()

    # ---- remembering -----------------------------------------------------------------------

    async def test_session_is_opened_with_its_fold(self) -> None:
        with self.places() as place:
            store = await place.open()
            assert await store.open_session(A) is None
            turns = [(f"question {n}", f"answer {n}") for n in range(150)]
            events = session(A, *turns, steps=2)
            await put_all(store, events)
            for _ in range(3):  # folded; remembered; gone on with
                opened = await store.open_session(A)
                assert opened is not None
                assert opened.state == fold(events)
                assert opened.events == events
                assert list(opened.events.of_type(TurnEnded)) == [e for e in events if isinstance(e, TurnEnded)]
                more = numbered(list(turn(1000 + len(events), "more", "done")), A, after=len(events))
                await put_all(store, more)
                events += more
            await store.aclose()

    async def test_saved_state_is_used(self) -> None:
        with self.places() as place:
            store = await place.open()
            events = session(A, *[("question", "answer")] * 300)
            await put_all(store, events)
            # Not the fold: only so can be seen where it came from.
            state = attrs.evolve(fold(events), model="remembered")
            store.save_state(state)
            more = numbered(list(turn(1000, "more", "done")), A, after=len(events))
            await put_all(store, more)
            await store.aclose()
            again = await place.open()
            opened = await again.open_session(A)
            assert opened is not None
            assert opened.state == fold(more, state)
            await again.aclose()

    async def test_lost_session_saves_no_unwritten_state(self) -> None:
        with self.places() as place:
            ours, theirs = await place.open(), await place.open()
            events = session(A, *[("question", "answer")] * 300)
            await put_all(ours, events)
            ours.release(A)
            await put_all(ours, notes(B, 1))
            more = numbered(list(turn(1000, "theirs", "done")) * 2, A, after=len(events))
            await put_all(theirs, more)
            # We went on with what we knew, and none of it is in the store; theirs is longer.
            refused = numbered(list(turn(1000, "doubled", "done")), A, after=len(events))
            with pytest.raises(StoreError, match="open in another engine"):
                await put_all(ours, refused)
            ours.save_state(fold([*events, *refused]))
            await ours.aclose()
            await theirs.aclose()
            again = await place.open()
            opened = await again.open_session(A)
            assert opened is not None
            assert opened.state == fold([*events, *more])
            await again.aclose()

    # ---- drafts ----------------------------------------------------------------------------

    async def test_drafts_last_until_their_part_ends(self) -> None:
        with self.places() as place:
            store = await place.open()
            assert isinstance(store, DraftStore)
            await put_all(store, notes(A, 2), notes(B, 2))
            first, second, third = (
                drafted(A, "p1", 0, "one "),
                drafted(A, "p1", 4, "two"),
                drafted(A, "p2", 0, "é\ud83d"),
            )
            for delta in (first, second, third, drafted(B, "p1", 0, "theirs")):
                store.save_draft(delta)
            assert list(await store.drafts(A)) == [first, second, third]
            store.delete_drafts(A, PartId("p1"))
            assert list(await store.drafts(A)) == [third]
            await store.aclose()
            again = await place.open()
            assert isinstance(again, DraftStore)
            assert list(await again.drafts(A)) == [third]
            assert await again.delete(A) == (A,)
            assert list(await again.drafts(A)) == []
            assert [delta.text for delta in await again.drafts(B)] == ["theirs"]
            await again.aclose()

    async def test_drafts_are_deleted_with_their_session(self) -> None:
        with self.places() as place:
            store = await place.open()
            assert isinstance(store, DatabaseStore)
            await put_all(store, notes(A, 1), notes(B, 1))
            for session_id in (A, B):
                store.save_draft(drafted(session_id, "p1", 0, "what nobody is to read again"))
            store.release(A)
            # As far as one gets that is killed right after it.
            await store._run_commands([DeleteSession(A)])
            assert list(await store.drafts(A)) == []
            assert len(await store.drafts(B)) == 1
            await store.aclose()

    async def test_engine_without_its_session_saves_no_drafts(self) -> None:
        with self.places() as place:
            theirs, ours = await place.open(), await place.open()
            assert isinstance(ours, DraftStore)
            await put_all(theirs, notes(A, 2))
            ours.save_draft(drafted(A, "p1", 0, "late"))
            assert list(await ours.drafts(A)) == []
            await ours.aclose()
            await theirs.aclose()

    async def test_session_is_deleted_with_its_children(self) -> None:
        with self.places() as place:
            store = await place.open()
            await put_all(store, session(A, ("one", "-")), session(CHILD, ("two", "-"), parent=A), session(B))
            with pytest.raises(SessionElsewhere):
                await store.delete(A)
            await store.aclose()
            store = await place.open()
            assert sorted(await store.delete(A)) == [A, CHILD]
            assert list(await store.delete(A)) == []
            assert await ids(store) == [B]
            assert [list(await store.load(name)) for name in (A, CHILD)] == [[], []]
            assert list(await store.search("one")) == list(await store.search("two")) == []
            # Its name can be used again.
            await put_all(store, session(A, ("three", "-")))
            assert [hit.session.id for hit in await store.search("three")] == [A]
            await store.aclose()

    async def test_old_trees_are_pruned_unless_kept_or_open(self) -> None:
        names = [SessionId(f"ses_{n}") for n in range(60)]
        with self.places() as place:
            store = await place.open()
            await put_all(store, *(session(name, at=BEGIN + 10 * n) for n, name in enumerate(names)))
            # A child keeps its tree young.
            await put_all(store, session(CHILD, parent=names[0], at=BEGIN + 10_000))
            await store.aclose()
            ours, theirs = await place.open(), await place.open()
            await theirs.claim(names[1])
            assert sorted(await ours.list_inactive(older_than=BEGIN + 505)) == sorted(names[1:51])
            gone = await ours.prune(older_than=BEGIN + 505)
            assert sorted(gone) == sorted(names[2:51])
            assert sorted(await ids(ours)) == sorted([names[0], names[1], *names[51:]])
            assert sorted(await ours.prune(older_than=BEGIN + 100_000, keep=5)) == sorted(names[51:56])
            assert sorted(await ids(ours)) == sorted([names[0], names[1], *names[56:]])
            await theirs.aclose()
            assert sorted(await ours.prune(older_than=BEGIN + 100_000)) == sorted(
                [CHILD, names[0], names[1], *names[56:]]
            )
            assert await ids(ours) == []
            await ours.aclose()


async def _row_of(place: FullPlace, journal: Sequence[Durable], cuts: Sequence[int]) -> SessionRow:
    store = await place.open()
    for begin, end in zip([0, *cuts], [*cuts, len(journal)], strict=True):
        if journal[begin:end]:
            await put_all(store, journal[begin:end])
    (row,) = await store.list_sessions(SessionQuery())
    await store.aclose()
    await _empty(place)
    return attrs.evolve(row, holder="nobody")


async def _spending_of(place: FullPlace, journal: Sequence[Durable], cuts: Sequence[int]) -> list[list[Spending]]:
    store = await place.open()
    for begin, end in zip([0, *cuts], [*cuts, len(journal)], strict=True):
        if journal[begin:end]:
            await put_all(store, journal[begin:end])
    kinds: tuple[SpendingKind, ...] = ("total", "day", "model", "folder", "session")
    found = [list(await store.spending(SpendingQuery(by=kind))) for kind in kinds]
    await store.aclose()
    return found


async def _empty(place: FullPlace) -> None:
    store = await place.open()
    assert list(await store.delete(A)) == [A]
    await store.aclose()
