"""The tools of a session, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cached_property

import attrs

from engine.errors import ConfigError, InvalidArguments
from engine.messages import Settlement
from engine.model import ToolSchema
from engine.tools.arguments import parse
from engine.tools.spec import Tool


@attrs.frozen(kw_only=True)
class Prepared:
    """A call that can run: its tool, its parsed arguments, and whether it is safe beside others."""

    tool: Tool
    arguments: attrs.AttrsInstance
    safe: bool


@attrs.define(eq=False)
class Registry:
    """An immutable set of tools, sorted by name, so that requests are the same bytes each time."""

    _tools: dict[str, Tool]

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Registry:
        """Make a registry. Raises `ConfigError` for two tools of one name and for what is no tool."""
        named: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  # a host may be untyped
                raise ConfigError(f"tools are made with @engine.tool; this is not one: {tool!r}")
            if tool.name in named:
                raise ConfigError(f"two tools are named {tool.name}")
            named[tool.name] = tool
        return cls(dict(sorted(named.items())))

    @cached_property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """What the model sees of them."""
        return tuple(tool.schema for tool in self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or of that name in lower case."""
        return self._tools.get(name) or self._tools.get(name.lower())

    def prepare(self, name: str, arguments: str) -> Prepared | Settlement:
        """Return the call ready to run, or the settlement that tells the model what is wrong. No side effect."""
        tool = self.get(name)
        if tool is None:
            close = difflib.get_close_matches(name, self._tools, n=3, cutoff=0.5)
            hint = (
                f" Did you mean {' or '.join(close)}?" if close else f" There are: {', '.join(self._tools) or 'none'}."
            )
            return Settlement(status="error", text=f"There is no tool named {name!r}.{hint}")
        try:
            parsed = parse(tool.arguments, arguments)
        except InvalidArguments as error:
            return Settlement(
                status="error",
                text=f"The arguments of {tool.name} are not valid:\n{error}\nCall it again with arguments that fit its schema.",
            )
        return Prepared(tool=tool, arguments=parsed, safe=_is_safe(tool, parsed))


def _is_safe(tool: Tool, arguments: attrs.AttrsInstance) -> bool:
    try:
        return bool(tool.safe(arguments))
    except Exception:  # noqa: BLE001  # the predicate is the tool author's; in doubt the call runs alone
        return False
