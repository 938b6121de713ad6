"""What a program does with its words: the values that pass between the scanner and the knowledge of programs."""

from __future__ import annotations

import attrs

from engine.permission.effects.scan_result import Access, Argument


@attrs.frozen
class UnknownInput:
    """Comes from a pipe, a file, a socket: nobody knows it before it is read.

    Attributes:
        names: but it is known to be a list of files that are there, as `find` and `git ls-files` print it:
            none of them is taken for an option. Fed by the `prints_names` of what writes to the pipe.
    """

    lists_files: bool = False


class WordPrefix(str):
    """A word (one, not several) of which only the beginning is known, as of `src/*.js` or `./$name`.

    It is a string, so that it passes wherever words do; whoever wants to know what it says
    asks `isinstance(word, Begun)` first, and takes it for None unless the beginning is enough.
    """

    __slots__ = ()


# What a program reads from standard input: a text that is known, something unknown, or nothing.
Stdin = str | UnknownInput | None


@attrs.frozen(kw_only=True)
class ProgramInvocation:
    """A program about to be started, as far as it is known.

    Attributes:
        argv: its words; the first is known.
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
        argv: its words; None where it is not known, as for what `xargs` adds.
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
    """A text that a program gives to a shell: `sh -c TEXT`, `ssh host TEXT`, `watch TEXT`.

    Attributes:
        text: the script.
        shell: which shell reads it: only a POSIX one or bash can be scanned.
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
    """A file or folder that a program is told to read or write.

    Attributes:
        path: the word as given, relative to the program's folder; None: unknown.
        access: what is done with it.
    """

    path: Argument
    access: Access


@attrs.frozen(kw_only=True)
class ProgramEffects:
    """What a program does besides being run.

    Attributes:
        starts: the commands it starts, and the texts it has a shell read.
        touches: the files its words name.
        opaque: why this may not be all; empty: it is all.
        reads_only: it changes nothing with these words.
        runs: the files whose text it runs, as `sh FILE` and `python FILE` do: whether something in the same
            script may have written them is for the scanner to look at; None: unknown.
        prints_names: all that it prints is names of files (see `Unknown`).
    """

    starts: tuple[StartedCommand | ShellText, ...] = ()
    touches: tuple[FileAccess, ...] = ()
    opaque: str = ""
    reads_only: bool = False
    runs: tuple[Argument, ...] = ()
    prints_names: bool = False
