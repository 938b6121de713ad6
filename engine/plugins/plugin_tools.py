"""`PluginTools`: the tools of plugins in Python, as a source. Each plugin is loaded alone; what is wrong with one is a notice.

Tool files are looked at when a turn begins, and never during one: a turn has the tools that it began with, whatever is changed
meanwhile, and a process that it may call lives until it is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, final

import attrs
import trio

from engine.config.plugin_config import PluginOptions
from engine.core.errors import ConfigError
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.plugins.tool_files import ToolFile, ToolFolders

if TYPE_CHECKING:
    from engine.core.ids import SessionId
    from engine.plugins.isolated_file import IsolatedFile
    from engine.plugins.plugin_packages import LoadedPackage
    from engine.plugins.plugin_tool import PluginTool
    from engine.tools.tool import Tool
    from engine.tools.tool_source import SourceScope

# Files of so many folders stay loaded although no turn uses them.
_MOST_FOLDERS: Final = 4


class _Key(NamedTuple):
    """A tool file with one content, and the folder that its process works in; empty: it is loaded into the engine."""

    path: str
    digest: str
    folder: str


@attrs.define(kw_only=True, eq=False, repr=False)
class _LoadedFile:
    """A tool file that was loaded, or could not be."""

    file: ToolFile
    own: tuple[PluginTool, ...] = ()
    isolated: IsolatedFile | None = None
    problems: tuple[str, ...] = ()

    def tools(self, scope: SourceScope, override: Sequence[str]) -> tuple[PluginTool, ...]:
        return self.own if self.isolated is None else self.isolated.tools(scope, override)

    def notices(self) -> Iterator[str]:
        for problem in self.problems:
            yield f"the tool file {self.file.path}: {problem}"
        if self.isolated is not None and self.isolated.problem:
            yield f"the tool file {self.file.path} can't be used: {self.isolated.problem}"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _FolderFiles(Value):
    """The tool files of a working directory: those in use, and those that are not."""

    loaded: tuple[_LoadedFile, ...] = ()
    refused: tuple[ToolFile, ...] = ()


@final
class PluginTools:
    """The tools of plugins in Python, as a source for `engine.Ports`."""

    def __init__(
        self,
        folders: ToolFolders,
        *,
        state: Path,
        options: PluginOptions | None = None,
        packages: Sequence[LoadedPackage] = (),
        problems: Sequence[str] = (),
        seconds: float | None = None,
    ) -> None:
        """Prepare the plugins. It blocks: it reads the user's tool files, which count as they are now.

        Args:
            folders: where tool files are.
            state: the folder for what is remembered of tool files in processes of their own.
            options: what the user says about plugins.
            packages: the plugins that are packages, loaded.
            problems: what else the user should know at the first turn.
            seconds: how long loading a file may take; None: as long as a package.
        """
        self._folders = folders
        self._options = options or PluginOptions()
        self._state = state
        self._seconds = seconds
        self._at_start: Mapping[str, str] = folders.own_digests()
        self._package_tools, refused = _package_tools(packages, self._options.override)
        self._problems = (*problems, *_package_problems(packages), *refused)
        self._files: dict[_Key, _LoadedFile] = {}
        self._by_folder: dict[str, _FolderFiles] = {}
        self._in_turns: dict[SessionId, _FolderFiles] = {}
        self._nursery: trio.Nursery | None = None
        self._is_running = trio.Event()
        self._loading = trio.Lock()

    @property
    def name(self) -> str:
        """What people call it."""
        return "plugins"

    async def run(self) -> None:
        """Run the processes of tool files until cancelled. Always a checkpoint."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._is_running.set()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def is_empty(self, scope: SourceScope) -> bool:
        """Return whether there is no tool for a session."""
        return not self._package_tools and not self._files_of(scope).loaded

    async def begin_turn(self, scope: SourceScope) -> None:
        """Look for changes of tool files, and load what is new. A checkpoint.

        If cancelled, the turn has what an earlier one had, and what was not loaded is loaded by the next one.
        """
        async with self._loading:
            files_now = await to_thread(self._folders.find, scope.cwd, self._at_start)
            loaded = [await self._load(file, scope) for file in files_now if file.state == "usable"]
            async with trio.open_nursery() as nursery:
                for file in loaded:
                    if file.isolated is not None:
                        nursery.start_soon(file.isolated.wait_settled)
            refused = tuple(file for file in files_now if file.state not in {"usable", "disabled"})
            files = _FolderFiles(loaded=tuple(loaded), refused=refused)
            self._by_folder.pop(scope.cwd, None)
            self._by_folder[scope.cwd] = self._in_turns[scope.session_id] = files
            self._retire()

    def end_turn(self, scope: SourceScope) -> None:
        """End the processes that only this turn could still call. Not a checkpoint."""
        self._in_turns.pop(scope.session_id, None)
        self._retire()

    async def ready(self, scope: SourceScope) -> None:
        """Wait until processes can be started. A checkpoint until then."""
        await self._is_running.wait()

    def tools(self, scope: SourceScope) -> Sequence[Tool]:
        """Return the tools of a session: those that its turn began with."""
        tools = [*self._package_tools, *self._file_tools(scope)]
        counts = Counter(tool.name for tool in tools)
        # Whichever came first would depend on the order: the notice names them.
        return [tool for tool in tools if counts[tool.name] == 1]

    def notices(self, scope: SourceScope) -> Sequence[str]:
        """Return what the user should know of plugins."""
        files = self._files_of(scope)
        names = Counter(tool.name for tool in (*self._package_tools, *self._file_tools(scope)))
        return [
            *self._problems,
            *(f"the tool file {file.path} was not loaded: {file.problem}" for file in files.refused),
            *(text for file in files.loaded for text in file.notices()),
            *(f"several plugins have a tool called {name}: none is used" for name, count in names.items() if count > 1),
        ]

    def _files_of(self, scope: SourceScope) -> _FolderFiles:
        return self._in_turns.get(scope.session_id) or self._by_folder.get(scope.cwd) or _FolderFiles()

    def _file_tools(self, scope: SourceScope) -> Iterator[PluginTool]:
        for file in self._files_of(scope).loaded:
            yield from file.tools(scope, self._options.override)

    async def _load(self, file: ToolFile, scope: SourceScope) -> _LoadedFile:
        """Return a tool file, loaded once for each content. A checkpoint if it is new."""
        is_isolated = self._options.isolated or file.origin == "project"
        key = _Key(file.path, file.digest, scope.cwd if is_isolated else "")
        if key not in self._files:
            if is_isolated:
                await self._start(key, file)
            else:
                self._files[key] = await to_thread(_run, file, tuple(self._options.override), self._seconds)
        return self._files[key]

    async def _start(self, key: _Key, file: ToolFile) -> None:
        """Start the process of a file. A checkpoint. If cancelled, it is not started."""
        # In a thread, and here: it brings the MCP client, and most users have no such files.
        isolated_file = await to_thread(_import_isolated)
        isolated = isolated_file.of(file, key.folder, self._state)
        await self._is_running.wait()
        if self._nursery is None:
            raise ConfigError("the engine is being closed")
        self._files[key] = _LoadedFile(file=file, isolated=isolated)
        self._nursery.start_soon(_run_isolated, isolated, name=f"tool file {file.name}")

    def _retire(self) -> None:
        """End what no turn can call any more, and no turn is likely to. Not a checkpoint."""
        while len(self._by_folder) > _MOST_FOLDERS:
            del self._by_folder[next(iter(self._by_folder))]
        kept = {id(file) for files in (*self._by_folder.values(), *self._in_turns.values()) for file in files.loaded}
        for key, file in list(self._files.items()):
            if id(file) not in kept:
                del self._files[key]
                if file.isolated is not None:
                    file.isolated.stop()


def _import_isolated() -> type[IsolatedFile]:
    from engine.plugins.isolated_file import IsolatedFile

    return IsolatedFile


async def _run_isolated(isolated: IsolatedFile) -> None:
    """Run a process until it is not needed. Always a checkpoint. Raises nothing ordinary: others go on."""
    with ErrorBoundary():
        await isolated.run()


def _run(file: ToolFile, override: tuple[str, ...], seconds: float | None) -> _LoadedFile:
    """Load a file into the engine. It blocks."""
    # Imported here, as below: few users have plugins.
    from engine.plugins.guarded_call import SECONDS, call_guarded
    from engine.plugins.tool_module import run_tool_file

    called = call_guarded(
        partial(run_tool_file, file.path, file.name, file.code), files=file.path, seconds=seconds or SECONDS
    )
    if called.value is None:
        return _LoadedFile(file=file, problems=(called.problem, *called.notes))
    tools, refused = _made(file.name, called.value, override)
    return _LoadedFile(file=file, own=tools, problems=(*called.notes, *refused))


def _made(
    plugin: str, tools: Sequence[Tool], override: Sequence[str]
) -> tuple[tuple[PluginTool, ...], tuple[str, ...]]:
    """Return the tools of a plugin that can be offered, and why others can't."""
    from engine.plugins.plugin_tool import plugin_tool

    made: list[PluginTool] = []
    refused: list[str] = []
    for tool in tools:
        try:
            made.append(plugin_tool(plugin, tool, override))
        except ConfigError as error:
            refused.append(f"its tool {tool.name} is left out: {describe(error)}")
    return tuple(made), tuple(refused)


def _package_tools(
    packages: Sequence[LoadedPackage], override: Sequence[str]
) -> tuple[tuple[PluginTool, ...], tuple[str, ...]]:
    tools: list[PluginTool] = []
    problems: list[str] = []
    for package in packages:
        made, refused = _made(package.name, package.plugin.tools, override)
        tools += made
        problems += (f"the plugin {package.name}: {one}" for one in refused)
    return tuple(tools), tuple(problems)


def _package_problems(packages: Sequence[LoadedPackage]) -> Iterator[str]:
    for package in packages:
        if package.state == "refused":
            yield f"the plugin {package.name}, of the package {package.package}, was not loaded: {package.problem}"
        yield from (f"the plugin {package.name}: {note}" for note in package.notes)
