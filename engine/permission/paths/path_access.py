"""Where a path leads: into the project or out of it. Every path is judged by its real path.

`judge_path` is for a path in a tool's arguments, `analyse_paths` for those in a script. Both read
the file system. A script is judged before it runs: where it changes links and then follows
them, as far as that can be seen, the answer is `Unclear`.

    echo '{"tool": "read", "text": "a.txt", "cwd": "/p", "worktree": "/p", "home": "/h"}' | python -m engine.permission.paths

prints `{"paths": [{"path": "/p/a.txt", "inside": true}], "opaque": false, "reasons": []}`; with
`--serve`, one such line for each line of input.
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
from engine.permission.effects.scan_result import PathUse, Scan, ScannedCommand, UnnamedRead
from engine.permission.paths.git_config import git_execution_risk
from engine.permission.paths.link_followers import programs_following_links, risk_of_links
from engine.permission.paths.path_mutations import Moves
from engine.permission.paths.secret_search import (
    find_listed_secrets,
    find_secrets,
    folders_searched,
    holds_secret_name,
)
from engine.permission.paths.shell_glob import expand_glob

# A tool's path may begin with `~`; in a script the shell has expanded it.
Kind = Literal["file", "shell"]

# The user names that `useradd` accepts.
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]*\$?")
# Writing there destroys nothing, and reading there reveals nothing.
_EMPTY_DEVICES: Final = frozenset({"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
# A command's open files: they were judged where they were opened, as in `cat <(ls)`.
_STREAMS: Final = frozenset({"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2"})
_OPENED: Final = re.compile(r"/dev/fd/[0-9]{1,4}")
# A space separates words, so what follows it may be read as an option; `xargs` and `read` take away the other signs.
_OPTION_INSIDE: Final = re.compile(r"\s-|[\\'\"]")
# Folders searched for names that look like options: `os.walk` over a large tree would hold up every call.
_MAX_FOLDERS: Final = 2_000
# A longer list in a question would not be read.
_MAX_SECRETS: Final = 20
# Running these programs needs no question about the folder, which lies outside of every project.
_PROGRAM_FOLDERS: Final = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"}
)


@attrs.frozen
class PathLocation:
    """A real path, and whether it lies in the project."""

    path: str
    inside: bool


@attrs.frozen
class PathAccess:
    """How a script uses a real path.

    Attributes:
        target: the path.
        use: how the script uses it; None: a command runs in that folder.
    """

    target: PathLocation
    use: PathUse | None


@attrs.frozen(kw_only=True)
class PathAnalysis:
    """Where the paths of a script lead.

    Attributes:
        paths: the real path of each file and folder that it touches, and of each folder that a command runs in.
        opaque: why these may be incomplete or wrong; empty if they are neither.
        accesses: the same paths, each with its use.
    """

    paths: tuple[PathLocation, ...] = ()
    opaque: tuple[str, ...] = ()
    accesses: tuple[PathAccess, ...] = ()


def judge_path(text: str, *, cwd: str, project: str, home: str, kind: Kind) -> PathLocation | Unclear:
    """Return where a path leads. It blocks, and raises nothing.

    Args:
        text: the path as it was written.
        cwd: the folder that a relative path starts from, absolute.
        project: the project's real path, from `find_project_root`; empty if there is none, and then all is outside.
        home: the user's home folder.
        kind: whether it is an argument of a tool or part of a script.
    """
    if not text.strip() or not is_name(text):
        return Unclear("no file can have this path")
    path = _without_tilde(text, cwd, home) if kind == "file" else text
    if isinstance(path, Unclear):
        return path
    real = real_path(os.path.join(cwd, path))  # noqa: PTH118 - Path would drop parts that matter to the kernel
    return real if isinstance(real, Unclear) else PathLocation(real.path, is_within(real.path, project))


def _without_tilde(text: str, cwd: str, home: str) -> str | Unclear:
    """Expand `~` and `~user` at the beginning of a path. `~name` stays if there is no such user but such a file."""
    if not text.startswith("~"):
        return text
    first, slash, rest = text.partition("/")
    if first == "~":
        return f"{home}{slash}{rest}"
    try:
        # The user database, as a shell asks it; it may be a network service, so this blocks.
        return f"{pwd.getpwnam(first[1:]).pw_dir}{slash}{rest}"
    except (KeyError, ValueError):
        pass
    if _USER.fullmatch(first[1:]) and not os.path.lexists(os.path.join(cwd, first)):  # noqa: PTH118 - see above
        return Unclear(f"there is no user {first[1:]}, and no file {first}")
    return text


# ---- scripts ---------------------------------------------------------------------------------------------------------


def analyse_paths(scan: Scan, *, cwd: str, project: str, is_confined: bool = False) -> PathAnalysis:
    """Return where the paths of a script lead. It blocks, and raises nothing.

    Args:
        scan: the scanned script; its own reasons for being opaque are included.
        cwd: the folder that the script starts in, absolute.
        project: the project's real path; empty if there is none, and then all is outside.
        is_confined: the kernel keeps it from reading outside of the project.
    """
    judge = _Judge(scan, cwd, project, is_confined)
    answers = list(judge.answers())
    accesses = dict.fromkeys(PathAccess(access, use) for access, use in answers if isinstance(access, PathLocation))
    return PathAnalysis(
        paths=tuple(dict.fromkeys(access.target for access in accesses)),
        opaque=tuple(
            dict.fromkeys([*scan.opaque, *(access.reason for access, _ in answers if isinstance(access, Unclear))])
        ),
        accesses=tuple(accesses),
    )


@attrs.define(eq=False)
class _Judge:
    """Judges each path of a script, and how the script changes some paths before it uses others."""

    scan: Scan
    cwd: str
    project: str
    is_confined: bool
    moves: Moves = attrs.field(init=False)
    followers: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.moves = Moves(self.scan)
        self.followers = programs_following_links(self.scan)

    # Each program, folder and file is judged by itself: one of them outside makes the call ask.
    def answers(self) -> Iterator[tuple[PathLocation | Unclear, PathUse | None]]:
        """Yield each path with its location, or why it is unclear, and its use; some more than once."""
        for folder in dict.fromkeys(command.cwd for command in self.scan.commands if not command.remote):
            yield from zip(self._folder(folder), itertools.repeat(None), strict=False)
        for command in self.scan.commands:
            yield from self._search_results(command)
            yield from zip(map(Unclear, self._command_risks(command)), itertools.repeat(None), strict=False)
            name = command.argv[0] or ""
            if "/" in name and not command.remote and command.cwd is not None:
                run = PathUse(path=os.path.join(command.cwd, name), access="read", by=name)  # noqa: PTH118 - as above
                # A program called by its path is read, and is judged as a file.
                yield from zip(self._program(name, run.path), itertools.repeat(run), strict=False)
        for use in self.scan.paths:
            yield from zip(self._use(use), itertools.repeat(use), strict=False)
        yield from itertools.chain.from_iterable(map(self._unnamed, self.scan.unnamed))
        if self.scan.trusts_names and (name := self._odd_name()):
            yield Unclear(f"there is a file {name!r:.100}, which a program may read as an option"), None

    def _command_risks(self, command: ScannedCommand) -> Iterator[str]:
        """Yield why a command may touch more than the paths that it names."""
        if reason := git_execution_risk(command, self.project):
            yield reason
        name = command.argv[0] or ""
        follows = name.rpartition("/")[2] in self.followers
        # Without a path it goes into the folder that it runs in.
        # A program without arguments, such as `rg`, searches the working directory.
        if follows and command.cwd and (reason := risk_of_links(name, command.cwd, self.project)):
            yield reason

    def _search_results(self, command: ScannedCommand) -> Iterator[tuple[PathLocation | Unclear, PathUse | None]]:
        """Yield the files that look like secrets and that a search may show although nothing names them."""
        for folder in folders_searched(command, self.scan.paths):
            real = real_path(folder)
            if isinstance(real, Unclear) or not is_within(real.path, self.project):
                continue  # the folder itself is judged already
            for number, path in enumerate(find_secrets(folder, command, self.project)):
                if isinstance(path, Unclear):
                    yield path, None
                    return
                if path is None or number >= _MAX_SECRETS:
                    yield Unclear(f"{folder} contains too many files to tell what {command.argv[0]} shows"), None
                    return
                use = PathUse(path=path, access="read", by=command.argv[0] or "")
                yield from zip(self._judge(path), itertools.repeat(use), strict=False)

    def _unnamed(self, read: UnnamedRead) -> Iterator[tuple[PathLocation | Unclear, PathUse | None]]:
        """Yield the secrets among files that no word names."""
        # In the box, a program that shows nothing of what is in files tells nothing that matters.
        if (read.listing is None and read.shown) or not (self.is_confined or read.listing):
            yield Unclear(f"{read.by}: a file with an unknown name"), None
            return
        if read.listing is None:
            return
        if read.by == "redirection" and not self.is_confined:
            yield Unclear("a redirection with an unknown file"), None
            return
        for number, path in enumerate(find_listed_secrets(read.listing) if read.shown else ()):
            if path is None or number >= _MAX_SECRETS:
                yield Unclear(f"there are too many files to tell what {read.by} shows"), None
                return
            use = PathUse(path=path, access="read", by=read.by)
            yield from zip(self._judge(path), itertools.repeat(use), strict=False)

    def _odd_name(self) -> str:
        """Return the name of a file that a program would read as an option where a glob expands; empty if there is none."""
        for folder in dict.fromkeys(command.cwd for command in self.scan.commands):
            with suppress(OSError), os.scandir(folder or self.cwd) as entries:
                # `rm *` with a file called "-rf": bash passes the name as an option.
                for entry in entries:
                    if entry.name.startswith("-"):
                        return entry.name
        # Below the working directory only: further patterns are rare, and walks are expensive.
        for seen, (_, folders, files) in enumerate(os.walk(self.cwd)):
            if seen > _MAX_FOLDERS:
                break
            for name in (*folders, *files):
                if _OPTION_INSIDE.search(name) or holds_secret_name(name):
                    return name
        return ""

    def _folder(self, folder: str | None) -> Iterator[PathLocation | Unclear]:
        if folder is None:
            yield Unclear("it is unknown in which folder a command runs")
            return
        yield from self._judge(folder)
        # `cd` may fail, and then the following commands run elsewhere.
        # Without this, `cd typo; rm -rf build` would delete elsewhere than what was shown.
        if folder != self.cwd and not os.path.isdir(folder) and not self.moves.makes_folder(folder):  # noqa: PTH112
            yield Unclear(f"the folder {folder} does not exist")

    def _program(self, name: str, path: str) -> Iterator[PathLocation | Unclear]:
        if name.rpartition("/")[0] not in _PROGRAM_FOLDERS:
            yield from self._judge(path)

    def _use(self, use: PathUse) -> Iterator[PathLocation | Unclear]:
        if _is_harmless_device(use):
            return
        paths = expand_glob(use.path) if use.is_pattern else (use.path,)
        if isinstance(paths, Unclear):
            yield paths
            return
        for path in paths:
            yield from self._judge(path)
            if use.by in self.followers and (reason := risk_of_links(use.by, path, self.project)):
                yield Unclear(reason)
            # A missing file may be created as a link by an earlier command of the same script.
            real = real_path(path)
            if isinstance(real, Real) and real.missing and self.moves.may_make(real, use.by):
                yield Unclear(f"what {path} is depends on earlier commands of the script")

    def _judge(self, path: str) -> Iterator[PathLocation | Unclear]:
        real = real_path(path)
        if isinstance(real, Unclear):
            yield real
        elif real.path not in _EMPTY_DEVICES:
            yield PathLocation(real.path, is_within(real.path, self.project))


def _is_harmless_device(use: PathUse) -> bool:
    is_opened = use.access == "read" and _OPENED.fullmatch(use.path) is not None
    return use.path in _EMPTY_DEVICES or use.path in _STREAMS or is_opened


def can_enter(folder: str) -> bool:
    """Return whether *folder* is a folder that a command can change to. It blocks."""
    return os.path.isdir(folder) and os.access(folder, os.X_OK)  # noqa: PTH112


# ---- from a program --------------------------------------------------------------------------------------------------


def _answer(line: bytes) -> str:
    """Return the answer to one request, both JSON; an invalid request gets an opaque answer."""
    try:
        request: object = json.loads(line)
        parsed = _Request.of(cast("dict[str, object]", request) if isinstance(request, dict) else {})
    except ValueError as error:
        analyse = PathAnalysis(opaque=(f"the request can't be read: {error}",))
    else:
        analyse = parsed.analyse()
    return json.dumps(
        {
            "paths": [{"path": target.path, "inside": target.inside} for target in analyse.paths],
            "opaque": bool(analyse.opaque),
            "reasons": analyse.opaque,
        }
    )


@attrs.frozen
class _Request:
    """One request."""

    tool: str
    text: str
    cwd: str
    worktree: str
    home: str

    @classmethod
    def of(cls, fields: dict[str, object]) -> Self:
        """Parse a request. Raises `ValueError` if it is invalid."""
        values = [fields.get(name) for name in ("tool", "text", "cwd", "worktree", "home")]
        if not all(isinstance(value, str) for value in values):
            raise ValueError("it needs the strings tool, text, cwd, worktree and home")
        return cls(*cast("list[str]", values))

    def analyse(self) -> PathAnalysis:
        """Answer it."""
        # Without a repository, `worktree` is the root folder.
        project = real_path(self.cwd if self.worktree == "/" else self.worktree)
        root = project.path if isinstance(project, Real) and project.path != "/" else ""
        if self.tool == "bash":
            # Imported here: it loads a grammar.
            from engine.permission.shell.scan import scan

            return analyse_paths(
                scan(self.text, cwd=self.cwd, home=self.home, is_folder=can_enter), cwd=self.cwd, project=root
            )
        target = judge_path(self.text, cwd=self.cwd, project=root, home=self.home, kind="file")
        return PathAnalysis(opaque=(target.reason,)) if isinstance(target, Unclear) else PathAnalysis(paths=(target,))


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
