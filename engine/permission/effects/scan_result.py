"""What a scan of a shell script tells: the commands it may run, the files they touch, or why nobody can tell."""

from __future__ import annotations

from typing import Literal

import attrs

# A word of a command as the program gets it; None: nobody knows before it runs.
Argument = str | None
Access = Literal["read", "write"]


@attrs.frozen(kw_only=True)
class ScannedCommand:
    """A simple command that a script may run.

    Attributes:
        argv: its words after expansion and removal of quotes; the first one is always known.
        cwd: the folder it runs in, absolute and as written (`..` and links are not resolved); None: unknown.
        through: the programs that start it, the outermost first: `("sudo", "env")`.
        remote: it runs on another machine, or in a container: its paths are not ours.
        reads_only: it changes nothing, whatever it is given here.
    """

    argv: tuple[Argument, ...]
    cwd: str | None = None
    through: tuple[str, ...] = ()
    remote: bool = False
    reads_only: bool = False


@attrs.frozen(kw_only=True)
class PathUse:
    """A file or folder that a script touches.

    Attributes:
        path: absolute and as written: neither `..` nor links are resolved.
        access: what is done with it.
        by: "redirection", or the program's name.
        is_pattern: *path* is a pattern as bash expands it: all files that it fits are touched. What is meant
            literally, of `*`, `?`, `[` and the backslash, stands behind a backslash; no braces, no `~`.
    """

    path: str
    access: Access
    by: str
    is_pattern: bool = False


@attrs.frozen(kw_only=True)
class Scan:
    """What is known of a script before it runs.

    Attributes:
        commands: each simple command at any depth, in the order of the text.
        paths: each file that it is known to touch.
        opaque: why the two lists may not be all there is, a reason each; empty: they are all.
        trusts_names: names of files become words of a command, so the lists are all there is only if none of them
            reads like an option.
    """

    commands: tuple[ScannedCommand, ...] = ()
    paths: tuple[PathUse, ...] = ()
    opaque: tuple[str, ...] = ()
    trusts_names: bool = False
