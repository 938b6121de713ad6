"""What a patch of several files would change: each operation is carried out in memory, one after the other."""

from __future__ import annotations

from pathlib import Path

import attrs

from engine.core.errors import ToolError
from engine.files.text_files import resolve
from engine.tools.edit.edit_session import Basis, Plan, Revision, SeenFile, fitting, look
from engine.tools.edit.match import Ambiguous, Missing
from engine.tools.edit.patch_format import AddFile, DeleteFile, Operation, UpdateFile, parse_patch
from engine.tools.edit.patch_match import Placed, Unplaced, place_chunks
from engine.tools.edit.replace import best_place, compared, named
from engine.tools.edit.source_text import SourceText
from engine.tools.tool_text import counted


def plan(patch: str, cwd: str, basis: Basis, *, fuzzy: bool) -> Plan:
    """Return what the patch would change. It blocks. Raises `ToolError` if a part of it does not fit."""
    operations = parse_patch(patch)
    tree = _Tree(cwd, basis, fuzzy)
    try:
        notes = [tree.apply(operation) for operation in operations]
    except ToolError as error:
        text = str(error)
        raise ToolError(
            text if text.lower().endswith("nothing was changed.") else f"{text}\nNothing was changed."
        ) from error
    revisions = tree.revisions
    if not revisions:
        raise ToolError("The patch changes nothing: the files are as it would make them.")
    count = counted(len(revisions), "file")
    return Plan(
        revisions=revisions,
        text="\n".join([f"Applied the patch to {count}:", *notes]),
        summary=count,
        facts={"files": len(revisions), "fuzzy": tree.loose},
    )


def paths_of(patch: str) -> list[str]:
    """Return all paths that a patch names. It takes a while for a large one. Raises `ToolError`."""
    operations = parse_patch(patch)
    moved = [operation.moved for operation in operations if isinstance(operation, UpdateFile) and operation.moved]
    return [*(operation.path for operation in operations), *moved]


@attrs.define(eq=False)
class _File:
    """A file as it was found, and as the patch has made it so far."""

    seen: SeenFile
    now: bytes | None
    moved_to: _File | None = None


@attrs.define(eq=False)
class _Tree:
    """The files of a patch: changed one operation after the other, in memory."""

    cwd: str
    basis: Basis
    fuzzy: bool
    files: dict[Path, _File] = attrs.field(factory=dict[Path, _File])
    loose: int = 0

    def apply(self, operation: Operation) -> str:
        """Make a change; return a line that describes it."""
        match operation:
            case AddFile():
                return self._add(operation)
            case DeleteFile():
                self._existing(operation.path, "delete").now = None
                return f"D {operation.path}"
            case UpdateFile():
                return self._update(operation)

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """What has become of the files that are not as they were."""
        revisions: list[Revision] = []
        moved = {id(file.moved_to) for file in self.files.values() if _has_moved(file)}
        for file in self.files.values():
            target = file.moved_to if _has_moved(file) else None
            if target is not None:
                revisions.append(_revision(file.seen, target.now, target.seen))
            elif id(file) not in moved and file.now != file.seen.data:
                revisions.append(_revision(file.seen, file.now))
        return tuple(revisions)

    def _file(self, path: str) -> _File:
        seen = look(self.cwd, path, self.basis)
        return self.files.setdefault(seen.path, _File(seen, seen.data))

    def _existing(self, path: str, verb: str) -> _File:
        if resolve(self.cwd, path).is_symlink():
            raise ToolError(f"{path} is a symbolic link, which this tool does not {verb}. Use bash.")
        file = self._file(path)
        if file.now is None:
            attrs.evolve(file.seen, data=None).text()  # raises the error
        return file

    def _add(self, operation: AddFile) -> str:
        file = self._file(operation.path)
        file.now = fitting(attrs.evolve(file.seen, data=file.now), operation.text).data
        lines = counted(operation.text.count("\n"), "line")
        return f"{'A' if file.seen.data is None else 'M'} {operation.path}: {lines}"

    def _update(self, operation: UpdateFile) -> str:
        file = self._file(operation.path) if operation.moved is None else self._existing(operation.path, "move")
        before = attrs.evolve(file.seen, data=file.now).text()
        source = SourceText(before.text)
        placed = place_chunks(source, operation.chunks, fuzzy=self.fuzzy)
        if isinstance(placed, Unplaced):
            raise ToolError(_refused(operation.path, source, placed))
        self.loose += sum(one.tier != "exact" for one in placed)
        splices = [splice for one in placed for splice in one.splices]
        file.now = attrs.evolve(before, text=source.spliced(splices)).data
        places = "; ".join(map(_describe, placed)) or "as it was"
        if operation.moved is None:
            return f"M {operation.path}: {places}"
        target = self._file(operation.moved)
        if target.now is not None:
            raise ToolError(f"{operation.moved} exists: {operation.path} can't be moved there.")
        target.now, file.now, file.moved_to = file.now, None, target
        return f"R {operation.path} -> {operation.moved}: {places}"


def _has_moved(file: _File) -> bool:
    """Return whether a file is gone and another one is there that it has become, and that nothing else was."""
    target = file.moved_to
    return (
        target is not None
        and file.now is None
        and file.seen.data is not None
        and target.now is not None
        and target.seen.data is None
        and target.moved_to is None
    )


def _revision(seen: SeenFile, after: bytes | None, target: SeenFile | None = None) -> Revision:
    return Revision(
        shown=seen.shown,
        path=seen.path,
        before=seen.data,
        after=after,
        moved="" if target is None else target.shown,
        target=None if target is None else target.path,
    )


def _describe(placed: Placed) -> str:
    where = named([placed.lines])
    if not placed.chunk.request.old:
        return f"behind {where}" if placed.lines[0] else "at the beginning"
    return (
        where
        if placed.tier == "exact"
        else f"{where}, not exactly the patch's lines, but alike ({placed.tier}): check it"
    )


def _refused(path: str, source: SourceText, unplaced: Unplaced) -> str:
    """Say why a chunk has no place."""
    chunk, answer = unplaced.chunk, unplaced.answer
    what = f"{path}: the change at line {chunk.line} of the patch does not fit."
    if unplaced.header is not None:
        return (
            f"{what} There is no line, or more than one, that fits @@ {unplaced.header}, behind the change before it."
        )
    old = "\n".join(chunk.request.old)
    match answer:
        case Ambiguous():
            lines = named([(line, line) for line in answer.lines], answer.count)
            more = best_place(source, old, answer, "the patch")
            how = "" if answer.tier == "exact" else f" or alike ({answer.tier})"
            return (
                f"{what} Its lines are there{how} {answer.count:,} times, on {lines}. Add context, or an @@ line.{more}"
            )
        case Missing(why="applied", lines=(first, last)):
            return f"{what} What it would make is there already, on {named([(first, last)])}."
        case Missing(lines=(first, last)):
            differs = compared(source, old, (first, last))
            more = " The file has more there, which would be lost." if answer.why == "lossy" else ""
            return (
                f"{what} Its lines were not found behind the change before it. The most similar place is "
                f"{named([(first, last)])}.{more} This is what differs (- the patch, + the file):\n{differs}"
            )
        case _:
            return f"{what} There is nothing like its lines behind the change before it. Read the file again."
