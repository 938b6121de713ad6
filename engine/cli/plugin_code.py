"""The user's plugins in Python, for the commands that open an engine: loaded once in a process, each alone."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from engine.cli.flags.config_flags import loaded_bundles, refused_bundles
from engine.cli.terminal.standard_streams import keep_standard_output
from engine.config.plugin_config import PluginOptions
from engine.plugins.find_packages import has_packages
from engine.plugins.tool_files import FileApprovals, ToolFolders, user_tool_folders
from engine.settings_file.config_file import usual_path

if TYPE_CHECKING:
    from engine.config.config import Config
    from engine.core.hooks import Hooks
    from engine.plugins.plugin_packages import LoadedPackage
    from engine.plugins.plugin_tools import PluginTools


def with_packages(config: Config) -> Config:
    """Return the configuration with the folders of plugins that are packages, which are loaded now. It blocks."""
    folders = (package.folders for package in user_packages(config.plugin_options))
    more = tuple(each for each in folders if each is not None)
    return attrs.evolve(config, plugins=(*config.plugins, *more)) if more else config


def package_hooks(config: Config) -> Hooks | None:
    """Return the hooks of plugins that are packages; None if there are none."""
    packages = user_packages(config.plugin_options)
    if not packages:
        return None
    from engine.plugins.plugin_packages import hooks_of_packages

    return hooks_of_packages(packages)


def plugin_tools(config: Config, *, trusts: bool, shows_all: bool) -> PluginTools:
    """Return the source of the plugins' tools. It blocks.

    Args:
        config: the configuration.
        trusts: every project counts as trusted.
        shows_all: clients read also what is printed when the program starts.
    """
    from engine.plugins.plugin_tools import PluginTools

    folders = tool_folders(config.plugin_options, trusts=trusts)
    return PluginTools(
        folders,
        state=state_folder(),
        options=config.plugin_options,
        packages=user_packages(config.plugin_options),
        problems=refused_bundles() if shows_all else (),
    )


def tool_folders(options: PluginOptions, *, trusts: bool = False) -> ToolFolders:
    """Return where tool files are. It blocks.

    Folders of the user's that don't exist yet are left out: their code may print, and standard output was not kept for that.
    """
    from engine.permission.user_policy import UserFiles

    files, user = UserFiles.default(), _user_folders()
    if user:
        keep_standard_output()
    return ToolFolders(
        user=user,
        home=str(files.home),
        approvals=FileApprovals.of_user(),
        is_trusted=(lambda _: True) if trusts else files.trust.is_trusted,
        disabled=options.disabled,
        other_names=frozenset(_bundle_names()) | {package.name for package in user_packages(options)},
    )


def user_packages(options: PluginOptions) -> Sequence[LoadedPackage]:
    """Return the plugins that are packages, loaded once in a process. It blocks."""
    from platformdirs import user_data_path

    state = user_data_path("engine", appauthor=False) / "plugin-state"
    key = json.dumps([str(state), options.disabled, options.settings], sort_keys=True)
    if key not in _loaded:
        if not has_packages():
            _loaded[key] = ()
            return ()
        from engine.plugins.plugin_packages import load_packages

        # Before any of their code runs.
        keep_standard_output()
        _loaded[key] = load_packages(options, state, _bundle_names())
    return _loaded[key]


_loaded: dict[str, Sequence[LoadedPackage]] = {}


def state_folder() -> Path:
    """Return the folder of the user's state."""
    from platformdirs import user_state_path

    return user_state_path("engine", appauthor=False)


def _user_folders() -> tuple[str, ...]:
    return tuple(filter(os.path.isdir, user_tool_folders(usual_path().parent)))


def _bundle_names() -> tuple[str, ...]:
    return tuple(bundle.plugin.name for bundle in loaded_bundles())
