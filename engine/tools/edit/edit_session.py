"""The common part of the tools that change files: plan, ask, plan again, write.

A plan changes nothing. It is made for the permission question, which shows the diff, and again after the answer, from
what the files contain by then: a file that the session has not read, or that has changed since, is not touched. From
the second plan to the writing the files' locks are held, which keeps out the engine's other sessions; `commit` compares
once more, because of other programs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.core.events import SharedContext
from engine.core.permission_types import RequiredRight
from engine.core.threads import to_thread
from engine.files.diff import changes, is_cut
from engine.files.read_state import Modifier, digest, last_read, note_gone, note_read, together
from engine.files.real_path import followed
from engine.files.text_files import (
    BOM,
    TextFile,
    decoded,
    pattern_of_real,
    read_data,
    real_file,
    renamed_errors,
    resolve,
)
from engine.tools.call_values import Need, ToolOutput
from engine.tools.edit.atomic_write import FileChange, commit
from engine.tools.edit.editor_write import change_in_editor, verified
from engine.tools.edit.formatters import EditChecks
from engine.tools.edit.source_text import unix
from engine.tools.editor_files import UnsavedText, unsaved_texts
from engine.tools.search.search_paths import shown_path
from engine.tools.tool_context import EditReviewer, ToolContext
from engine.tools.tool_text import metadata

PERMISSION: Final = "edit"
# Lines of a diff that the model sees.
SHOWN_LINES: Final = 120


@attrs.frozen(kw_only=True)
class SeenFile:
    """A file as it was found: its path as the model wrote it, its real path, its content (None: it does not exist)."""

    shown: str
    path: Path
    data: bytes | None

    def text(self) -> TextFile:
        """Return its text. Raises `ToolError` if it does not exist or is not text."""
        if self.data is None:
            # For the reason: a missing folder, no permission.
            with renamed_errors(self.shown, self.path):
                self.path.stat()
            raise ToolError(f"{self.shown} does not exist.")
        return decoded(self.shown, self.data)


def fitting(seen: SeenFile, content: str) -> TextFile:
    """Return a new text for a file, with the file's byte order mark and line endings.

    A text that contains carriage returns is written unchanged.
    """
    if content.startswith("\ufeff"):
        return TextFile(content[1:], has_bom=True)
    if seen.data is None:
        return TextFile(content, has_bom=False)
    before = seen.text()
    pairs = before.text.count("\r\n")
    if pairs and pairs == before.text.count("\n") and "\r\n" not in content:
        content = content.replace("\n", "\r\n")
    return attrs.evolve(before, text=content)


@attrs.frozen(kw_only=True)
class Revision:
    """The revision of a file.

    Attributes:
        shown: its path as the model wrote it.
        path: its real path.
        before: its content; None: it does not exist yet.
        after: its new content; None: it is deleted.
        moved: its new path as the model wrote it, if it moves.
        target: its new real path.
    """

    shown: str
    path: Path
    before: bytes | None
    after: bytes | None
    moved: str = ""
    target: Path | None = None

    @property
    def place(self) -> Path:
        """Its path after the revision."""
        return self.target or self.path

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """The changes on disk."""
        if self.target is None:
            return (FileChange(shown=self.shown, path=self.path, before=self.before, after=self.after),)
        return (
            FileChange(shown=self.moved, path=self.target, before=None, after=self.after, like=self.path),
            FileChange(shown=self.shown, path=self.path, before=self.before, after=None),
        )

    @property
    def notes(self) -> Modifier:
        """The session's notes on the file after the revision."""
        gone = (note_gone(self.path),) if self.target is not None or self.after is None else ()
        read = () if self.after is None else (note_read(self.place, digest(self.after)),)
        return together(*gone, *read)

    def diff(self, limit: int | None = None) -> str:
        """Return the revision as a unified diff."""
        return _diff(self.shown, self.before, self.after, moved=self.moved, limit=limit)


@attrs.frozen(kw_only=True)
class Plan:
    """The changes that a call makes, and its report.

    Attributes:
        revisions: the revision of each file.
        text: the report for the model.
        summary: the report for clients, in one line.
        facts: further facts for clients.
        has_diff: whether the model sees the diff, or only what formatters changed.
    """

    revisions: tuple[Revision, ...]
    text: str
    summary: str
    facts: Mapping[str, str | float | bool | None] = attrs.field(factory=dict[str, str | float | bool | None])
    has_diff: bool = True


@attrs.frozen
class Basis:
    """The conditions of a plan.

    Attributes:
        shared: the session's notes: files must be as it has read them.
        approved: the real paths that were approved; None: nothing was judged.
        unsaved: what the user's editor holds unsaved, by the real path: it counts instead of what is on disk.
    """

    shared: SharedContext
    approved: frozenset[str] | None = None
    unsaved: Mapping[str, UnsavedText] = attrs.field(factory=dict[str, UnsavedText])


# Makes a plan, or raises `ToolError` if that is impossible.
Planner = Callable[[Basis], Plan]


def look(cwd: str, shown: str, basis: Basis) -> SeenFile:
    """Return the file at a path. It blocks. Raises `ToolError`, also if the file is not as *basis* requires."""
    real = real_file(cwd, shown, basis.approved)
    if shown.endswith("/"):
        raise ToolError(f"{shown} names a folder, not a file.")
    held = basis.unsaved.get(str(real))
    saved = read_data(shown, real) if os.path.lexists(real) else None
    seen = SeenFile(shown=shown, path=real, data=saved if held is None else held.data)
    if seen.data is not None:
        remembered = last_read(basis.shared, real)
        if remembered is None:
            seen.text()  # a binary file is reported as such: reading it first would not help
            raise ToolError(
                f"{shown} exists, but has not been read in this session. Read it first; nothing was changed."
            )
        if remembered != digest(seen.data):
            raise ToolError(f"{shown} has changed since it was last read. Read it again; nothing was changed.")
    return seen


async def need(ctx: ToolContext, names: Sequence[str], plan: Planner, *, otherwise: str) -> Need:
    """Return the right to change files, with the diff, or *otherwise* if it can't be made yet. A checkpoint."""
    # What approves the call comes later, so nothing is approved yet.
    basis = await _basis(ctx, names, None)
    return await ctx.to_thread(_need, ctx.cwd, basis, tuple(names), plan, otherwise)


async def revise(ctx: ToolContext, names: Sequence[str], plan: Planner, around: EditReviewer | None) -> ToolOutput:
    """Plan, and carry the plan out. A checkpoint; if cancelled, nothing was changed, or the report says what was.

    *around* is the tool's own reviewer, used instead of the engine's.
    """
    around = around or ctx.edit_reviewer or EditChecks()
    locks = await ctx.to_thread(_lock_names, ctx.cwd, tuple(names), ctx.approved_paths)
    # In the order in which `hold` sorts them, so that two edits can't wait for each other.
    async with ctx.locks.hold(*locks):
        # Abandoned on cancel: it only reads.
        basis = await _basis(ctx, names, ctx.approved_paths)
        planned = await ctx.to_thread(plan, basis)
        final, notes = await _formatted(planned, around, ctx)
        held = _held(final, basis)
        if held is not None:
            output = await _carry_out_in_editor(ctx, planned, final, notes, held)
        else:
            await ctx.about_to_change(
                *(str(change.path) for revision in final.revisions for change in revision.changes)
            )
            # Not abandoned: a file must not change after the turn's record says that the call was aborted. On a disk
            # that hangs, the turn still ends after the grace period, and the record says that the outcome is not known.
            output = await to_thread(_carry_out, planned, final, notes, abandon_on_cancel=False)
    places = [revision.place for revision in final.revisions if revision.after is not None]
    paths = [place for place in places if around.has_checks(place)]
    if not paths:
        return output
    # A cancel during the diagnostics must not lose the report: the files are changed.
    ctx.progress(output=output.text)
    diagnostics = await around.diagnose(paths, ctx)
    return attrs.evolve(output, text=f"{output.text}\n{diagnostics}") if diagnostics else output


async def _basis(ctx: ToolContext, names: Sequence[str], approved: frozenset[str] | None) -> Basis:
    """Return what a plan is made from. A checkpoint if there is an editor."""
    if ctx.editor is None:
        return Basis(ctx.shared, approved)
    return Basis(ctx.shared, approved, await unsaved_texts(ctx.editor, ctx.cwd, names, approved))


def _held(plan: Plan, basis: Basis) -> UnsavedText | None:
    """Return what the editor holds of the file that a plan changes. Raises `ToolError` if the editor can't carry it out."""
    for revision in plan.revisions:
        held = basis.unsaved.get(str(revision.path))
        if held is None or (revision.after == revision.before and revision.target is None):
            continue
        if len(plan.revisions) > 1 or revision.after is None or revision.target is not None:
            raise ToolError(
                f"{revision.shown} has changes in the user's editor that are not saved. It can only be changed there, by a "
                "call of its own. Nothing was changed."
            )
        return held
    return None


async def _carry_out_in_editor(
    ctx: ToolContext, planned: Plan, final: Plan, notes: tuple[str, ...], held: UnsavedText
) -> ToolOutput:
    """Let the editor make the only change of a plan. A checkpoint; if cancelled, the report says that it may be made."""
    (revision,) = final.revisions
    assert ctx.editor is not None
    assert revision.after is not None
    after = revision.after
    answer = await change_in_editor(ctx.editor, revision.shown, held, after, ctx)

    def report() -> ToolOutput:
        written = verified(revision.shown, held, after, answer)
        done = attrs.evolve(final, revisions=(attrs.evolve(revision, after=written.data),))
        # Not announced to the snapshots, and not reported as changed: with the change, the editor saves what the user
        # wrote, and to undo the turn must not take that away.
        return _report(planned, done, (*notes, *written.notes), ())

    # Not abandoned: it may write.
    return await to_thread(report, abandon_on_cancel=False)


def _lock_names(cwd: str, names: tuple[str, ...], approved: frozenset[str] | None) -> tuple[str, ...]:
    # Only approved files will be touched, even if the names lead elsewhere by now.
    paths = approved if approved is not None else {followed(resolve(cwd, name)) for name in names}
    return tuple(f"file:{path}" for path in paths)


async def _formatted(plan: Plan, around: EditReviewer, ctx: ToolContext) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan with formatted texts, and notes. A checkpoint if a formatter matches."""
    revisions: list[Revision] = []
    notes: list[str] = []
    for revision in plan.revisions:
        if revision.after is None or revision.after == revision.before:
            revisions.append(revision)
        else:
            after, more = await around.format(revision.place, revision.after, ctx)
            revisions.append(attrs.evolve(revision, after=after))
            notes += more
            if after == revision.before:
                notes.append(f"[that has undone the change: {revision.shown} is as it was]")
    return attrs.evolve(plan, revisions=tuple(revisions)), tuple(notes)


def _carry_out(planned: Plan, final: Plan, notes: tuple[str, ...]) -> ToolOutput:
    made = [change for revision in final.revisions for change in revision.changes if change.before != change.after]
    return _report(planned, final, (*notes, *commit(made)), made)


def _report(planned: Plan, final: Plan, notes: tuple[str, ...], made: Sequence[FileChange]) -> ToolOutput:
    diffs = [revision.diff() for revision in final.revisions]
    shown = _shown_diffs(planned, final)
    return ToolOutput(
        text="\n".join([final.text, *notes, *(diff.removesuffix("\n") for diff in shown if diff)]),
        modify=together(*(revision.notes for revision in final.revisions)),
        metadata=metadata(final.summary, **final.facts, diff="".join(diffs)),
        changed=tuple(dict.fromkeys(str(change.path) for change in made)),
    )


def _shown_diffs(planned: Plan, final: Plan) -> list[str]:
    """Return the diffs for the model: of all changes, or only of those made by formatters."""
    if planned.has_diff:
        return [revision.diff(SHOWN_LINES) for revision in final.revisions]
    pairs = zip(planned.revisions, final.revisions, strict=True)
    return [_diff(new.moved or new.shown, old.after, new.after, limit=SHOWN_LINES) for old, new in pairs]


def _need(cwd: str, basis: Basis, names: tuple[str, ...], plan: Planner, otherwise: str) -> Need:
    called: dict[str, tuple[str, ...]] = {}
    paths: tuple[str, ...] = ()
    futile = ""
    try:
        # Resolved once: what is judged is what may be changed.
        paths_and_names = [(followed(path), shown_path(cwd, path)) for path in (resolve(cwd, name) for name in names)]
        paths = tuple(dict.fromkeys(real for real, _ in paths_and_names))
        for real, name in paths_and_names:
            pattern = pattern_of_real(cwd, real)
            # A rule about a link applies to its target, too.
            called[pattern] = (*called.get(pattern, ()), *(() if name == pattern else (name,)))
        diffs = [revision.diff() for revision in plan(basis).revisions]
        detail, cut = "".join(diffs), any(map(is_cut, diffs))
    except ToolError as error:
        detail, futile, cut = otherwise, str(error), is_cut(otherwise)
    return Need(
        permission=PERMISSION,
        patterns=tuple(called) or tuple(names),
        detail=detail or otherwise,
        metadata=json.dumps({"paths": tuple(called), "diff": detail}),
        rights=tuple(RequiredRight(permission=PERMISSION, pattern=p, spellings=others) for p, others in called.items()),
        paths=paths,
        futile=futile,
        # "Always" is not offered for what was not shown.
        offers=() if cut else None,
    )


def _diff(shown: str, before: bytes | None, after: bytes | None, *, moved: str = "", limit: int | None = None) -> str:
    old, new = _text(before), _text(after)
    if old is not None and new is not None and unix(old) != unix(new):
        # Line endings are preserved anyway, and a carriage return in each line would only clutter the diff.
        old, new = unix(old), unix(new)
    return (
        changes(shown, old, new, moved=moved) if limit is None else changes(shown, old, new, moved=moved, limit=limit)
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.removeprefix(BOM).decode(errors="replace")
