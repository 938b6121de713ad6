"""`engine plugins list`: what was added, what the user's packages and tool files bring, and what was not loaded and why."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

import attrs

from engine.cli.flags.config_flags import load_user_config
from engine.cli.plugin_code import tool_folders, user_packages
from engine.cli.plugins.describe_plugin import describe_folders, describe_plugin, folder_warnings, warnings_about
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.plugin_config import PluginOptions
from engine.core.exception_groups import describe
from engine.mcp.server_environment import environment_for
from engine.plugins.guarded_call import call_guarded
from engine.plugins.installed import InstalledPlugins, LoadedPlugin
from engine.plugins.isolated_file import host_command
from engine.plugins.plugin_host import DESCRIBE
from engine.plugins.plugin_packages import LoadedPackage
from engine.plugins.plugin_tool import plugin_tool
from engine.plugins.tool_files import ToolFile
from engine.plugins.tool_module import run_tool_file
from engine.tools.foreign_names import foreign_name

# Loading the file is bounded; the rest is Python's start.
_HOST_SECONDS: Final = 30.0
_YOURS: Final = "code of yours, which runs inside of the engine with all of its rights"
_ISOLATED: Final = "runs in a process of its own"


@attrs.frozen(kw_only=True)
class PluginEntry:
    """A plugin, as the list shows it.

    Attributes:
        facts: about it, for programs.
        origin: where it comes from, in a line.
        problem: why it was not loaded.
        has: what it has.
        warnings: what the user should know.
    """

    facts: Mapping[str, object]
    origin: str
    problem: str = ""
    has: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def block(self) -> str:
        """Return it as lines for people."""
        shown = [f"not loaded: {self.problem}"] if self.problem else self.has
        lines = [self.origin, *(f"  {line}" for line in (*shown, *(f"warning: {one}" for one in self.warnings)))]
        return "".join(f"{escape_control_chars(line)}\n" for line in lines)

    def document(self) -> Mapping[str, object]:
        """Return it as JSON."""
        state = {"loaded": not self.problem, "problem": self.problem}
        return {**self.facts, **state, "has": list(self.has), "warnings": list(self.warnings)}


def print_plugins(*, is_json: bool) -> int:
    """Print all plugins; return the exit code. It blocks: the code of packages and of tool files is loaded."""
    options = load_user_config(argparse.Namespace(config=None)).plugin_options
    entries = [
        *map(_bundle, InstalledPlugins.of_user().load()),
        *map(_package, user_packages(options)),
        *(_file(file, options) for file in tool_folders(options).find(os.getcwd())),  # noqa: PTH109 - a str
    ]
    if is_json:
        return print_text(json.dumps([one.document() for one in entries], indent=2, ensure_ascii=False) + "\n")
    if not entries:
        return print_text("No plugins are added.\nNext: engine plugins add DIR\n")
    return print_text("\n".join(one.block() for one in entries))


def _bundle(one: LoadedPlugin) -> PluginEntry:
    record = one.record
    source = f"{record.source}@{record.commit[:12]}" if record.commit else record.source
    facts = {"kind": "bundle", **attrs.asdict(record)}
    if one.bundle is None:
        return PluginEntry(facts=facts, origin=f"{record.name}, from {source}", problem=one.problem)
    version = f" {one.bundle.version}" if one.bundle.version else ""
    return PluginEntry(
        facts={**facts, "version": one.bundle.version, "description": one.bundle.description},
        origin=f"{record.name}{version}, from {source}",
        has=describe_plugin(one.bundle),
        warnings=warnings_about(one.bundle),
    )


def _package(package: LoadedPackage) -> PluginEntry:
    facts = {"kind": "package", "name": package.name, "package": package.package, "target": package.target}
    origin = f"{package.name}, from the package {package.package} ({package.target}): {_YOURS}"
    if package.state == "disabled":
        return PluginEntry(facts=facts, origin=origin, problem="the configuration disables it")
    if package.folders is None:
        return PluginEntry(facts=facts, origin=origin, problem=package.problem, warnings=package.notes)
    points: Mapping[str, Sequence[object]] = attrs.asdict(package.plugin.hooks, recurse=False)
    hooks = [f"hooks: {', '.join(point for point, hooks in points.items() if hooks)}"] if any(points.values()) else []
    tools = [_tool_line(package.name, tool.name, tool.description) for tool in package.plugin.tools]
    return PluginEntry(
        facts=facts,
        origin=origin,
        has=[*hooks, *tools, *describe_folders(package.folders)],
        warnings=[*package.notes, *folder_warnings(package.folders)],
    )


def _tool_line(plugin: str, name: str, description: str) -> str:
    return f"tool {foreign_name(plugin, name)}: {' '.join(description.split())[:200]}"


def _file(file: ToolFile, options: PluginOptions) -> PluginEntry:
    is_isolated = options.isolated or file.origin == "project"
    facts = {
        "kind": "file",
        "name": file.name,
        "path": file.path,
        "origin": file.origin,
        "isolated": is_isolated,
        "sha256": file.digest,
    }
    whose = " of the project" if file.origin == "project" else ""
    origin = f"{file.name}, from the tool file {file.path}{whose}: {_ISOLATED if is_isolated else _YOURS}"
    if file.state != "usable":
        return PluginEntry(facts=facts, origin=origin, problem=file.problem)
    problem, has, warnings = _ask_host(file) if is_isolated else _load(file)
    return PluginEntry(facts=facts, origin=origin, problem=problem, has=has, warnings=warnings)


def _load(file: ToolFile) -> tuple[str, Sequence[str], Sequence[str]]:
    """Load a file here; return why it can't be used, what it has, and what the user should know."""
    called = call_guarded(partial(run_tool_file, file.path, file.name, file.code), files=file.path)
    if called.value is None:
        return called.problem, (), called.notes
    tools = called.value
    refused = [line for tool in tools for line in _refusal(file.name, partial(plugin_tool, file.name, tool))]
    lines = [_tool_line(file.name, tool.name, tool.description) for tool in tools]
    return "", lines, (*called.notes, *refused)


def _refusal(name: str, make: Callable[[], object]) -> Iterator[str]:
    try:
        make()
    except Exception as error:  # noqa: BLE001  # whatever is wrong with one tool is a line of the list
        yield f"a tool of {name} can't be offered: {describe(error)}"


def _ask_host(file: ToolFile) -> tuple[str, Sequence[str], Sequence[str]]:
    """Have a process of its own load a file; return the same."""
    try:
        done = subprocess.run(
            [*host_command(file), DESCRIBE],
            env=environment_for({}, os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_HOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it was not loaded within {_HOST_SECONDS:g} s", (), ()
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return (said[-1] if said else f"its process ended with code {done.returncode}"), (), ()
    answer = cast("Mapping[str, Sequence[Mapping[str, str]]]", json.loads(done.stdout))
    tools = [_tool_line(file.name, tool["name"], tool["description"]) for tool in answer["tools"]]
    return "", tools, cast("Sequence[str]", answer["notes"])
