"""Plugins that are Python packages: entry points of the group `engine.plugins`, each loaded alone.

The user's own installer has put them where the engine's Python looks, so they are code of the user's, and run inside of
the engine with all of its rights. They are loaded unless the configuration disables them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import attrs

from engine.config.plugin_config import PluginFolders, PluginOptions
from engine.core.errors import ConfigError
from engine.core.hooks import Hooks
from engine.core.value_base import Value
from engine.plugins.find_packages import GROUP, has_packages
from engine.plugins.guarded_call import SECONDS, call_guarded, exit_text
from engine.plugins.plugin import MakePlugin, Plugin, PluginContext, check_plugin_name
from engine.tools.hook_runner import name_of
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PackageState = Literal["loaded", "disabled", "refused"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoadedPackage(Value):
    """An entry point, with what came of loading it.

    Attributes:
        name: its name, which is the plugin's.
        package: the package that it belongs to, with its version.
        target: what it names: `module:function`.
        state: whether it was loaded.
        problem: why it was refused.
        notes: what it did that it should not.
        plugin: what it returned.
        folders: its folders, as the configuration has those of other plugins.
    """

    name: str
    package: str
    target: str
    state: PackageState = "refused"
    problem: str = ""
    notes: tuple[str, ...] = ()
    plugin: Plugin = Plugin()
    folders: PluginFolders | None = None


def load_packages(
    options: PluginOptions, state: Path, other_names: Collection[str] = (), *, seconds: float = SECONDS
) -> Sequence[LoadedPackage]:
    """Load the plugins of all packages, each alone, sorted by name. It blocks.

    Args:
        options: which are disabled, and the settings of each.
        state: the folder with the folders for their state.
        other_names: the names of other plugins.
        seconds: how long each may take.
    """
    if not has_packages():
        return ()
    points = sorted(_entry_points(), key=lambda one: (one.name, one.value))
    counts = Counter(point.name for point in points)
    loaded: list[LoadedPackage] = []
    for point in points:
        package = LoadedPackage(name=point.name, package=_package_of(point), target=point.value)
        if point.name in options.disabled:
            loaded.append(attrs.evolve(package, state="disabled"))
        elif counts[point.name] > 1:
            # Whichever came first would depend on the order of folders.
            loaded.append(attrs.evolve(package, problem="several packages have a plugin of this name"))
        elif point.name in other_names:
            loaded.append(attrs.evolve(package, problem="a plugin of this name was added with `engine plugins add`"))
        else:
            loaded.append(_load(package, point, options, state, seconds))
    return loaded


def _entry_points() -> Iterator[EntryPoint]:
    from importlib.metadata import entry_points

    yield from entry_points(group=GROUP)


def _package_of(point: EntryPoint) -> str:
    dist = point.dist
    return "" if dist is None else f"{dist.name} {dist.version}"


def _load(
    package: LoadedPackage, point: EntryPoint, options: PluginOptions, state: Path, seconds: float
) -> LoadedPackage:
    try:
        name = check_plugin_name(point.name)
    except ConfigError as error:
        return attrs.evolve(package, problem=str(error))
    context = PluginContext(name=name, settings=options.settings.get(name, {}), folder=state / name)
    place = _place_of(point.module)
    called = call_guarded(partial(_make, point, context), files=place, seconds=seconds)
    package = attrs.evolve(package, notes=called.notes)
    if called.problem:
        return attrs.evolve(package, problem=called.problem)
    try:
        plugin = _checked(called.value)
        folders = PluginFolders(
            name=name,
            folder=os.path.realpath(place if os.path.isdir(place) else os.path.dirname(place)),  # noqa: PTH112, PTH120 - a str
            skills=_folders("skills", plugin.skills),
            commands=_folders("commands", plugin.commands),
            agents=_folders("agents", plugin.agents),
        )
    except ConfigError as error:
        return attrs.evolve(package, problem=f"{error} ({point.value})")
    return attrs.evolve(package, state="loaded", plugin=plugin, folders=folders)


def _place_of(module: str) -> str:
    """Return the folder or the file of a module's top package; nothing of it is imported."""
    from importlib.util import find_spec

    try:
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return ""
    return next(iter(spec.submodule_search_locations or ()), spec.origin or "")


def _make(point: EntryPoint, context: PluginContext) -> object:
    function = cast("object", point.load())
    if not callable(function):
        raise ConfigError(f"{point.value} must be a function of a PluginContext, not {type(function).__name__}")
    context.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return cast("MakePlugin", function)(context)


def _checked(plugin: object) -> Plugin:
    """Return what an entry point returned, if it is a plugin. Raises `ConfigError`."""
    if not isinstance(plugin, Plugin):
        raise ConfigError(f"it returned {type(plugin).__name__}, not engine.plugins.Plugin")
    fields: dict[str, object] = attrs.asdict(plugin, recurse=False)
    for kind in ("tools", "commands", "agents", "skills"):
        if not isinstance(fields[kind], tuple):
            raise ConfigError(f"its {kind} are {type(fields[kind]).__name__}, not a tuple")
    for tool in cast("tuple[object, ...]", fields["tools"]):
        if not isinstance(tool, Tool):
            raise ConfigError(f"its tools hold {type(tool).__name__}: tools are made with engine.tool")
    if not isinstance(fields["hooks"], Hooks):
        raise ConfigError(f"its hooks are {type(fields['hooks']).__name__}, not engine.hooks.Hooks")
    repeated = [name for name, count in Counter(tool.name for tool in plugin.tools).items() if count > 1]
    if repeated:
        raise ConfigError(f"it has two tools called {repeated[0]}")
    _check_hooks(plugin.hooks)
    return plugin


def _check_hooks(hooks: Hooks) -> None:
    points: dict[str, object] = attrs.asdict(hooks, recurse=False)
    for point, functions in points.items():
        if not isinstance(functions, tuple) or not all(map(callable, cast("tuple[object, ...]", functions))):
            raise ConfigError(f"its hooks.{point} is no tuple of functions")


def _folders(kind: str, paths: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    folders: list[str] = []
    for path in paths:
        if not isinstance(cast("object", path), (str, os.PathLike)) or not Path(path).is_absolute():
            raise ConfigError(f"its {kind} must be absolute paths of folders, not {path!r}")
        if not Path(path).is_dir():
            raise ConfigError(f"its {kind} name {os.fspath(path)}, which is no folder")
        folders.append(os.path.realpath(path))
    return tuple(folders)


@attrs.frozen(eq=False, repr=False)
class _PluginHook:
    """A hook of a plugin, whose name says whose it is."""

    hook: Callable[[object], Awaitable[object]]
    name: str

    @property
    def timeout(self) -> object:
        """Its own deadline."""
        return getattr(self.hook, "timeout", None)

    async def __call__(self, subject: object) -> object:
        """Call it. A checkpoint if it is one. If it ends the program, that is an ordinary error."""
        try:
            return await self.hook(subject)
        except SystemExit as error:
            raise RuntimeError(exit_text(error)) from error


def hooks_of_packages(packages: Sequence[LoadedPackage]) -> Hooks:
    """Return the hooks of all packages, each named after its plugin."""
    hooks = Hooks()
    for package in packages:
        points: dict[str, tuple[Callable[[object], Awaitable[object]], ...]]
        points = attrs.asdict(package.plugin.hooks, recurse=False)
        named = {
            point: tuple(_PluginHook(one, f"{name_of(one)} of the plugin {package.name}") for one in functions)
            for point, functions in points.items()
        }
        hooks = hooks.then(Hooks(**named))  # type: ignore[arg-type]  # each has the type that it had
    return hooks
