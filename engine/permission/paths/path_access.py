"""Where a path leads: into the project, or out of it. Every path is judged by its real path.

`judge_path` is for a path that a tool is given, `judge_scan` for those of a script. Both
ask the file system. A script is judged before it runs: what it does to links first, and
then follows, is `Unclear` where it can be seen to do so.

    echo '{"tool": "read", "text": "a.txt", "cwd": "/p", "worktree": "/p", "home": "/h"}' | python -m engine.permission.paths

says `{"paths": [{"path": "/p/a.txt", "inside": true}], "opaque": false, "reasons": []}`; with
`--serve`, one such line for each line.
"""

from __future__ import annotations

import itertools
import json
import os
import pwd
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Literal, Self, cast

import attrs

from engine.files.real_path import Real, Unclear, is_name, is_within, real_path
from engine.permission.effects.scan_result import PathUse, Scan, ScannedCommand
from engine.permission.paths.git_config import runs_more
from engine.permission.paths.link_followers import followers, leads_out
from engine.permission.paths.path_mutations import Moves
from engine.permission.paths.secret_search import searched_folders, secrets_below
from engine.permission.paths.shell_glob import expanded

# A tool's path may begin with `~`; in a script the shell has read that.
Kind = Literal["file", "shell"]

_USER: Final = re.compile(r"[a-z_][a-z0-9_-]*\$?")
# Nothing is lost by writing there, and nothing is told by reading there.
_EMPTY_DEVICES: Final = frozenset({"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
# What a command has open already, whatever that is; what it reads there was seen where it was opened, as in `cat <(ls)`.
_STREAMS: Final = frozenset({"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2"})
_OPENED: Final = re.compile(r"/dev/fd/[0-9]{1,4}")
# A blank parts words, so what stands behind it may be one.
_OPTION_INSIDE: Final = re.compile(r"\s-")
_MAX_FOLDERS: Final = 2_000
# More than that nobody would read, of whom it is asked.
_MAX_SECRETS: Final = 20
_PROGRAM_FOLDERS: Final = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"}
)


@attrs.frozen
class Judged:
    """A real path, and whether it lies in the project."""

    path: str
    inside: bool


@attrs.frozen
class Used:
    """What a script does with a real path.

    Attributes:
        judged: the path.
        use: what the scanner has found of it; None: a command runs in that folder.
    """

    judged: Judged
    use: PathUse | None


@attrs.frozen(kw_only=True)
class Looked:
    """Where the paths of a script lead.

    Attributes:
        paths: the real path of each file and folder that it touches, and of each folder that a command runs in.
        opaque: why these may not be all, or not be right; empty: they are.
        used: the same paths, each with what is done with it.
    """

    paths: tuple[Judged, ...] = ()
    opaque: tuple[str, ...] = ()
    used: tuple[Used, ...] = ()


def judge_path(text: str, *, cwd: str, project: str, home: str, kind: Kind) -> Judged | Unclear:
    """Return where a path leads. It blocks, and raises nothing.

    Args:
        text: the path as it was given.
        cwd: the folder that it is seen from, absolute.
        project: the project's real path, as of `project_of`; empty: there is none, and all is outside.
        home: the user's home folder.
        kind: whether a tool is given it, or a script names it.
    """
    if not text.strip() or not is_name(text):
        return Unclear("it is no path that a file can have")
    path = _without_tilde(text, cwd, home) if kind == "file" else text
    if isinstance(path, Unclear):
        return path
    found = real_path(os.path.join(cwd, path))  # noqa: PTH118 - Path would drop what the kernel heeds
    return found if isinstance(found, Unclear) else Judged(found.path, is_within(found.path, project))


def _without_tilde(text: str, cwd: str, home: str) -> str | Unclear:
    """Return a path with the home folder that its beginning may name. A name that no user has is a name."""
    if not text.startswith("~"):
        return text
    first, slash, rest = text.partition("/")
    if first == "~":
        return f"{home}{slash}{rest}"
    try:
        return f"{pwd.getpwnam(first[1:]).pw_dir}{slash}{rest}"
    except (KeyError, ValueError):
        pass
    if _USER.fullmatch(first[1:]) and not os.path.lexists(os.path.join(cwd, first)):  # noqa: PTH118 - see above
        return Unclear(f"there is no user {first[1:]}, and no file {first}")
    return text


# ---- scripts ---------------------------------------------------------------------------------------------------------


def judge_scan(scan: Scan, *, cwd: str, project: str) -> Looked:
    """Return where the paths of a script lead. It blocks, and raises nothing.

    Args:
        scan: what the scanner has found; its own doubts are passed on.
        cwd: the folder that the script starts in, absolute.
        project: the project's real path; empty: there is none, and all is outside.
    """
    judge = _Judge(scan, cwd, project)
    answers = list(judge.answers())
    used = dict.fromkeys(Used(one, use) for one, use in answers if isinstance(one, Judged))
    return Looked(
        paths=tuple(dict.fromkeys(one.judged for one in used)),
        opaque=tuple(dict.fromkeys([*scan.opaque, *(one.reason for one, _ in answers if isinstance(one, Unclear))])),
        used=tuple(used),
    )


@attrs.define(eq=False)
class _Judge:
    """Judges the paths of a script, each by itself, and what the script does to some of them before it uses others."""

    scan: Scan
    cwd: str
    project: str
    moves: Moves = attrs.field(init=False)
    followers: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.moves = Moves(self.scan)
        self.followers = followers(self.scan)

    def answers(self) -> Iterator[tuple[Judged | Unclear, PathUse | None]]:
        """Yield what is to say of each path, and what is done with it; some more than once."""
        for folder in dict.fromkeys(command.cwd for command in self.scan.commands if not command.remote):
            yield from zip(self._folder(folder), itertools.repeat(None), strict=False)
        for command in self.scan.commands:
            name = command.argv[0] or ""
            yield from self._searched(command)
            if reason := runs_more(command, self.project):
                yield Unclear(reason), None
            # Without a path it goes into the folder that it runs in.
            if name.rpartition("/")[2] in self.followers and command.cwd and leads_out(command.cwd, self.project):
                yield Unclear(f"{name} follows links, and what lies in {command.cwd} leads out of the project"), None
            if "/" in name and not command.remote and command.cwd is not None:
                run = PathUse(path=os.path.join(command.cwd, name), access="read", by=name)  # noqa: PTH118 - as above
                yield from zip(self._program(name, run.path), itertools.repeat(run), strict=False)
        for use in self.scan.paths:
            yield from zip(self._use(use), itertools.repeat(use), strict=False)
        if self.scan.trusts_names and (name := self._odd_name()):
            yield Unclear(f"there is a file {name!r:.100}, which reads like an option"), None

    def _searched(self, command: ScannedCommand) -> Iterator[tuple[Judged | Unclear, PathUse | None]]:
        """Yield the files that a search may show and that nobody has named, as far as they look like secrets."""
        for folder in searched_folders(command, self.scan.paths):
            real = real_path(folder)
            if isinstance(real, Unclear) or not is_within(real.path, self.project):
                continue  # it is judged itself
            for number, path in enumerate(secrets_below(folder, command)):
                if path is None or number >= _MAX_SECRETS:
                    yield Unclear(f"too many files lie in {folder} to tell what {command.argv[0]} shows"), None
                    return
                use = PathUse(path=path, access="read", by=command.argv[0] or "")
                yield from zip(self._judged(path), itertools.repeat(use), strict=False)

    def _odd_name(self) -> str:
        """Return the name of a file that would be taken for an option where names become words; empty: none was found."""
        for folder in dict.fromkeys(command.cwd for command in self.scan.commands):
            with suppress(OSError), os.scandir(folder or self.cwd) as entries:
                for entry in entries:
                    if entry.name.startswith("-"):
                        return entry.name
        for seen, (_, folders, files) in enumerate(os.walk(self.cwd)):
            if seen > _MAX_FOLDERS:
                break
            for name in (*folders, *files):
                if _OPTION_INSIDE.search(name):
                    return name
        return ""

    def _folder(self, folder: str | None) -> Iterator[Judged | Unclear]:
        if folder is None:
            yield Unclear("nobody can tell in which folder a command runs")
            return
        yield from self._judged(folder)
        # `cd` may have failed, and then what follows it runs elsewhere.
        if folder != self.cwd and not os.path.isdir(folder) and not self.moves.makes_folder(folder):  # noqa: PTH112
            yield Unclear(f"there is no folder {folder} to go to")

    def _program(self, name: str, path: str) -> Iterator[Judged | Unclear]:
        if name.rpartition("/")[0] not in _PROGRAM_FOLDERS:
            yield from self._judged(path)

    def _use(self, use: PathUse) -> Iterator[Judged | Unclear]:
        is_opened = use.access == "read" and _OPENED.fullmatch(use.path) is not None
        if use.path in _EMPTY_DEVICES or use.path in _STREAMS or is_opened:
            return
        found = expanded(use.path) if use.is_pattern else (use.path,)
        if isinstance(found, Unclear):
            yield found
            return
        for path in found:
            yield from self._judged(path)
            if use.by in self.followers and leads_out(path, self.project):
                yield Unclear(f"{use.by} follows links, and what lies in {path} leads out of the project")
            real = real_path(path)
            if isinstance(real, Real) and real.missing and self.moves.may_make(real, use.by):
                yield Unclear(f"what {path} is depends on what the script does before")

    def _judged(self, path: str) -> Iterator[Judged | Unclear]:
        real = real_path(path)
        if isinstance(real, Unclear):
            yield real
        elif real.path not in _EMPTY_DEVICES:
            yield Judged(real.path, is_within(real.path, self.project))


def can_enter(folder: str) -> bool:
    """Tell whether there is a folder that one can go to. It blocks."""
    return os.path.isdir(folder) and os.access(folder, os.X_OK)  # noqa: PTH112


# ---- from a program --------------------------------------------------------------------------------------------------


def _answer(line: bytes) -> str:
    """Return the answer to one request, both JSON; to what makes no sense, that nobody can tell."""
    try:
        request: object = json.loads(line)
        asked = _Request.of(cast("dict[str, object]", request) if isinstance(request, dict) else {})
    except ValueError as error:
        looked = Looked(opaque=(f"the request can't be read: {error}",))
    else:
        looked = asked.looked()
    return json.dumps(
        {
            "paths": [{"path": judged.path, "inside": judged.inside} for judged in looked.paths],
            "opaque": bool(looked.opaque),
            "reasons": looked.opaque,
        }
    )


@attrs.frozen
class _Request:
    """What is asked, and where."""

    tool: str
    text: str
    cwd: str
    worktree: str
    home: str

    @classmethod
    def of(cls, given: dict[str, object]) -> Self:
        """Read a request. Raises `ValueError` for what is none."""
        fields = [given.get(name) for name in ("tool", "text", "cwd", "worktree", "home")]
        if not all(isinstance(value, str) for value in fields):
            raise ValueError("it needs the texts tool, text, cwd, worktree and home")
        return cls(*cast("list[str]", fields))

    def looked(self) -> Looked:
        """Answer it."""
        # Without a repository, `worktree` is the root folder.
        project = real_path(self.cwd if self.worktree == "/" else self.worktree)
        root = project.path if isinstance(project, Real) and project.path != "/" else ""
        if self.tool == "bash":
            # Imported here: it loads a grammar.
            from engine.permission.shell.scan import scan

            return judge_scan(
                scan(self.text, cwd=self.cwd, home=self.home, is_folder=can_enter), cwd=self.cwd, project=root
            )
        judged = judge_path(self.text, cwd=self.cwd, project=root, home=self.home, kind="file")
        return Looked(opaque=(judged.reason,)) if isinstance(judged, Unclear) else Looked(paths=(judged,))


def main(arguments: list[str]) -> None:
    """Answer one request on standard input, or, with `--serve`, one for each line. Exits with 2 for other arguments."""
    if arguments == ["--serve"]:
        for line in sys.stdin.buffer:
            _write(_answer(line))
    elif not arguments:
        _write(_answer(sys.stdin.buffer.read()))
    else:
        sys.exit("usage: python -m engine.permission.paths [--serve]")


def _write(answer: str) -> None:
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()
