"""Two sessions and a user work in one folder: an undo takes back what its turn has made, and nothing else.

The turns of both sessions are open at the same time. Each change has a content of its own, so it is known who has made
what is in a file.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs
import hypothesis
import pytest
import trio
from hypothesis import strategies as st

import engine
from engine.core.errors import NothingToUndo, UndoConflict
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import Session
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.call_values import ToolOutput
from engine.tools.tool_context import ToolContext

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="there is no git"),
]

Who = Literal["A", "B", "user"]
NAMES = ("a", "b", "d/c")
SESSIONS: tuple[Who, ...] = ("A", "B")


@attrs.frozen
class Move:
    """Somebody changes, or removes, a file; a tool reports it or not."""

    who: Who
    name: str
    removes: bool
    reports: bool


MOVES = st.lists(
    st.builds(
        Move,
        who=st.sampled_from(["A", "B", "user"]),
        name=st.sampled_from(NAMES),
        removes=st.sampled_from([False, False, False, True]),
        reports=st.booleans(),
    ),
    min_size=2,
    max_size=9,
)


@attrs.frozen
class Act:
    """Change a file."""

    name: str
    content: str | None
    reports: bool


@attrs.frozen
class Pause:
    """Wait."""


@engine.tool
async def act(args: Act, ctx: ToolContext) -> ToolOutput:
    await ctx.to_thread(carry_out, Path(ctx.cwd, args.name), args.content)
    return ToolOutput(text="done", changed=(args.name,) if args.reports else None)


def carry_out(path: Path, content: str | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)


def files_in(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


@attrs.define(eq=False)
class Folder:
    """The folder, who has changed its files since a session's turn began, and what they were before.

    *others* has, for each session, the files of others that differed when it last changed something, *reported* those that
    its calls said that they change, and *left* all files as they were then.
    """

    root: Path
    provider: ScriptedProvider
    kept: Path
    writers: dict[Who, dict[str, list[Who]]] = attrs.field(factory=lambda: {who: {} for who in SESSIONS})
    before: dict[Who, dict[str, str]] = attrs.field(factory=dict[Who, dict[str, str]])
    others: dict[Who, set[str]] = attrs.field(factory=dict[Who, set[str]])
    reported: dict[Who, set[str]] = attrs.field(factory=dict[Who, set[str]])
    put_back: set[str] = attrs.field(factory=set[str])
    left: dict[Who, dict[str, str]] = attrs.field(factory=dict[Who, dict[str, str]])
    ends: dict[str, trio.Event] = attrs.field(factory=dict[str, trio.Event])
    pauses: dict[str, tuple[trio.Event, trio.Event]] = attrs.field(factory=dict[str, tuple[trio.Event, trio.Event]])

    def note(self, who: Who, before: Mapping[str, str]) -> None:
        """Note what *who* has changed just now."""
        if who != "user":
            self.before.setdefault(who, dict(before))
        after = files_in(self.root)
        for name in {name for name in {*before, *after} if before.get(name) != after.get(name)}:
            for session in self.before:
                self.writers[session].setdefault(name, []).append(who)
        if who != "user":
            self.left[who] = after
            mine = self.writers[who].items()
            self.others[who] = {n for n, by in mine if who not in by and after.get(n) != self.before[who].get(n)}

    def check(self, who: Who, before: Mapping[str, str], *, is_done: bool) -> None:
        """Compare the folder after an undo of the turn of *who* with what must have come of it."""
        after = files_in(self.root)
        if not is_done:
            assert after == before
            return
        for name in {*before, *after}:
            writers = self.writers[who].get(name, [])
            if who not in writers:
                assert after.get(name) == before.get(name), f"{name} was taken from {writers}"
            else:
                # What others have changed and changed back is as if they had not.
                is_as_left = before.get(name) == self.left[who].get(name)
                assert set(writers) == {who} or is_as_left or before.get(name) == after.get(name), (
                    f"{name} is of {writers}"
                )
                if set(writers) == {who} and not self.is_doubtful(who, name):
                    assert after.get(name) == self.before[who].get(name), f"{name} was not put back"

    def is_doubtful(self, who: Who, name: str) -> bool:
        """Return whether it is open what an undo does to a file: another session has put it back, or has reported it."""
        if name in self.put_back:
            return True
        others = [names for other, names in self.reported.items() if other != who]
        return name not in self.reported.get(who, ()) and any(name in names for names in others)


async def play(moves: Sequence[Move], root: Path, kept: Path, *, force: bool) -> None:
    folder = Folder(root, ScriptedProvider([]), kept)

    async def pause(args: Pause, ctx: ToolContext) -> str:  # a tool has arguments
        arrived, go = folder.pauses[ctx.session_id]
        arrived.set()
        await go.wait()
        return "go on"

    async with engine.open_engine(
        model=folder.provider,
        tools=(act, engine.tool(read_only=True)(pause)),
        permissions=PermissionOptions(approver=AllowAll()),
        files=FileOptions(snapshots=ProjectSnapshots(folder=kept)),
    ) as eng:
        sessions: dict[Who, Session] = {who: await eng.create_session(cwd=root) for who in SESSIONS}
        async with trio.open_nursery() as nursery:
            for number, move in enumerate(moves):
                content = None if move.removes else f"{move.who}{number}"
                before = files_in(root)
                if move.who == "user":
                    carry_out(root / move.name, content)
                else:
                    await _advance(folder, sessions[move.who], nursery, move, content)
                    if move.reports:
                        folder.reported.setdefault(move.who, set()).add(move.name)
                folder.note(move.who, before)
            for session in sessions.values():
                if session.id in folder.pauses:
                    folder.provider.script = [[*text("Done."), *done()]]
                    folder.provider.requests.clear()
                    folder.pauses[session.id][1].set()
                    with trio.fail_after(60):
                        await folder.ends[session.id].wait()
        for who, session in sessions.items():
            if not force:
                await _undo(folder, who, session)
        if force and "A" in folder.before:
            await _force(folder, sessions["A"])


async def _advance(folder: Folder, session: Session, nursery: trio.Nursery, move: Move, content: str | None) -> None:
    """Let a session make a step that changes a file, and wait in the next one."""
    arguments = {"name": move.name, "content": content, "reports": move.reports}
    answer: Answer = [*call("act", json.loads(json.dumps(arguments)), id="1"), *done("calls")]
    folder.provider.script = [answer, [*call("pause", {}, id="2"), *done("calls")]]
    folder.provider.requests.clear()
    waiting = folder.pauses.get(session.id)
    folder.pauses[session.id] = trio.Event(), trio.Event()
    if waiting is None:
        nursery.start_soon(_run, folder, session)
    else:
        waiting[1].set()
    with trio.fail_after(60):
        await folder.pauses[session.id][0].wait()


async def _run(folder: Folder, session: Session) -> None:
    folder.ends[session.id] = trio.Event()
    result = await session.run("go")
    assert result.stop_reason == "completed"
    folder.ends[session.id].set()


async def _undo(folder: Folder, who: Who, session: Session) -> None:
    before = files_in(folder.root)
    try:
        undone = await session.files.undo()
    except UndoConflict:
        folder.check(who, before, is_done=False)
    except NothingToUndo:
        assert who not in folder.before
    else:
        folder.check(who, before, is_done=True)
        assert all(name in " ".join(undone.remarks) for name in folder.others[who]), undone.remarks
        # What was put back is, for the other session, as if this one had never changed it.
        after = files_in(folder.root)
        for name in {name for name in {*before, *after} if before.get(name) != after.get(name)}:
            folder.put_back.add(name)
            for writers in folder.writers.values():
                writers[name] = [writer for writer in writers.get(name, []) if writer != who]


async def _force(folder: Folder, session: Session) -> None:
    """After an undo by force, and a prompt, all that it has overwritten can be put back."""
    before = files_in(folder.root)
    undone = await session.files.undo(force=True)
    assert files_in(folder.root) == folder.before["A"] or set(folder.writers["A"]) - set(undone.files)
    folder.provider.script = [[*text("Nothing."), *done()]]
    folder.provider.requests.clear()
    await session.run("and now?")
    if undone.files:
        assert set(await session.files.restore(undone.files, turn_id=undone.turn_id)) == set(undone.files)
    assert files_in(folder.root) == before


def run(moves: Sequence[Move], *, force: bool) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "root" / "d").mkdir(parents=True)
        (folder / "root" / "a").write_text("first")
        (folder / "root" / "d" / "c").write_text("first")

        async def main() -> None:
            await play(moves, folder / "root", folder / "kept", force=force)

        trio.run(main)
    finally:
        shutil.rmtree(folder)


def _moves(*moves: str) -> list[Move]:
    """Return moves: `A+a` changes a and reports it, `A.a` does not report it."""
    return [Move("user" if m[0] == "u" else "A" if m[0] == "A" else "B", m[2:], False, m[1] == "+") for m in moves]


@hypothesis.settings(max_examples=25)
@hypothesis.given(MOVES)
@hypothesis.example(_moves("A.a", "u.b", "A.d/c"))
@hypothesis.example(_moves("A+a", "B.b", "A+d/c", "B+b"))
@hypothesis.example(_moves("A.a", "u.a", "A.a"))
@hypothesis.example(_moves("A.a", "B+a", "A.b"))
def test_undo_takes_nothing_from_others(moves: list[Move]) -> None:
    run(moves, force=False)


@hypothesis.settings(max_examples=15)
@hypothesis.given(MOVES)
@hypothesis.example(_moves("A.a", "u.b", "A.a"))
@hypothesis.example(_moves("A+a", "B.a", "u.a"))
def test_forced_undo_can_be_taken_back_later(moves: list[Move]) -> None:
    run(moves, force=True)
