"""The private git directory of a project's snapshots, and how git is run on it.

The user's own repository is never opened: git gets ours by explicit paths, without the user's
settings, hooks, filters or line-ending conversion. A project's
`.gitattributes` can run nothing: it only names filters, which our settings do not define, and
`info/attributes` of our directory overrules it and unsets all attributes.

Snapshots don't wait for each other. Each is made in a copy of the index, which replaces the
index only when all is done: a killed process leaves an unused file and no lock. Only the
removal of old snapshots takes the lock exclusively.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import attrs
import trio

from engine.core.errors import SnapshotError
from engine.core.lazy import regex
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.process.run_tree import run_tree
from engine.process.secret_names import SecretVariables
from engine.snapshots.snapshot_dir import SnapshotDir, write_atomically

INDEX: Final = "index"
# Next to the index: the paths that were left out.
MARKS: Final = "left-out"
_LOCK_POLL_SECONDS: Final = 0.02
# For git to end after SIGTERM, by which it removes its temporary files.
_GRACE: Final = 0.2
_MAX_ERROR_BYTES: Final = 400
_CHECKSUM_BYTES: Final = 20
_VERSION: Final = regex(r"(\d+)\.(\d+)")
# Older versions write a pack of its own for each file.
_PACKS_SINCE: Final = (2, 38)
_UNSAFE_IN_NAME: Final = regex(r"[^A-Za-z0-9_-]")

# Contents are stored byte for byte, nothing of the user's is run, and git never starts a clean-up by itself. No fsync: a
# snapshot that a power cut destroys costs an undo, while a sync after each step would cost every turn.
_CONFIG: Final = """\
[core]
	repositoryformatversion = 0
	bare = true
	filemode = true
	symlinks = true
	ignorecase = false
	autocrlf = false
	safecrlf = false
	fsmonitor = false
	untrackedCache = false
	hooksPath = /dev/null
	attributesFile = /dev/null
	protectHFS = false
	protectNTFS = false
	logAllRefUpdates = false
	compression = 1
	fsync = none
[index]
	version = 4
[gc]
	auto = 0
[maintenance]
	auto = false
[diff]
	ignoreSubmodules = all
[submodule]
	recurse = false
"""
ATTRIBUTES: Final = "* -text !eol -ident -filter !working-tree-encoding -diff -merge -export-subst\n"
# With a threshold of one byte, git writes all new files into one pack. That is much faster than a loose object for each,
# but only worth it for many files.
PACKED: Final = ("-c", "core.bigFileThreshold=1")


@attrs.frozen(eq=False, repr=False)
class Repository(Value):
    """The private git directory of a project.

    Attributes:
        place: of which project.
        program: git, by its real path.
        left_out: real paths of the engine's own files, which are not part of the project; also prefixes of names.
    """

    place: SnapshotDir
    program: str
    left_out: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The git directory."""
        return self.place.project_dir / "git"

    def make(self) -> None:
        """Make it if it is not there. It blocks. Raises `SnapshotError`."""
        self.place.make()
        if (self.folder / "HEAD").exists():
            return
        made = self.place.project_dir / f".git.{uuid4().hex}"
        try:
            for name in ("objects/info", "objects/pack", "refs", "info"):
                (made / name).mkdir(mode=0o700, parents=True)
            (made / "config").write_text(_CONFIG, encoding="ascii")
            (made / "info" / "attributes").write_text(ATTRIBUTES, encoding="ascii")
            (made / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
            # Renamed when it is complete: another engine may make the directory at the same time, and the first one wins.
            try:
                made.rename(self.folder)
            except OSError:
                if not (self.folder / "HEAD").exists():
                    raise
        except OSError as error:
            raise SnapshotError(
                f"snapshots can't be kept in {self.place.project_dir}: {error.strerror or error}"
            ) from error
        finally:
            shutil.rmtree(made, ignore_errors=True)

    @asynccontextmanager
    async def locked(self, *, alone: bool = False) -> AsyncGenerator[None]:
        """Lock the directory against removal, or, with *alone*, against any use. Entering is a checkpoint.

        Raises `SnapshotError`.
        """
        try:
            self.place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reason = error.strerror or error
            raise SnapshotError(f"snapshots can't be kept in {self.place.folder}: {reason}") from error
        try:
            while not _try_lock(lock, alone=alone):  # noqa: ASYNC110  # nothing wakes a task that waits for a file lock
                await trio.sleep(_LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(lock)

    # -- the index ------------------------------------------------------------------------

    def new_copy(self) -> Path:
        """Return a path for a copy of the index. The caller drops the copy."""
        return self.folder / f"{INDEX}.{uuid4().hex}"

    def copy_index(self, copy: Path, is_cancelled: Callable[[], bool]) -> None:
        """Copy the index. It blocks. If the caller was cancelled meanwhile, the copy is removed again."""
        with suppress(FileNotFoundError):
            # `copy2` keeps the modification time: git compares it with those of the files, and reads again the contents of
            # files that changed in the same instant.
            shutil.copy2(self.folder / INDEX, copy)
        if is_cancelled():
            self.drop(copy)

    def replace_index(self, copy: Path) -> None:
        """Replace the index with a copy, and keep the copy for further work. It blocks."""
        # Through a second copy: the rename consumes one, and the caller goes on using its own.
        adopted = copy.with_name(f"{copy.name}.done")
        with suppress(FileNotFoundError):
            shutil.copy2(copy, adopted)
            adopted.replace(self.folder / INDEX)

    def drop(self, copy: Path) -> None:
        """Remove a copy. It blocks."""
        for path in (copy, copy.with_name(f"{copy.name}.lock"), copy.with_name(f"{copy.name}.done")):
            with suppress(OSError):
                path.unlink()

    def indexed_files(self, index: Path) -> int:
        """Return how many files an index holds. It blocks."""
        with suppress(OSError), index.open("rb") as file:
            head = file.read(12)
            return int.from_bytes(head[8:12], "big") if head[:4] == b"DIRC" else 0
        return 0

    def state_of(self, index: Path) -> bytes:
        """Return what names the content of an index: the checksum at its end; nothing if there is none. It blocks."""
        with suppress(OSError), index.open("rb") as file:
            file.seek(-_CHECKSUM_BYTES, os.SEEK_END)
            return file.read()
        return b""

    def has_loose(self, object_id: str) -> bool:
        """Tell whether there is an object of that id outside of packs. It blocks."""
        return (self.folder / "objects" / object_id[:2] / object_id[2:]).exists()

    def marks(self) -> tuple[bytes, ...]:
        """Return the paths that were left out. It blocks."""
        with suppress(OSError):
            return tuple(filter(None, (self.folder / MARKS).read_bytes().split(b"\0")))
        return ()

    def keep_marks(self, paths: Sequence[bytes]) -> None:
        """Remember them. It blocks."""
        if paths or (self.folder / MARKS).exists():
            write_atomically(self.folder / MARKS, b"\0".join(paths))

    def keep(self, tree: str, owner: str) -> None:
        """Keep a tree for a session, from now on for as long as trees are kept. It blocks."""
        kept = self._kept(tree, owner)
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(kept, f"{tree}\n".encode())

    def is_kept(self, tree: str, owner: str) -> bool:
        """Tell whether a tree was taken for a session, and is kept for it still. It blocks."""
        return self._kept(tree, owner).is_file()

    def _kept(self, tree: str, owner: str) -> Path:
        return self.folder / "refs" / "snapshots" / safe_name(owner) / tree

    # -- git ------------------------------------------------------------------------------

    async def git(
        self,
        *arguments: str,
        index: Path | None = None,
        input: bytes | None = None,  # noqa: A002  # as the standard library calls it
        limit: int | None = None,
    ) -> bytes:
        """Run git and return what it writes. Always a checkpoint; a cancel ends it.

        Raises `SnapshotError` if it fails, `TooMuch` if it writes more than *limit* bytes.
        """
        output, errors = bytearray(), bytearray()

        def take(chunk: bytes) -> None:
            output.extend(chunk)
            if limit is not None and len(output) > limit:
                raise OutputTooLarge

        try:
            finished = await run_tree(
                [self.program, f"--git-dir={self.folder}", f"--work-tree={self.place.root}", *arguments],
                cwd=self.place.root,
                marker=f"snapshot-{uuid4().hex}",
                on_output=take,
                on_errors=lambda chunk: errors.extend(chunk[: max(0, _MAX_ERROR_BYTES - len(errors))]),
                input=input,
                env=_environment(index),
                grace=_GRACE,
            )
        except OSError as error:
            raise SnapshotError(f"git could not be started: {error.strerror or error}") from error
        if finished.exit_code != 0:
            reason = errors.decode(errors="replace").strip() or f"it ended with {finished.exit_code or finished.signal}"
            raise SnapshotError(f"git {_command(arguments)}: {reason}")
        return bytes(output)

    async def packs_together(self) -> bool:
        """Tell whether this git puts many new files into one pack. A checkpoint."""
        version = _VERSION.search((await self.git("version")).decode(errors="replace"))
        return version is not None and (int(version[1]), int(version[2])) >= _PACKS_SINCE

    async def tidy(self, days: float, seconds: float) -> None:
        """Let git remove unreferenced objects. A checkpoint; a cancel, or the time limit, leaves the rest for later."""
        with trio.move_on_after(seconds):
            # One ref file per tree records its owner and age; packed refs would lose that.
            await self.git("-c", "gc.packRefs=false", "gc", "--quiet", f"--prune={days:g}.days.ago")


class OutputTooLarge(Exception):
    """Git's output exceeds the limit."""


def safe_name(owner: str) -> str:
    """Return an owner's name escaped for use as a folder name; no two names get the same."""
    return _UNSAFE_IN_NAME.sub(lambda found: f"={ord(found[0]):x}=", owner) or "="


def _command(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if not word.startswith("-") and "=" not in word), "")


def _environment(index: Path | None) -> dict[str, str]:
    """Return an environment without secrets, and without what leads git to the user's configuration or repository."""
    environment = SecretVariables().without(os.environ)
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    ours = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }
    return {**kept, **ours, **({} if index is None else {"GIT_INDEX_FILE": str(index)})}


def _try_lock(lock: int, *, alone: bool) -> bool:
    try:
        fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise SnapshotError(f"the snapshots' lock can't be taken: {error.strerror or error}") from error
    return True


async def find_git() -> str | None:
    """Return the path of git, or None if it is not installed. Always a checkpoint."""
    return await to_thread(_find_git)


def _find_git() -> str | None:
    # Not the relative entries of PATH: a project could bring its own `git`.
    folders = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]  # noqa: PTH117
    return shutil.which("git", path=os.pathsep.join(folders))
