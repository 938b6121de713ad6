"""What a program does with its arguments: the values between the shell scanner and the program tables."""

from __future__ import annotations

from typing import Final, Self

import attrs

from engine.permission.effects.scan_result import Access, Argument, ListedFiles


@attrs.frozen
class UnknownInput:
    """Input from a pipe, a file or a socket, unknown before it is read.

    Attributes:
        lists_files: it is certainly a list of names, as `find` and `git ls-files` print it, and none of them is taken
            for an option. Set where the writer of the pipe has `prints_names`.
        listing: which files these are; None: unknown.
    """

    lists_files: bool = False
    listing: ListedFiles | None = None


class WordPrefix(str):
    """A single word of which only the prefix is known, as of `src/*.js` or `./$name`.

    It is a string, so that it can stand wherever arguments do. A caller that needs the whole word checks
    `isinstance(word, WordPrefix)` first and treats it as None.
    """

    __slots__ = ()


class ListedName(WordPrefix):
    """A name that another program has listed, such as `find`: not an option.

    Attributes:
        listing: which files these may be; None: unknown.
    """

    __slots__ = ("listing",)

    listing: ListedFiles | None

    def __new__(cls, listing: ListedFiles | None = None) -> Self:
        """Make one; all are equal as strings."""
        # No file name contains this character.
        name = super().__new__(cls, "./\0")
        name.listing = listing
        return name


FILE_NAME: Final = ListedName()

# What a program reads from standard input: a certain text, something unknown, or nothing.
Stdin = str | UnknownInput | None


@attrs.frozen(kw_only=True)
class ProgramInvocation:
    """A program about to be started.

    Attributes:
        argv: its name and arguments; the name is certain.
        cwd: the folder it starts in, absolute; None: unknown.
        home: the user's home folder.
        stdin: what it reads from standard input.
    """

    argv: tuple[Argument, ...]
    cwd: str | None
    home: str
    stdin: Stdin = None


@attrs.frozen(kw_only=True)
class StartedCommand:
    """A command that a program starts by itself, without a shell: `sudo X`, `xargs X`, `find -exec X`.

    Attributes:
        argv: its name and arguments; None where one is unknown, as for what `xargs` adds.
        cwd: where it runs, absolute; None: unknown. By default where its parent runs.
        remote: on another machine or in a container.
        stdin: what it reads from standard input.
    """

    argv: tuple[Argument, ...]
    cwd: str | None
    remote: bool = False
    stdin: Stdin = None


@attrs.frozen(kw_only=True)
class ShellText:
    """A script that a program passes to a shell: `sh -c TEXT`, `ssh host TEXT`, `watch TEXT`.

    Attributes:
        text: the script.
        shell: the shell that runs it; only POSIX shells and bash can be scanned.
        arguments: `$0`, `$1` and so on; empty: none.
        cwd: where it runs, absolute; None: unknown.
        remote: on another machine or in a container.
    """

    text: str
    shell: str
    arguments: tuple[Argument, ...] = ()
    cwd: str | None
    remote: bool = False


@attrs.frozen(kw_only=True)
class FileAccess:
    """A file or folder that a program reads or writes because its arguments say so.

    Attributes:
        path: as in the arguments, relative to the program's folder; None: unknown.
        access: whether it is read or written.
    """

    path: Argument
    access: Access


@attrs.frozen(kw_only=True)
class ProgramEffects:
    """What a program does with certain arguments.

    Attributes:
        starts: the commands it starts, and the scripts it passes to a shell.
        touches: the files it reads and writes.
        opaque: why this may be incomplete; empty: it is complete.
        reads_only: it changes nothing with these arguments.
        runs: the files it executes, as `sh FILE` and `python FILE` do; None: unknown. The scanner checks whether the
            same script may have written them.
        prints_names: it prints nothing but names of files (see `UnknownInput`).
        listing: which files' names it prints; None: unknown, or none.
        shows_contents: it may print what is in the files that it reads.
    """

    starts: tuple[StartedCommand | ShellText, ...] = ()
    touches: tuple[FileAccess, ...] = ()
    opaque: str = ""
    reads_only: bool = False
    runs: tuple[Argument, ...] = ()
    prints_names: bool = False
    listing: ListedFiles | None = None
    shows_contents: bool = True
