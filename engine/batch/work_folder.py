"""A task's own folder: a worktree of a repository, a copy of a folder, an empty one, or the task's folder itself."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

import attrs

from engine.batch.attempt_outcome import AttemptFailed
from engine.batch.batch_status import InfraClass
from engine.batch.batch_task import BatchTask
from engine.core.named_locks import Locks
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.files.cancellable_thread import to_halting_thread
from engine.process.crash_cleanup import owned
from engine.process.run_tree import run_tree
from engine.process.secret_names import SecretVariables
from engine.snapshots.repository import find_git

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME_CHARS: Final = 60
_MAX_ERROR_BYTES: Final = 1_000
# Hooks of a repository are for people at work in it; and nothing may ask for a password.
_GIT: Final = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "advice.detachedHead=false")
# In its place until the folder is whole: one that a crash has left half made is made again.
_PART: Final = ".part"
# What a folder held before the turn, by which its patch is made.
_PRIVATE: Final = ".before"
_ENDS: Final = ("", _PART, _PRIVATE)
_MANY: Final = 16


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkFolder(Value):
    """The folder in which an attempt works.

    Attributes:
        path: where it is.
        base_commit: the commit that it was made from; empty: of none.
    """

    path: str
    base_commit: str = ""


@attrs.define(eq=False, repr=False)
class WorkFolders:
    """Makes and removes the folders of one batch."""

    _root: Path
    _locks: Locks = attrs.field(factory=Locks, init=False)

    def path_of(self, task: BatchTask) -> Path:
        """Return where a task's folder is, or will be."""
        return Path(task.cwd) if task.in_place else self._root / file_name(task.id)

    async def has(self, task: BatchTask) -> bool:
        """Tell whether it is there and whole. Always a checkpoint."""
        return await to_thread(self.path_of(task).is_dir)

    def private_of(self, task: BatchTask) -> Path | None:
        """Return where its state before the turn is kept; None: nowhere, since it is the user's own folder."""
        return None if task.in_place else self._root / f"{file_name(task.id)}{_PRIVATE}"

    async def make(self, task: BatchTask, *, keeps: bool) -> WorkFolder:
        """Make a task's folder; with *keeps*, one that is there is used as it is. Always a checkpoint.

        If cancelled, what is left is removed before the next one is made. Raises `AttemptFailed`, `OSError`.
        """
        path = self.path_of(task)
        if task.in_place or keeps:
            if not await to_thread(path.is_dir):
                raise AttemptFailed("folder", f"{path} is not a directory")
            return WorkFolder(path=str(path), base_commit=await self._head(path))
        await self.remove([task])
        part = path.with_name(f"{path.name}{_PART}")
        if not (task.repo or task.cwd):
            await to_thread(_make_empty, path)
            return WorkFolder(path=str(path))
        await to_thread(_make_empty, self._root)
        if task.repo:
            return WorkFolder(path=str(path), base_commit=await self._add_worktree(task, path))
        await _run(_copy_command(task.cwd, part), cwd=str(self._root), what=f"{task.cwd} can't be copied")
        await to_thread(part.rename, path)
        return WorkFolder(path=str(path), base_commit=await self._head(path))

    async def remove(self, tasks: Sequence[BatchTask]) -> None:
        """Remove the folders of tasks and what is half made of them; never a task's own. Always a checkpoint.

        If cancelled, the rest stays, and is removed the next time. What can't be removed stays.
        """
        own = [task for task in tasks if not task.in_place]
        existing = await to_thread(self._existing, own)
        if not existing:
            return
        await to_halting_thread(partial(_remove_all, existing))
        for repo in {task.repo for task in own if task.repo}:
            async with self._locks.hold(repo):
                # Or git would list them for months.
                await _git("worktree", "prune", "--expire=now", cwd=repo, what=f"{repo} has worktrees that are gone")

    def _existing(self, tasks: Sequence[BatchTask]) -> list[Path]:
        """Return the folders of these tasks that are there. It blocks."""
        if len(tasks) > _MANY:
            with suppress(OSError):
                there = set(os.listdir(self._root))  # noqa: PTH208  # names are enough, of perhaps a hundred thousand
                names = (f"{file_name(task.id)}{end}" for task in tasks for end in _ENDS)
                return [self._root / name for name in names if name in there]
            return []
        paths = (self._root / f"{file_name(task.id)}{end}" for task in tasks for end in _ENDS)
        return [path for path in paths if os.path.lexists(path)]

    async def _add_worktree(self, task: BatchTask, path: Path) -> str:
        """Make a worktree of the task's repository; return its commit. Always a checkpoint. Raises `AttemptFailed`."""
        # One at a time in each repository: git's lists of worktrees are files without a lock.
        async with self._locks.hold(task.repo):
            failed = f"{task.repo} can't be checked out at {task.ref}"
            commit = await _git(
                "rev-parse", "--verify", "--end-of-options", f"{task.ref}^{{commit}}", cwd=task.repo, what=failed
            )
            await _git("worktree", "prune", cwd=task.repo, what=failed)
            part = path.with_name(f"{path.name}{_PART}")
            await _git(
                "worktree",
                "add",
                "--quiet",
                "--force",
                "--detach",
                str(part),
                commit.strip(),
                cwd=task.repo,
                what=failed,
            )
            await _git("worktree", "move", str(part), str(path), cwd=task.repo, what=failed)
        return commit.strip()

    async def _head(self, path: Path) -> str:
        """Return the commit that a folder is at; empty: it is no repository's. Always a checkpoint."""
        if not await to_thread((path / ".git").exists):
            return ""
        try:
            return (await _git("rev-parse", "--verify", "HEAD", cwd=str(path), what="")).strip()
        except AttemptFailed:
            return ""


def file_name(task_id: str) -> str:
    """Return a name for a task's files: no two tasks have the same."""
    readable = _UNSAFE.sub("-", task_id).strip("-")[:_MAX_NAME_CHARS]
    if readable == task_id:
        return readable
    return f"{readable or 'task'}-{hashlib.sha256(task_id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _copy_command(source: str, target: Path) -> Sequence[str]:
    # A process, because a cancel must end it at once; file systems that can share the blocks of a copy do.
    sharing = ("--reflink=auto",) if platform.system() == "Linux" else ()
    return ["cp", "-R", "-p", "-P", *sharing, "--", source, str(target)]


async def _git(*arguments: str, cwd: str, what: str) -> str:
    """Run git on a repository of the user's, and return what it writes. Always a checkpoint. Raises `AttemptFailed`."""
    program = await find_git()
    if program is None:
        raise AttemptFailed("folder", "git is not installed")
    return await _run([program, *_GIT, *arguments], cwd=cwd, what=what)


async def _run(argv: Sequence[str], *, cwd: str, what: str) -> str:
    output, errors = bytearray(), bytearray()
    environment = {
        name: value for name, value in SecretVariables().without(os.environ).items() if not name.startswith("GIT_")
    }
    try:
        finished = await run_tree(
            argv,
            cwd=cwd,
            marker=owned(f"batch-{uuid4().hex}"),
            on_output=output.extend,
            on_errors=lambda chunk: errors.extend(chunk[: max(0, _MAX_ERROR_BYTES - len(errors))]),
            env={**environment, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        )
    except OSError as error:
        raise AttemptFailed("folder", f"{what}: {argv[0]} could not be started: {error.strerror or error}") from error
    if finished.exit_code != 0:
        reason = (
            errors.decode(errors="replace").strip() or f"{argv[0]} ended with {finished.exit_code or finished.signal}"
        )
        kind: InfraClass = "disk" if "No space left" in reason or "quota exceeded" in reason.lower() else "folder"
        raise AttemptFailed(kind, f"{what}: {reason}")
    return output.decode(errors="replace")


def _make_empty(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def _remove_all(paths: Sequence[Path], is_cancelled: Callable[[], bool]) -> None:
    for path in paths:
        if is_cancelled():
            return
        shutil.rmtree(path, ignore_errors=True)
