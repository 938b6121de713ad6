"""The user's configuration as flags and the working directory select it, with the warnings about it."""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import attrs

from engine.cli.terminal.standard_streams import print_error, print_note
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import Config
from engine.core.errors import ConfigError, StoreError
from engine.core.lazy import regex
from engine.settings_file.config_sources import ConfigSources, LoadedConfig, load_sources
from engine.settings_file.project_config import report_ignored
from engine.settings_file.variables import unknown_variables

if TYPE_CHECKING:
    from engine.plugins.installed import LoadedPlugin
    from engine.plugins.plugin_bundle import Bundle

# The list of plugins, in the folder of the user's state.
PLUGINS_FILE: Final = "plugins.json"
# `-c` is also `--continue`: it is `--set` where a key and a value follow, as in `-c defaults.agent=plan`.
_SETTING: Final = regex(r"[a-z_]+(\.[^\s=]+)+=.*", re.DOTALL)


def config_sources(args: argparse.Namespace) -> ConfigSources:
    """Return the sources that the flags select; a command without one of the flags does not have its attribute."""
    return ConfigSources(
        plugins=tuple(bundle.document for bundle in loaded_bundles()),
        path=args.config,
        env=os.environ,
        settings=tuple(cast("list[str]", getattr(args, "set", []))),
        profile_file=cast("str | None", getattr(args, "profile_file", None)) or "",
        cwd=Path(cast("str | Path", getattr(args, "cwd", "."))).expanduser(),
        trusts=bool(getattr(args, "trust", False)),
    )


def load_user_config(args: argparse.Namespace, report: Callable[[str], None] = print_note) -> Config:
    """Return the configuration, and print or *report* what of it is ignored. It blocks. Raises `ConfigError`."""
    loaded = load_sources(config_sources(args))
    config = attrs.evolve(loaded.config(), plugins=tuple(bundle.plugin for bundle in loaded_bundles()))
    for line in config_warnings(loaded):
        report(escape_control_chars(line))
    return config


def loaded_bundles() -> Sequence[Bundle]:
    """Return the user's plugins that are data. It blocks. Each that can't be used is one line on standard error, once."""
    return [one.bundle for one in _added_plugins() if one.bundle is not None]


def refused_bundles() -> Sequence[str]:
    """Return why plugins that are data were not loaded. It blocks."""
    return [_refusal(one) for one in _added_plugins() if one.bundle is None]


def _added_plugins() -> Sequence[LoadedPlugin]:
    # Imported here: most users have no plugins.
    from platformdirs import user_state_path

    try:
        path = user_state_path("engine", appauthor=False) / PLUGINS_FILE
        return _load_once(path, path.stat().st_mtime_ns)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (ConfigError, StoreError, OSError) as error:
        # Whatever is wrong with plugins, the program starts.
        print_error(f"no plugin was loaded: {escape_control_chars(str(error))}")
        return ()


@functools.lru_cache(maxsize=1)
def _load_once(_path: Path, _changed: int) -> Sequence[LoadedPlugin]:
    from engine.plugins.installed import InstalledPlugins

    loaded = InstalledPlugins.of_user().load()
    for one in loaded:
        if one.bundle is None:
            print_error(f"{escape_control_chars(_refusal(one))}\nNext: engine plugins")
    return loaded


def _refusal(one: LoadedPlugin) -> str:
    return f"the plugin {one.record.name} was not loaded: {one.problem}"


def config_warnings(loaded: LoadedConfig) -> list[str]:
    """Return what a user should know about the sources: ignored keys and files, and variables that do not exist."""
    lines = [*unknown_variables(os.environ), *report_ignored(list(loaded.ignored))]
    if loaded.untrusted:
        lines.append(
            f"Ignored {loaded.untrusted}, but for rules that deny or ask: project not trusted. Next: engine permissions trust"
        )
    return lines


def split_continue(arguments: Sequence[str]) -> list[str]:
    """Replace `-c` by `--set` where a key and a value follow."""
    return [
        "--set" if word == "-c" and _SETTING.fullmatch(after) else word
        for word, after in itertools.pairwise((*arguments, ""))
    ]
