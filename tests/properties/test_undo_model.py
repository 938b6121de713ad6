"""Turns, edits by somebody else, undo, redo: random sequences on real files, against a model of what has to come of them.

The model is a folder as a table of texts. What it says of undo is the whole promise: each file that the turn
changed is put back if it is as the turn has left it; if one is not, nothing is done.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

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
from engine.tools.tool_context import ToolContext
from tests.conftest import Soak

pytestmark = pytest.mark.slow

Files = dict[str, str]
NAMES: tuple[str, ...] = ("a", "b", "d", "d/x", "d/y", "e/f/g")
NAME = st.sampled_from(NAMES).map(str)
CONTENT = st.none() | st.sampled_from("123").map(str)
EDITS: st.SearchStrategy[Mapping[str, str | None]] = st.dictionaries(NAME, CONTENT, max_size=3)
NOTHING: st.SearchStrategy[Mapping[str, str | None]] = st.just(dict[str, str | None]())
ACTIONS: st.SearchStrategy[tuple[str, Mapping[str, str | None]]] = st.one_of(
    st.tuples(st.just("turn"), EDITS),
    st.tuples(st.just("turn"), EDITS),
    st.tuples(st.just("edit"), EDITS),
    st.tuples(st.sampled_from(["undo", "redo"]), NOTHING),
    st.tuples(st.sampled_from(["undo", "redo"]), NOTHING),
)
Action = tuple[str, Mapping[str, str | None]]


@attrs.frozen
class Act:
    """Change files."""

    edits: str


@engine.tool
async def act(args: Act, ctx: ToolContext) -> str:
    await ctx.to_thread(carry_out, Path(ctx.cwd), json.loads(args.edits))
    return "done"


def carry_out(root: Path, edits: Mapping[str, str | None]) -> None:
    """Write or remove files; what is in the way goes."""
    for name, content in edits.items():
        path = root / name
        if content is None:
            if path.is_file():
                path.unlink()
            continue
        for above in reversed(path.relative_to(root).parents[:-1]):
            if (root / above).is_file():
                (root / above).unlink()
        if path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def files_in(root: Path) -> Files:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


@attrs.define
class Model:
    """What has to come of it."""

    files: Files = attrs.field(factory=dict[str, str])
    # Of each turn that counts: what each of its files was before, and after.
    done: list[dict[str, tuple[str | None, str | None]]] = attrs.field(
        factory=list[dict[str, tuple[str | None, str | None]]]
    )
    undone: list[dict[str, tuple[str | None, str | None]]] = attrs.field(
        factory=list[dict[str, tuple[str | None, str | None]]]
    )

    def turn(self, before: Files, after: Files) -> None:
        names = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        self.done.append({name: (before.get(name), after.get(name)) for name in names})
        self.undone.clear()
        self.files = after

    def go(self, way: str) -> bool:
        """Undo or redo; return whether that is possible."""
        source, target = (self.done, self.undone) if way == "undo" else (self.undone, self.done)
        side = 0 if way == "undo" else 1
        changes = source[-1]
        now = dict(self.files)
        for name, sides in changes.items():
            if self.files.get(name) not in sides:
                return False
            now.pop(name, None)
            wanted = sides[side]
            if wanted is not None:
                now[name] = wanted
        if any(other.startswith(f"{name}/") for name in now for other in now):
            return False
        # What an undo finds as it should be is no part of what comes back. What a redo finds so is the turn's again.
        came = {
            name: sides for name, sides in changes.items() if way == "redo" or self.files.get(name) == sides[1 - side]
        }
        self.files = now
        target.append(came)
        source.pop()
        return True


async def play(actions: list[Action], root: Path, kept: Path) -> None:
    model = Model()
    provider = ScriptedProvider([])
    async with engine.open_engine(
        model=provider,
        tools=(act,),
        permissions=PermissionOptions(approver=AllowAll()),
        files=FileOptions(snapshots=ProjectSnapshots(folder=kept)),
    ) as eng:
        session = await eng.create_session(cwd=root)
        lengths = [0]
        for what, edits in actions:
            if what == "turn":
                await _turn(provider, session, edits)
                model.turn(model.files, files_in(root))
                lengths = [*lengths[: len(model.done)], len(session.state.transcript)]
            elif what == "edit":
                carry_out(root, edits)
                model.files = files_in(root)
            else:
                await _go(model, session, what)
            assert files_in(root) == model.files, what
            assert len(session.state.transcript) == lengths[len(model.done)]


async def _turn(provider: ScriptedProvider, session: Session, edits: Mapping[str, str | None]) -> None:
    answer: Answer = [*call("act", {"edits": json.dumps(edits)}, id="1"), *done("calls")]
    provider.script = [answer, [*text("Done."), *done()]]
    provider.requests.clear()
    result = await session.run("go")
    assert result.stop_reason == "completed"


async def _go(model: Model, session: Session, way: str) -> None:
    go = session.files.undo if way == "undo" else session.files.redo
    if not (model.done if way == "undo" else model.undone):
        with pytest.raises(NothingToUndo):
            await go()
    elif model.go(way):
        await go()
    else:
        with pytest.raises(UndoConflict):
            await go()


def run(actions: list[Action]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "root").mkdir()
        trio.run(play, actions, folder / "root", folder / "kept")
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
@hypothesis.settings(max_examples=12)
@hypothesis.given(st.lists(ACTIONS, min_size=3, max_size=8))
@hypothesis.example(
    [("turn", {"d/x": "1"}), ("turn", {"d": "2"}), ("undo", {}), ("undo", {}), ("redo", {}), ("redo", {})]
)
@hypothesis.example(
    [
        ("turn", {"d": "1"}),
        ("turn", {"d": None}),
        ("edit", {"d/x": "3"}),
        ("undo", {}),
        ("edit", {"d/x": None}),
        ("undo", {}),
    ]
)
@hypothesis.example([("turn", {"a": "1"}), ("edit", {"a": None}), ("undo", {}), ("redo", {}), ("undo", {})])
def test_undo_and_redo_agree_with_the_model(actions: list[Action]) -> None:
    run(actions)


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_soak_undo_and_redo(soak: Soak) -> None:
    for seed in soak.seeds(at_least=1):

        @hypothesis.seed(seed)
        @hypothesis.settings(max_examples=30 if soak.seconds else 3, database=None)
        @hypothesis.given(st.lists(ACTIONS, min_size=4, max_size=20))
        def check(actions: list[Action]) -> None:
            run(actions)

        check()
