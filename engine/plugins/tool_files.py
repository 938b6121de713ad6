"""Tool files: single Python files with tools, in the user's folder and in those of trusted projects. All of it blocks.

A file of a project counts only with the content that the user has approved. One of the user's own counts as it is when the
program starts; a change while it runs needs approval, too, since the model may have written it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, cast

import attrs

from engine.core.errors import ConfigError, EngineError
from engine.core.value_base import Value
from engine.permission.grants.state_file import StateFile
from engine.prompt.workspace import Workspace

# Of the user's folder of the configuration, and of each project.
USER_FOLDERS: Final = ("tools", "tool")
PROJECT_FOLDERS: Final = (".engine/tools", ".engine/tool")
MAX_BYTES: Final = 262_144
MAX_FILES: Final = 50
_SUFFIX: Final = ".py"
_MOST_APPROVED: Final = 200

FileOrigin = Literal["user", "project"]
FileState = Literal["usable", "disabled", "untrusted", "needs_approval", "refused"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolFile(Value):
    """A tool file as it is now.

    Attributes:
        path: its real path.
        name: the plugin's name: that of the file.
        origin: whose it is.
        digest: the SHA-256 of its content; empty: it can't be read.
        code: its content; empty unless it is usable.
        state: whether it may be used.
        problem: why not.
    """

    path: str
    name: str
    origin: FileOrigin
    digest: str = ""
    code: bytes = attrs.field(default=b"", repr=False)
    state: FileState = "usable"
    problem: str = ""


@attrs.frozen(eq=False, repr=False)
class FileApprovals(Value):
    """What the user has approved of tool files. The methods block, and raise `ConfigError` and `StoreError`."""

    records: StateFile

    @classmethod
    def of_user(cls) -> FileApprovals:
        """Return the user's."""
        # Imported here: most users have no tool files.
        from platformdirs import user_state_path

        return cls(StateFile(user_state_path("engine", appauthor=False) / "tool-files.json", "approved"))

    def digests(self) -> Mapping[str, str]:
        """Return the hash of each approved file by its path."""
        return {path: digest for path, (digest, _) in self._read().items()}

    def difference(self, path: str, code: bytes) -> list[str]:
        """Return what is different from what was approved, as lines; all of it if nothing was."""
        before = self._read().get(path, ("", ""))[1].splitlines()
        lines = code.decode("utf-8", "replace").splitlines()
        if not before:
            return [f"+ {line}" for line in lines]
        import difflib

        changes = list(difflib.unified_diff(before, lines, lineterm="", n=2))[2:]
        return changes or ["(only the ends of lines have changed)"]

    def approve(self, path: str, code: bytes) -> None:
        """Approve a file with that content, and no other."""
        entry = {"path": path, "sha256": digest_of(code), "text": code.decode("utf-8", "replace")}
        self.records.update(
            lambda entries: [*(one for one in entries if _entry(one)[0] != path), entry][-_MOST_APPROVED:]
        )

    def _read(self) -> Mapping[str, tuple[str, str]]:
        entries = map(_entry, self.records.read())
        return {path: (digest, text) for path, digest, text in entries}


def _entry(value: object) -> tuple[str, str, str]:
    values = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    path, digest, text = values.get("path"), values.get("sha256"), values.get("text")
    if not isinstance(path, str) or not isinstance(digest, str) or not isinstance(text, str):
        raise ConfigError("the list of approved tool files is damaged")
    return path, digest, text


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolFolders(Value):
    """Where tool files are, and which of them may be used. Its methods block.

    Attributes:
        user: the user's folders.
        home: the user's home folder.
        approvals: what the user has approved.
        is_trusted: whether a project is trusted.
        disabled: the names of plugins that are not loaded.
        other_names: the names of other plugins.
    """

    user: tuple[str, ...]
    home: str
    approvals: FileApprovals
    is_trusted: Callable[[str], bool]
    disabled: tuple[str, ...] = ()
    other_names: frozenset[str] = frozenset()

    def own_digests(self) -> Mapping[str, str]:
        """Return the hashes of the user's files as they are now, by path."""
        return {file.path: file.digest for file in _read_folders(self.user, "user")}

    def find(self, cwd: str, at_start: Mapping[str, str] | None = None) -> Sequence[ToolFile]:
        """Return the tool files for a working directory, the user's first; where names are equal, the first one counts.

        *at_start*: the hashes of the user's files as they were at the program's start; None: it is starting.
        """
        workspace = Workspace.of(cwd, self.home)
        project = workspace.own_folders(PROJECT_FOLDERS)
        if not project and not any(map(os.path.isdir, self.user)):
            return ()
        try:
            approved: Mapping[str, str] = self.approvals.digests()
            is_trusted = bool(project) and self.is_trusted(workspace.project)
        except EngineError as error:
            return self._refuse_all(project, str(error))
        files = [self._judge_own(file, approved, at_start) for file in _read_folders(self.user, "user")]
        files += [
            self._judge_project(file, approved, is_trusted=is_trusted) for file in _read_folders(project, "project")
        ]
        return self._named(files)

    def _refuse_all(self, project: Sequence[str], why: str) -> Sequence[ToolFile]:
        files = [*_read_folders(self.user, "user"), *_read_folders(project, "project")]
        return [_refused(file, "refused", why) for file in files]

    def _judge_own(self, file: ToolFile, approved: Mapping[str, str], at_start: Mapping[str, str] | None) -> ToolFile:
        if (
            file.state != "usable"
            or at_start is None
            or file.digest in {at_start.get(file.path), approved.get(file.path)}
        ):
            return file
        return _refused(
            file,
            "needs_approval",
            f"it has changed since the engine was started. Next: engine plugins approve {shlex.quote(file.path)}",
        )

    def _judge_project(self, file: ToolFile, approved: Mapping[str, str], *, is_trusted: bool) -> ToolFile:
        if file.state != "usable":
            return file
        if not is_trusted:
            return _refused(file, "untrusted", "its project is not trusted. Next: engine permissions trust")
        if approved.get(file.path) == file.digest:
            return file
        what = "it has changed since you approved it" if file.path in approved else "you have not approved it"
        return _refused(file, "needs_approval", f"{what}. Next: engine plugins approve {shlex.quote(file.path)}")

    def _named(self, files: Iterable[ToolFile]) -> Sequence[ToolFile]:
        named: dict[str, ToolFile] = {}
        named_files: list[ToolFile] = []
        for each in files:
            file = each
            if file.name in self.disabled:
                file = _refused(file, "disabled", "the configuration disables it")
            elif file.state == "usable" and file.name in self.other_names:
                file = _refused(file, "refused", "another plugin has its name")
            elif file.name in named:
                file = _refused(file, "refused", f"{named[file.name].path} has the same name")
            named.setdefault(file.name, file)
            named_files.append(file)
        return named_files


def digest_of(code: bytes) -> str:
    """Return the hash by which a tool file is approved."""
    return hashlib.sha256(code).hexdigest()


def read_tool_file(path: str, origin: FileOrigin) -> ToolFile:
    """Return a file as it is now; what is wrong with it is its `problem`."""
    name = os.path.basename(path).removesuffix(_SUFFIX).replace("_", "-").lower()  # noqa: PTH119 - a str
    file = ToolFile(path=path, name=name, origin=origin)
    from engine.plugins.plugin import check_plugin_name

    try:
        check_plugin_name(name)
        code = _read(path, origin)
    except ConfigError as error:
        return _refused(file, "refused", str(error))
    except OSError as error:
        return _refused(file, "refused", error.strerror or str(error))
    return attrs.evolve(file, digest=digest_of(code), code=code)


def _refused(file: ToolFile, state: FileState, problem: str) -> ToolFile:
    return attrs.evolve(file, state=state, problem=problem, code=b"")


def _read_folders(folders: Iterable[str], origin: FileOrigin) -> Iterator[ToolFile]:
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                names = sorted(one.name for one, _ in zip(entries, range(1_000), strict=False))
        except OSError:  # most of the usual folders do not exist
            continue
        files = [name for name in names if name.endswith(_SUFFIX) and not name.startswith(("_", "."))]
        yield from (read_tool_file(os.path.join(folder, name), origin) for name in files[:MAX_FILES])  # noqa: PTH118 - a str


def _read(path: str, origin: FileOrigin) -> bytes:
    # What a link of a project leads to may be outside of it; users link files to where they keep them. It may be a pipe.
    link = os.O_NOFOLLOW if origin == "project" else 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | link)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError("it is no regular file")
        if status.st_mode & stat.S_IWOTH or status.st_uid not in {0, os.geteuid()}:
            raise ConfigError("others can change it: you must own it, and not everybody may write it")
        code = file.read(MAX_BYTES + 1)
    if len(code) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES:,} bytes")
    return code


def user_tool_folders(config_folder: Path) -> tuple[str, ...]:
    """Return the user's folders of tool files, whether they exist or not."""
    return tuple(os.path.realpath(config_folder / name) for name in USER_FOLDERS)
