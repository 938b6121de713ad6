"""The result of scanning a shell script: the commands it may run, the files it may use, and why that may be incomplete."""

from __future__ import annotations

from typing import Literal

import attrs

# An argument as the program receives it; None: unknown before run time.
Argument = str | None
Access = Literal["read", "write"]


@attrs.frozen(kw_only=True)
class ScannedCommand:
    """A simple command that a script may run.

    Attributes:
        argv: its words after expansion and quote removal; the first one is always certain.
        cwd: the folder it runs in, absolute and as written (`..` and links are not resolved); None: unknown.
        through: the programs that start it, the outermost first: `("sudo", "env")`.
        remote: it runs on another machine or in a container, so its paths are not local ones.
        reads_only: it changes nothing with these arguments.
    """

    argv: tuple[Argument, ...]
    cwd: str | None = None
    through: tuple[str, ...] = ()
    remote: bool = False
    reads_only: bool = False


@attrs.frozen(kw_only=True)
class PathUse:
    """A file or folder that a script reads or writes.

    Attributes:
        path: absolute and as written: neither `..` nor links are resolved.
        access: whether it is read or written.
        by: "redirection", or the program's name.
        is_pattern: *path* is a pattern as bash expands it, and stands for all files that match. A literal `*`, `?`,
            `[` or backslash is escaped by a backslash; there are no braces and no `~`.
    """

    path: str
    access: Access
    by: str
    is_pattern: bool = False


@attrs.frozen(kw_only=True)
class ListedFiles:
    """The files that a list of names may contain, such as the output of `find`.

    Attributes:
        folder: the folder that the names are relative to, absolute.
        roots: the folders and files that they are, or lie below; absolute.
        names: patterns for the last part of each name, of which one matches; empty: any name.
        tracked: only files in git's index.
    """

    folder: str
    roots: tuple[str, ...]
    names: tuple[str, ...] = ()
    tracked: bool = False


@attrs.frozen(kw_only=True)
class UnnamedRead:
    """Files that a script reads although no word of it names them.

    Attributes:
        by: the program, or "redirection".
        listing: which files these may be; None: any.
        shown: what is in them may be printed.
    """

    by: str
    listing: ListedFiles | None
    shown: bool


@attrs.frozen(kw_only=True)
class Scan:
    """What a script may do, determined before it runs.

    Attributes:
        commands: each simple command at any depth, in the order of the text.
        paths: each file that it reads or writes.
        unnamed: the files that it reads, but does not name.
        opaque: the reasons why the two lists may be incomplete; empty: they are complete.
        trusts_names: names of files become arguments of a command, so the lists are complete only if no name looks
            like an option.
    """

    commands: tuple[ScannedCommand, ...] = ()
    paths: tuple[PathUse, ...] = ()
    unnamed: tuple[UnnamedRead, ...] = ()
    opaque: tuple[str, ...] = ()
    trusts_names: bool = False
