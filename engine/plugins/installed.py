"""The plugins that the user has added: a record of each, with the hash of its files, which are read only if it still holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import attrs

from engine.core.errors import ConfigError, EngineError
from engine.core.exception_groups import describe
from engine.core.value_base import Value
from engine.permission.grants.state_file import StateFile
from engine.plugins.plugin_bundle import Bundle, read_bundle
from engine.plugins.plugin_files import copy_files, delete_files, hash_files


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginRecord(Value):
    """A plugin that was added.

    Attributes:
        name: its name.
        source: the path or the URL it came from.
        commit: the commit; empty: it came from a path.
        subfolder: its folder inside of the source; empty: the source itself.
        tree: the hash of its files.
    """

    name: str
    source: str
    commit: str = ""
    subfolder: str = ""
    tree: str = ""


@attrs.frozen(kw_only=True)
class LoadedPlugin:
    """A plugin with its record; either it was loaded or there is a problem.

    Attributes:
        record: its record.
        bundle: what it has; None: it was refused.
        problem: why.
    """

    record: PluginRecord
    bundle: Bundle | None = None
    problem: str = ""


@attrs.frozen
class InstalledPlugins:
    """The records, and the folder with the copies. The methods block, and raise `ConfigError`, `StoreError` and `OSError`."""

    records_file: StateFile
    folder: Path

    @classmethod
    def of_user(cls) -> InstalledPlugins:
        """Return the user's."""
        # Imported here: most users have no plugins, and the path is needed only then.
        from platformdirs import user_data_path, user_state_path

        records = StateFile(user_state_path("engine", appauthor=False) / "plugins.json", "plugins")
        return cls(records, Path(os.path.realpath(user_data_path("engine", appauthor=False) / "plugins")))

    def records(self) -> Sequence[PluginRecord]:
        """Return the records, sorted by name."""
        return sorted(map(_decode, self.records_file.read()), key=lambda one: one.name)

    def load(self) -> Sequence[LoadedPlugin]:
        """Load all plugins, each alone: what is wrong with one is its `problem`."""
        return [self._load(record) for record in self.records()]

    def place(self, record: PluginRecord) -> Path:
        """Return where the files of a plugin are."""
        return self.folder / record.tree

    def stage(self, source: Path) -> tuple[str, tuple[str, ...]]:
        """Copy a folder to where plugins are; return the hash of its files, and the links that were left out."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self.folder) as scratch:
            copy = Path(scratch, "copy")
            try:
                links = copy_files(source, copy)
                tree, _ = hash_files(copy)
                if not self._is_whole(tree):
                    delete_files(self.folder / tree)
                    copy.chmod(0o755)
                    copy.rename(self.folder / tree)
                    (self.folder / tree).chmod(0o555)
            finally:
                delete_files(copy)
        return tree, links

    def put(self, record: PluginRecord) -> None:
        """Record a plugin whose files are staged, in place of the one of its name."""
        before = [one for one in self.records() if one.name == record.name]
        self.records_file.update(
            lambda entries: [*(one for one in entries if _decode(one).name != record.name), attrs.asdict(record)]
        )
        for one in before:
            self.discard(one.tree)

    def remove(self, record: PluginRecord) -> None:
        """Remove a plugin and its files."""
        self.records_file.update(lambda entries: [one for one in entries if _decode(one).name != record.name])
        self.discard(record.tree)

    def discard(self, tree: str) -> None:
        """Delete the files of a hash, unless a plugin has them."""
        if tree and all(one.tree != tree for one in self.records()):
            delete_files(self.folder / tree)

    def _is_whole(self, tree: str) -> bool:
        """Return whether the files of a hash are there, unchanged."""
        folder = self.folder / tree
        try:
            return folder.is_dir() and hash_files(folder)[0] == tree
        except ConfigError:
            return False

    def _load(self, record: PluginRecord) -> LoadedPlugin:
        folder = self.place(record)
        try:
            if not folder.is_dir():
                raise ConfigError("its files are gone")
            tree, _ = hash_files(folder)
            if tree != record.tree:
                raise ConfigError("its files have changed since it was added")
            bundle = read_bundle(folder)
            if bundle.plugin.name != record.name:
                raise ConfigError(f"it is called {bundle.plugin.name} now")
        except (EngineError, OSError) as error:
            return LoadedPlugin(record=record, problem=str(error))
        except Exception as error:  # noqa: BLE001  # one plugin must never cost another one, whatever is in its files
            return LoadedPlugin(record=record, problem=describe(error))
        return LoadedPlugin(record=record, bundle=bundle)


def _decode(entry: object) -> PluginRecord:
    """Return an entry of the file. Raises `ConfigError` if it is damaged."""
    values = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    try:
        record = PluginRecord(**cast("dict[str, str]", values))
    except TypeError as error:
        raise ConfigError(f"the list of plugins is damaged: {error}") from error
    if not all(isinstance(value, str) for value in values.values()) or not (record.tree.isalnum() and record.name):
        raise ConfigError(f"the list of plugins is damaged: {record.name!r} has no hash")
    return record
