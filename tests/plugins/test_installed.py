"""Plugins that were added: copies that nobody changes unnoticed, and each loaded alone."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from engine.core.errors import ConfigError
from engine.permission.grants.state_file import StateFile
from engine.plugins.installed import InstalledPlugins, PluginRecord
from engine.plugins.plugin_files import MAX_FILES, delete_files


@pytest.fixture
def plugins(tmp_path: Path) -> InstalledPlugins:
    return InstalledPlugins(StateFile(tmp_path / "plugins.json", "plugins"), tmp_path.resolve() / "copies")


def source(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "plugin.toml").write_text(f'name = "{name}"\n')
    return folder


def add(plugins: InstalledPlugins, folder: Path) -> PluginRecord:
    record = PluginRecord(name=folder.name, source=str(folder), tree=plugins.stage(folder)[0])
    plugins.put(record)
    return record


def loaded(plugins: InstalledPlugins) -> dict[str, str]:
    return {one.record.name: one.problem for one in plugins.load()}


def test_changed_copy_is_refused_alone(plugins: InstalledPlugins, tmp_path: Path) -> None:
    one, two, three = (add(plugins, source(tmp_path, name)) for name in ("one", "two", "three"))
    assert loaded(plugins) == {"one": "", "two": "", "three": ""}
    manifest = plugins.place(one) / "plugin.toml"
    manifest.parent.chmod(0o700)
    manifest.chmod(0o600)
    manifest.write_text('name = "one"\nversion = "2"\n')
    delete_files(plugins.place(two))
    changed = "its files have changed since it was added"
    assert loaded(plugins) == {"one": changed, "two": "its files are gone", "three": ""}
    assert [item.bundle is None for item in plugins.load()] == [True, False, True]
    # The same folder once more repairs it.
    assert add(plugins, tmp_path / "one").tree == one.tree
    assert loaded(plugins)["one"] == ""
    assert three.tree not in {one.tree, two.tree}


@pytest.mark.parametrize("change", ["content", "name", "mode", "more", "link"])
def test_any_change_changes_the_hash(plugins: InstalledPlugins, tmp_path: Path, change: str) -> None:
    folder = source(tmp_path, "shop")
    (folder / "run.sh").write_text("true")
    record = add(plugins, folder)
    copy = plugins.place(record)
    copy.chmod(0o700)
    script = copy / "run.sh"
    script.chmod(0o600)
    match change:
        case "content":
            script.write_text("false")
        case "name":
            script.rename(copy / "other.sh")
        case "mode":
            script.chmod(0o700)
        case "more":
            (copy / "more").touch()
        case _:
            (copy / "link").symlink_to("/etc/passwd")
    assert loaded(plugins)["shop"] != ""


def test_links_and_history_are_left_out(plugins: InstalledPlugins, tmp_path: Path) -> None:
    folder = source(tmp_path, "shop")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").touch()
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    tree, links = plugins.stage(folder)
    assert links == ("folder", "link")
    assert [path.name for path in (plugins.folder / tree).rglob("*")] == ["plugin.toml"]


def test_update_and_removal_delete_old_files(plugins: InstalledPlugins, tmp_path: Path) -> None:
    folder = source(tmp_path, "shop")
    old = add(plugins, folder)
    (folder / "more").touch()
    new = add(plugins, folder)
    assert [one.tree for one in plugins.records()] == [new.tree]
    assert [path.name for path in plugins.folder.iterdir()] == [new.tree]
    assert old.tree != new.tree
    plugins.remove(new)
    assert (list(plugins.records()), list(plugins.folder.iterdir())) == ([], [])


def test_too_many_files_are_refused(plugins: InstalledPlugins, tmp_path: Path) -> None:
    folder = source(tmp_path, "shop")
    for number in range(MAX_FILES):
        (folder / str(number)).touch()
    with pytest.raises(ConfigError, match="is too large for a plugin"):
        plugins.stage(folder)
    assert list(plugins.folder.iterdir()) == []


@pytest.mark.parametrize("entry", [5, {"name": "x"}, {"name": "x", "source": "y", "tree": "../z"}, {"what": "x"}])
def test_damaged_record_is_an_error(plugins: InstalledPlugins, tmp_path: Path, entry: object) -> None:
    record = attrs.asdict(add(plugins, source(tmp_path, "shop")))
    plugins.records_file.path.write_text(json.dumps({"version": 1, "plugins": [record, entry]}))
    with pytest.raises(ConfigError, match="the list of plugins is damaged"):
        plugins.load()
