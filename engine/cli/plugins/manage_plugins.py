"""`engine plugins list, add, update, remove, approve`. Only `list` runs code of plugins."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.plugins.confirm import confirm
from engine.cli.plugins.describe_plugin import describe_plugin, warnings_about
from engine.cli.plugins.fetch_source import Source, fetched, is_commit, parse_source
from engine.cli.terminal.exit_codes import FAILED, run_command
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import suggest_names
from engine.core.errors import ConfigError, StoreError
from engine.plugins.installed import InstalledPlugins, PluginRecord
from engine.plugins.plugin_bundle import Bundle, read_bundle
from engine.plugins.plugin_files import hash_files


def list_main(arguments: list[str]) -> int:
    """Run `list`; return the exit code."""
    return _run("list", arguments, _list)


def add_main(arguments: list[str]) -> int:
    """Run `add`; return the exit code."""
    return _run("add", arguments, _add)


def update_main(arguments: list[str]) -> int:
    """Run `update`; return the exit code."""
    return _run("update", arguments, _update)


def remove_main(arguments: list[str]) -> int:
    """Run `remove`; return the exit code."""
    return _run("remove", arguments, _remove)


def approve_main(arguments: list[str]) -> int:
    """Run `approve`; return the exit code."""
    return _run("approve", arguments, _approve)


def _run(name: str, arguments: Sequence[str], work: Callable[[argparse.Namespace], int]) -> int:
    def run() -> int:
        args = parse_arguments(f"plugins {name}", arguments)
        try:
            return work(args)
        except OSError as error:
            raise StoreError(f"{error.filename or 'the files of the plugin'}: {error.strerror or error}") from error

    return run_command("plugins", run)


def _list(args: argparse.Namespace) -> int:
    # Imported here: it brings all that plugins may have.
    from engine.cli.plugins.list_plugins import print_plugins

    return print_plugins(is_json=args.json)


def _approve(args: argparse.Namespace) -> int:
    from engine.cli.plugins.approve_file import approve_file

    return approve_file(args)


def _warnings(bundle: Bundle) -> list[str]:
    return [f"warning: {line}" for line in warnings_about(bundle)]


def _add(args: argparse.Namespace) -> int:
    plugins = InstalledPlugins.of_user()
    source = parse_source(args.source)
    names = [one.name for one in plugins.records()]
    record = PluginRecord(name="", source=source.place, commit=source.commit, subfolder=args.folder or "")

    def review(bundle: Bundle) -> str:
        name = bundle.plugin.name
        if name in names:
            raise ConfigError(f"there is a plugin {name!r} already\nNext: engine plugins update {name}")
        has = describe_plugin(bundle) or ["nothing that can be used here"]
        print_text(_lines(f"The plugin {name} has:", [*has, *_warnings(bundle)]))
        return f"Add {name}?"

    bundle = _take(plugins, record, review, yes=args.yes)
    if bundle is None:
        return FAILED
    return print_text(f"{bundle.plugin.name} is added\n{_next(bundle)}")


def _next(bundle: Bundle) -> str:
    return "".join(f"Next: engine mcp approve {escape_control_chars(name)}\n" for name in bundle.servers)


def _update(args: argparse.Namespace) -> int:
    plugins = InstalledPlugins.of_user()
    record = _require(plugins, args.name)
    if bool(record.commit) != bool(args.commit):
        wanted = "COMMIT" if record.commit else ""
        what = (
            "comes from a git repository: name a commit"
            if record.commit
            else "comes from a directory, which has no commit"
        )
        raise ConfigError(f"{args.name} {what}\nNext: engine plugins update {args.name} {wanted}".rstrip())
    commit: str = args.commit or ""
    if commit and not is_commit(commit):
        raise ConfigError(
            f"{commit!r} is not the whole hash of a commit\nNext: engine plugins update {args.name} COMMIT"
        )
    old = next(one for one in plugins.load() if one.record.name == record.name)
    old_lines = [] if old.bundle is None else [*describe_plugin(old.bundle), *_files(plugins, record)]

    def review(bundle: Bundle) -> str:
        if bundle.plugin.name != record.name:
            raise ConfigError(
                f"the plugin there is called {bundle.plugin.name}, not {record.name}\nNext: engine plugins remove {record.name}"
            )
        _, hashes = hash_files(Path(bundle.plugin.folder))
        new_lines = [*describe_plugin(bundle), *_file_lines(hashes)]
        changes = list(difflib.unified_diff(old_lines, new_lines, lineterm="", n=0))[2:]
        shown = [line for line in changes if not line.startswith("@@")]
        if old.bundle is None:
            print_text(_lines("The present version can't be compared:", [old.problem]))
        if not shown:
            return ""
        print_text(_lines(f"What is different in {record.name}:", [*shown, *_warnings(bundle)]))
        return f"Update {record.name}?"

    bundle = _take(plugins, attrs.evolve(record, commit=commit), review, yes=args.yes)
    return FAILED if bundle is None else print_text(f"{record.name} is up to date\n{_next(bundle)}")


def _files(plugins: InstalledPlugins, record: PluginRecord) -> list[str]:
    return _file_lines(hash_files(plugins.place(record))[1])


def _file_lines(hashes: Mapping[str, str]) -> list[str]:
    return [f"file {name} ({digest[:12]})" for name, digest in hashes.items()]


def _take(
    plugins: InstalledPlugins, record: PluginRecord, review: Callable[[Bundle], str], *, yes: bool
) -> Bundle | None:
    """Fetch a plugin, have it reviewed, ask, and record it; None: the user does not want it. Raises what those raise."""
    with fetched(Source(record.source, record.commit), record.subfolder) as folder:
        before = {one.tree for one in plugins.records()}
        tree, links = plugins.stage(folder)
    is_taken = False
    try:
        bundle = read_bundle(plugins.folder / tree)
        bundle = attrs.evolve(bundle, ignored=(*bundle.ignored, *(f"the link {link}" for link in links)))
        question = review(bundle)
        if question and not confirm("plugins", question, yes=yes):
            return None
        plugins.put(attrs.evolve(record, name=bundle.plugin.name, tree=tree))
        is_taken = True
    finally:
        if not is_taken and tree not in before:
            plugins.discard(tree)
    return bundle


def _remove(args: argparse.Namespace) -> int:
    plugins = InstalledPlugins.of_user()
    plugins.remove(_require(plugins, args.name))
    return print_text(f"{args.name} is removed\n")


def _require(plugins: InstalledPlugins, name: str) -> PluginRecord:
    """Return the record of a plugin. Raises `ConfigError` if there is none of that name."""
    records = {one.name: one for one in plugins.records()}
    if name not in records:
        raise ConfigError(f"unknown plugin {name!r}: {suggest_names(name, records)}\nNext: engine plugins")
    return records[name]


def _lines(heading: str, lines: Sequence[str]) -> str:
    return "".join(f"{escape_control_chars(line)}\n" for line in [heading, *(f"  {line}" for line in lines)])
