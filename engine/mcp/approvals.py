"""What the user has approved: servers that a project names, and each server's tools as the user saw them.

A server may change what a tool says of itself after it was approved, or bring a new tool under an old name. So a tool is
pinned by the hash of its whole definition. Another hash, or another name, is withheld until the user has seen what is
different. The definitions are kept, to show that.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from engine.config.mcp_config import McpServer
from engine.core.errors import ConfigError
from engine.core.value_base import Value
from engine.mcp.server_skills import ServerSkill
from engine.mcp.server_text import bounded, clean, one_line
from engine.mcp.tool_definition import ToolDefinition, ToolList
from engine.permission.grants.state_file import StateFile

_MOST_DIFF_LINES: Final = 60


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Approved(Value):
    """What is approved of one server.

    Attributes:
        fingerprint: of the configuration that was approved; empty: nothing was.
        tools: the definitions, by name.
        instructions: the server's instructions.
    """

    fingerprint: str = ""
    tools: Mapping[str, ToolDefinition] = attrs.field(factory=dict[str, ToolDefinition])
    instructions: str = ""

    def covers(self, tool: ToolDefinition) -> bool:
        """Return whether a tool is exactly one that was approved."""
        pinned = self.tools.get(tool.name)
        return pinned is not None and pinned.digest == tool.digest


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Withheld(Value):
    """A tool that waits for approval.

    Attributes:
        tool: the tool as it is now.
        before: the tool as it was approved, maybe under another name; None: it is new.
    """

    tool: ToolDefinition
    before: ToolDefinition | None

    @property
    def what(self) -> str:
        """Whether it is new, changed or renamed."""
        if self.before is None:
            return "new"
        return "changed" if self.before.name == self.tool.name else "renamed"

    def lines(self) -> list[str]:
        """Return the definition, or what has changed in it, as lines for people."""
        after = _lines_of(self.tool)
        if self.before is None:
            return [f"+ {line}" for line in after[:_MOST_DIFF_LINES]]
        if self.before.name != self.tool.name:
            return [f"-name: {one_line(self.before.name)}", f"+name: {one_line(self.tool.name)}"]
        lines = list(difflib.unified_diff(_lines_of(self.before), after, lineterm="", n=1))[2:]
        shown = [line for line in lines if not line.startswith("@@")][:_MOST_DIFF_LINES]
        # A difference that can't be seen is still one.
        return shown or ["(only characters that can't be seen have changed)"]


@attrs.frozen
class Approvals:
    """The file of each server, in a folder. The methods block. They raise `ConfigError` and `StoreError`."""

    folder: Path

    @classmethod
    def of_user(cls) -> Approvals:
        """Return the user's."""
        # Imported here: most engines have no servers.
        from platformdirs import user_state_path

        return cls(user_state_path("engine", appauthor=False) / "mcp-approved")

    def load(self, name: str, server: McpServer) -> Approved:
        """Return what is approved of a server, if its configuration is still the one that was approved."""
        for entry in self._file(name, server).read():
            approved = _decode(entry)
            if approved.fingerprint == server.fingerprint:
                return approved
        return Approved()

    def approve(self, name: str, server: McpServer, listed: ToolList) -> None:
        """Approve a server and the tools that it lists, instead of those that were approved before."""
        entry: dict[str, object] = {
            "fingerprint": server.fingerprint,
            "tools": [attrs.asdict(tool) for tool in listed.tools],
            "instructions": listed.instructions,
        }
        self._file(name, server).update(lambda _: [entry])

    def withdraw(self, name: str, server: McpServer) -> None:
        """Approve nothing of a server any more."""
        self._file(name, server).update(lambda _: [])

    def _file(self, name: str, server: McpServer) -> StateFile:
        # By folder too: two projects may have servers of one name, started in different places.
        place = hashlib.sha256(json.dumps([server.origin, server.folder]).encode()).hexdigest()[:12]
        return StateFile(self.folder / f"{name}-{place}.json", "approved")


def withheld_tools(approved: Approved, tools: Sequence[ToolDefinition]) -> tuple[Withheld, ...]:
    """Return the tools that wait for approval."""
    listed = {tool.name for tool in tools}
    # What each tool that is gone said of itself, but for its name.
    gone = {_nameless(tool): tool for name, tool in approved.tools.items() if name not in listed}
    return tuple(
        Withheld(tool=tool, before=approved.tools.get(tool.name) or gone.pop(_nameless(tool), None))
        for tool in tools
        if not approved.covers(tool)
    )


def _nameless(tool: ToolDefinition) -> str:
    return attrs.evolve(tool, name="").digest


def review(withheld: Sequence[Withheld], listed: ToolList) -> list[str]:
    """Return what waits for approval, as lines for people: each tool, what it mentions, and what is different."""
    names = [tool.name for tool in listed.tools]
    lines: list[str] = []
    for one in withheld:
        lines.append(f"{one_line(one.tool.name)} ({one.what})")
        if also := mentions(one.tool, names):
            lines.append(f"    It mentions other tools: {', '.join(map(one_line, also))}")
        lines += [f"  {line}" for line in one.lines()]
    return lines


def mentions(tool: ToolDefinition, others: Iterable[str]) -> tuple[str, ...]:
    """Return the names of other tools that a description mentions: it may try to take their place."""
    words = f"{tool.title}\n{tool.description}".lower()
    # Short names are words of the language: read, list.
    return tuple(name for name in others if len(name) > 4 and name != tool.name and name.lower() in words)


def _lines_of(tool: ToolDefinition) -> list[str]:
    if tool.skill:
        return ServerSkill.of(tool).lines()
    lines = [f"title: {bounded(tool.title)}"] if tool.title else []
    lines += bounded(tool.description).splitlines() or ["(no description)"]
    for what, text in (
        ("arguments", tool.input_schema),
        ("result", tool.output_schema),
        ("says of itself", tool.annotations),
    ):
        if text:
            lines += [f"{what}:", *clean(json.dumps(json.loads(text), indent=1, ensure_ascii=True)).splitlines()]
    return lines


def _decode(entry: object) -> Approved:
    """Return an entry of a file. Raises `ConfigError` if it is damaged."""
    try:
        values = cast("dict[str, object]", entry)
        definitions = [ToolDefinition(**tool) for tool in cast("Sequence[dict[str, str]]", values["tools"])]
        return Approved(
            fingerprint=str(values["fingerprint"]),
            tools={tool.name: tool for tool in definitions},
            instructions=str(values["instructions"]),
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"an approval of MCP tools is damaged: {error!r}") from error
