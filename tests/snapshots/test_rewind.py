"""Rewinding to a prompt, and redo: real files, real git or copies, a scripted model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from engine.core.errors import NothingToUndo, UndoConflict
from engine.core.events import TurnUndone
from engine.core.messages import UserMessage
from engine.session.rewind import RewindScope
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.testing.cancellation.trio_internals import seed_scheduler
from tests.conftest import CountRuns
from tests.snapshots.conftest import Project
from tests.snapshots.test_undo import Host, bash, hosted, needs_git, writes
from tests.support.cancel_at import CancelAt


def texts(root: Path) -> Mapping[str, str]:
    return {
        path.name: path.read_text() for path in sorted(root.iterdir()) if path.is_file() and path.name != ".gitignore"
    }


async def play(host: Host) -> str:
    """Three turns: the last two change files. Return the id of the second."""
    await host.turn(prompt="one")
    await host.turn(bash("echo 2 > a.txt"), prompt="two")
    await host.turn(bash("echo 3 > a.txt; echo 3 > b.txt"), prompt="three")
    return (await host.session.files.rewind_points())[1].turn_id


def prompts(host: Host) -> list[str]:
    return [message.text for message in host.session.state.transcript if isinstance(message, UserMessage)]


@needs_git
async def test_points_name_prompts_and_files(repository: Project) -> None:
    async with hosted(repository) as host:
        await play(host)
        points = await host.session.files.rewind_points()
        assert [(point.prompt, point.files, point.has_files) for point in points] == [
            ("one", (), False),
            ("two", ("a.txt",), True),
            ("three", ("a.txt", "b.txt"), True),
        ]


@needs_git
async def test_rewind_and_redo_take_all_turns(repository: Project) -> None:
    async with hosted(repository) as host:
        before = texts(host.root)
        point = await play(host)
        after = texts(host.root)
        rewound = await host.session.files.rewind(point)
        assert (rewound.prompt, rewound.files, len(rewound.turns)) == ("two", ("a.txt", "b.txt"), 2)
        # Both turns ran commands, of whose files nobody knows for sure who changed them: one line says so.
        assert rewound.remarks == (
            "changed while commands of these turns ran, perhaps by another program: a.txt, b.txt",
        )
        assert (texts(host.root), prompts(host)) == (before, ["one"])
        assert (await host.session.files.redo()).files == ("a.txt", "b.txt")
        assert (texts(host.root), prompts(host)) == (after, ["one", "two", "three"])
        # A single undo is redone alone.
        await host.session.files.undo()
        await host.session.files.undo()
        await host.session.files.redo()
        assert prompts(host) == ["one", "two"]


@needs_git
async def test_conversation_alone_leaves_files(repository: Project) -> None:
    async with hosted(repository) as host:
        point = await play(host)
        after = texts(host.root)
        assert (await host.session.files.rewind(point, scope="conversation")).prompt == "two"
        assert (texts(host.root), prompts(host)) == (after, ["one"])
        (host.root / "a.txt").write_text("by the user\n")
        await host.session.files.redo()
        assert prompts(host) == ["one", "two", "three"]
        assert (host.root / "a.txt").read_text() == "by the user\n"


@needs_git
async def test_files_alone_leave_the_conversation(repository: Project) -> None:
    async with hosted(repository) as host:
        before = texts(host.root)
        point = await play(host)
        after = texts(host.root)
        assert (await host.session.files.rewind(point, scope="files")).files == ("a.txt", "b.txt")
        assert (texts(host.root), prompts(host)) == (before, ["one", "two", "three"])
        assert (await host.session.files.redo()).files == ("a.txt", "b.txt")
        assert texts(host.root) == after
        with pytest.raises(NothingToUndo):
            await host.session.files.redo()
        # Undoing the turns then finds the files as they should be.
        await host.session.files.rewind(point, scope="files")
        await host.session.files.rewind(point)
        assert (texts(host.root), prompts(host)) == (before, ["one"])


@needs_git
async def test_conflict_anywhere_prevents_a_rewind(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn(bash("echo 2 > a.txt"), prompt="one")
        (host.root / "a.txt").write_text("by the user\n")
        await host.turn(writes("b.txt", "3\n"), prompt="two")
        now = texts(host.root)
        point = (await host.session.files.rewind_points())[0].turn_id
        for scope in ("both", "files"):
            with pytest.raises(UndoConflict, match=r"a\.txt"):
                await host.session.files.rewind(point, scope=scope)
        assert (texts(host.root), prompts(host)) == (now, ["one", "two"])
        preview = await host.session.files.preview_rewind(point)
        assert preview.conflicts == ("a.txt",)
        assert [(file.path, "-by the user" in file.text) for file in preview.files] == [
            ("a.txt", True),
            ("b.txt", False),
        ]
        assert (await host.session.files.rewind(point, force=True)).files == ("a.txt", "b.txt")
        assert texts(host.root) == {"a.txt": "a\n"}
        assert (await host.session.files.redo()).files == ("a.txt", "b.txt")
        assert texts(host.root) == now


@needs_git
async def test_redo_refuses_what_was_edited_since(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.session.files.rewind(await play(host))
        (host.root / "b.txt").write_text("by the user\n")
        now = texts(host.root)
        with pytest.raises(UndoConflict, match=r"b\.txt"):
            await host.session.files.redo()
        assert (texts(host.root), prompts(host)) == (now, ["one"])


async def test_unknown_turn_is_refused(project: Project) -> None:
    async with hosted(project) as host:
        await host.turn(prompt="one")
        with pytest.raises(NothingToUndo, match="no turn 'other'"):
            await host.session.files.rewind("other")
        (point,) = await host.session.files.rewind_points()
        with pytest.raises(NothingToUndo, match="changed no file"):
            await host.session.files.rewind(point.turn_id, scope="files")


async def cancelled(at: CancelAt, folder: Path, scope: RewindScope, *, is_redo: bool) -> None:
    """Cancel a rewind, or its redo; the same again does the rest."""
    root = folder / "project"
    root.mkdir(parents=True)
    with trio.fail_after(60):
        async with hosted(Project(root, ProjectSnapshots(folder=folder / "kept"))) as host:
            files = host.session.files
            await host.turn(prompt="one")
            await host.turn(writes("a.txt", "2\n"), prompt="two")
            await host.turn(writes("b.txt", "3\n"), prompt="three")
            point = (await files.rewind_points())[1].turn_id
            with nullcontext() if is_redo else at.scope():
                await files.rewind(point, scope=scope)
            if scope == "files" or len(prompts(host)) > 1:
                await files.rewind(point, scope=scope)
            assert texts(root) == ({"a.txt": "2\n", "b.txt": "3\n"} if scope == "conversation" else {})
            with at.scope() if is_redo else nullcontext():
                await files.redo()
            with suppress(NothingToUndo):
                await files.redo()
            assert texts(root) == {"a.txt": "2\n", "b.txt": "3\n"}
            assert prompts(host) == ["one", "two", "three"]
            undone = [event.rewind for event in host.events(TurnUndone) if isinstance(event, TurnUndone)]
            assert set(undone) <= {point}


@pytest.mark.slow
@pytest.mark.parametrize("is_redo", [False, True], ids=["rewind", "redo"])
@pytest.mark.parametrize("scope", ["both", "conversation", "files"])
def test_rewind_cancelled_at_any_step(
    tmp_path: Path, scope: RewindScope, is_redo: bool, is_full: bool, count_runs: CountRuns
) -> None:
    def run(step: int | None) -> CancelAt:
        seed_scheduler(0)
        at = CancelAt(step)
        trio.run(partial(cancelled, at, tmp_path / f"{step}", scope, is_redo=is_redo), instruments=[at])
        return at

    steps = run(None).steps
    runs = range(0, steps, 1 if is_full else max(1, steps // 6))
    for step in runs:
        run(step)
    count_runs(len(runs))
