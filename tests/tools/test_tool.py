"""`@engine.tool`: what it makes of a function, and what it says to one that can't be a tool."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import pytest

import engine
from engine.core.errors import ConfigError
from engine.core.llm_types import ToolSchema
from engine.core.messages import ImagePart
from engine.tools.call_values import GRACE, Need, ToolOutput
from engine.tools.tool import Tool, tool
from tests.support.needs import need_of


@attrs.frozen
class Look:
    """Look at something.

    More about it.
    """

    path: str
    deep: bool = False


@attrs.frozen
class Untold:
    path: str


async def look(args: Look, ctx: engine.ToolContext) -> str:
    """Not what the model reads: the class has a docstring."""
    return args.path


async def untold(args: Untold, ctx: engine.ToolContext) -> str:
    """What the model reads: the class has no docstring."""
    return args.path


async def silent(args: Untold, ctx: engine.ToolContext) -> str:
    return args.path


def shallow(args: Look) -> bool:
    return not args.deep


def to_read(args: Look) -> Need:
    return Need(permission="read", patterns=(args.path,))


# -- what it makes ----------------------------------------------------------------------------------


def test_tool_from_a_plain_function() -> None:
    made = tool(look)
    assert isinstance(made, Tool)
    assert (made.name, made.description, made.arguments, made.body) == ("look", "Look at something.\n\nMore about it.", Look, look)  # fmt: skip
    assert (made.read_only, made.timeout, made.grace, made.chain) == (False, None, GRACE, False)
    assert made.safe(Look("a")) is False
    assert need_of(made, Look("a")) == Need(permission="look")


def test_a_tool_made_with_everything() -> None:
    made = tool(
        name="Look-2",
        description="  Said here.\n    Indented.\n",
        read_only=True,
        safe=shallow,
        timeout=3,
        grace=0,
        chain=True,
        need=to_read,
    )(look)
    assert (made.name, made.description) == ("Look-2", "Said here.\nIndented.")
    assert (made.read_only, made.timeout, made.grace, made.chain) == (True, 3, 0, True)
    assert [made.safe(Look("a", deep)) for deep in (False, True)] == [True, False]
    assert need_of(made, Look("a")) == Need(permission="read", patterns=("a",))


@pytest.mark.parametrize(
    ("options", "safe"),
    [({}, False), ({"read_only": True}, True), ({"safe": True}, True), ({"read_only": True, "safe": False}, False)],
)
def test_read_only_tool_is_safe_by_default(options: dict[str, bool], safe: bool) -> None:
    assert tool(**options)(look).safe(Look("a")) is safe  # type: ignore[call-overload]  # an option is a bool


def test_description_falls_back_to_the_function() -> None:
    assert tool(untold).description == "What the model reads: the class has no docstring."


def test_the_schema_is_what_the_model_sees() -> None:
    schema = (
        '{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false,"required":["path"]}'
    )
    assert tool(untold).schema == ToolSchema(name="untold", description=tool(untold).description, schema=schema)
    assert tool(untold).schema == tool(untold).schema


def test_decorated_function_is_unwrapped() -> None:
    @functools.wraps(look)
    async def wrapped(*args: Any) -> str:
        return await look(*args)

    assert tool(wrapped).arguments is Look


def test_local_classes_are_resolved() -> None:
    @attrs.frozen
    class Local:
        """A local one."""

        x: int

    async def local(args: Local, ctx: engine.ToolContext) -> str:
        assert isinstance(args, Local)
        return ""

    assert tool(local).arguments is Local


def test_valid_results() -> None:
    output = ToolOutput(text="t", images=(ImagePart(media_type="image/png", data=""),), failed=True, stop="enough")
    assert (output.modify, output.metadata) == (None, "")


# -- what it refuses -----------------------------------------------------------------------------------


@attrs.frozen
class Odd:
    """Its field has no schema."""

    x: bytes


def plain(args: Look, ctx: engine.ToolContext) -> str:
    return ""


async def alone(args: Look) -> str:
    return ""


async def crowded(args: Look, ctx: engine.ToolContext, more: int) -> str:
    return ""


async def bare(args, ctx) -> str:  # type: ignore[no-untyped-def]  # that is the point
    return ""


async def untyped(args: dict[str, str], ctx: engine.ToolContext) -> str:
    return ""


async def lost(args: Nowhere, ctx: engine.ToolContext) -> str:  # type: ignore[name-defined]  # noqa: F821  # that is the point
    return ""


async def astray(args: engine.Nowhere, ctx: engine.ToolContext) -> str:  # type: ignore[name-defined]  # that too
    return ""


async def odd(args: Odd, ctx: engine.ToolContext) -> str:
    return ""


async def generator(args: Look, ctx: engine.ToolContext) -> AsyncIterator[str]:
    yield ""


def partly() -> object:
    return functools.partial(crowded, more=1)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (plain, "a tool is an async function .* not <function plain"),
        (generator, "a tool is an async function .* not <function generator"),
        ("look", "a tool is an async function .* not 'look'"),
        (Look, "a tool is an async function .* not <class"),
        (alone, "tool alone must take two parameters, its arguments and a ToolContext"),
        (crowded, "tool crowded must take two parameters"),
        (bare, "the first parameter of tool bare must be annotated with an attrs class, not <class 'inspect._empty'>"),
        (untyped, r"the first parameter of tool untyped must be annotated with an attrs class, not dict\[str, str\]"),
        (lost, "can't resolve the annotation 'Nowhere' of <function lost.*: define the class of arguments at module"),
        (astray, "can't resolve the annotation 'engine.Nowhere' of <function astray"),
        (silent, "tool silent has no description: give its class of arguments a docstring"),
        (odd, r"Odd.x: a tool's arguments can't have the type <class 'bytes'>"),
        (lambda args, ctx: None, "a tool is an async function"),
        (partly(), "a tool's name is up to 64 letters, digits, - and _, the first a letter, not ''"),
    ],
)
def test_invalid_tools(body: Callable[..., Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        tool(body)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": ""}, "a tool's name is up to 64 letters, digits, - and _, the first a letter, not ''"),
        ({"name": "look at"}, "a tool's name .* not 'look at'"),
        ({"name": "1st"}, "a tool's name .* not '1st'"),
        ({"name": "look\n"}, r"a tool's name .* not 'look\\n'"),
        ({"name": "a" * 65}, "a tool's name"),
        ({"name": 5}, "a tool's name .* not 5"),
        ({"description": " \n"}, "tool look has no description"),
        ({"description": 5}, "the description of tool look must be a str, not 5"),
        ({"timeout": 0}, "the timeout of tool look must be a number above 0, or None, not 0"),
        ({"timeout": -1.0}, "the timeout of tool look"),
        ({"timeout": math.nan}, "the timeout of tool look"),
        ({"timeout": "3"}, "the timeout of tool look .* not '3'"),
        ({"timeout": True}, "the timeout of tool look .* not True"),
        ({"grace": -0.1}, "the grace of tool look must be a finite number, not negative, but is -0.1"),
        ({"grace": math.inf}, "the grace of tool look"),
        ({"grace": math.nan}, "the grace of tool look"),
        ({"grace": None}, "the grace of tool look .* but is None"),
        ({"safe": "yes"}, "'safe' of tool look must be a function of its arguments, not 'yes'"),
        ({"need": "read"}, "'need' of tool look must be a function of its arguments, not 'read'"),
        ({"need": True}, "'need' of tool look must be a function of its arguments, not True"),
        (
            {"need": to_read, "permission": ""},
            "the permission of tool look is the name of a right, such as 'edit', not ''",
        ),
        ({"need": to_read, "permission": "re ad"}, "the permission of tool look"),
        ({"need": to_read, "permission": "*"}, "the permission of tool look"),
        ({"need": to_read, "permission": "bash:read"}, "the permission of tool look"),
        ({"need": to_read, "permission": 5}, "the permission of tool look .* not 5"),
        ({"permission": "read"}, "tool look has no 'need', so the right that it needs is 'look', not 'read'"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        tool(**options)(look)


@pytest.mark.parametrize(
    ("options", "permission"),
    [
        ({}, "look"),
        ({"permission": "look"}, "look"),
        ({"name": "seek"}, "seek"),
        ({"need": to_read}, ""),
        ({"need": to_read, "permission": "read"}, "read"),
    ],
)
def test_required_right(options: dict[str, Any], permission: str) -> None:
    assert tool(**options)(look).permission == permission


@pytest.mark.parametrize("name", ["a", "A", "look_2-B", "a" * 64])
def test_names_that_may_be(name: str) -> None:
    assert tool(name=name)(look).name == name


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="no option readonly"):
        tool(readonly=True)  # type: ignore[call-overload]  # a host may be untyped
