"""A tool that offers the model a choice of things, each with a right of its own: the sub-agents of `task`."""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from engine.core.llm_types import ToolSchema
from engine.tools.tool import Tool


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ChoiceTool(Tool):
    """A tool whose description lists what there is to choose.

    Attributes:
        choices: the patterns of its permission, one for each choice.
        text_without: returns the description without some of the choices.
    """

    choices: tuple[str, ...]
    text_without: Callable[[Collection[str]], str]

    def schema_without(self, denied: Collection[str]) -> ToolSchema:
        """Return the tool as the model sees it if some of the choices are *denied*."""
        return attrs.evolve(self.schema, description=self.text_without(denied))


def with_choices(tool: Tool, choices: tuple[str, ...], text_without: Callable[[Collection[str]], str]) -> ChoiceTool:
    """Return *tool* with its choices."""
    fields = {field.name: getattr(tool, field.name) for field in attrs.fields(Tool)}
    return ChoiceTool(**fields, choices=choices, text_without=text_without)


def choice_name(tool: str, choice: str) -> str:
    """Return the name of a choice in a set of hidden tools."""
    return f"{tool}({choice})"


def denied_choices(tool: Tool, hidden: frozenset[str]) -> frozenset[str]:
    """Return the choices of *tool* that are *hidden*."""
    if not isinstance(tool, ChoiceTool):
        return frozenset()
    return frozenset(choice for choice in tool.choices if choice_name(tool.name, choice) in hidden)
