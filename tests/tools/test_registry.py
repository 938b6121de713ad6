"""The registry: a call is prepared, or the model is told what is wrong with it; nothing is run."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import engine
from engine.core.errors import ConfigError
from engine.core.messages import Settlement
from engine.tools.registry import Prepared, Registry
from engine.tools.tool import Tool, tool


@attrs.frozen
class Path:
    """A path."""

    path: str
    lines: int = 1


def made(name: str, **options: Any) -> Tool:
    async def body(args: Path, ctx: engine.ToolContext) -> str:
        raise AssertionError("it was run")

    return tool(name=name, **options)(body)


READ = made("read", read_only=True)
WRITE = made("write_file")
TOOLS = Registry.of([WRITE, READ])


def test_tools_are_sorted_for_equal_bytes() -> None:
    assert TOOLS.names == ("read", "write_file")
    assert TOOLS.schemas_for("host/model") == (READ.schema, WRITE.schema)
    assert TOOLS.schemas_for("host/model") is TOOLS.schemas_for("host/model")
    assert Registry.of([]).schemas_for("host/model") == ()


def test_a_tool_is_offered_to_some_models_only() -> None:
    patch = made("patch", offered=lambda model: model.startswith("gpt-"))
    tools = Registry.of([READ, patch])
    assert tools.schemas_for("openai/gpt-5") == (patch.schema, READ.schema)
    assert tools.schemas_for("anthropic/claude") == tools.schemas_for("claude") == (READ.schema,)


def test_alias_is_the_tools_own_name() -> None:
    grep = made("grep", aliases=("search", "Ripgrep"))
    tools = Registry.of([grep, READ])
    assert [tools.get(name) for name in ("grep", "search", "Search", "Ripgrep", "rg")] == [grep, grep, grep, grep, None]
    for clash in (made("search"), made("find", aliases=("search",)), made("other", aliases=("read",))):
        with pytest.raises(ConfigError, match="two tools can be called"):
            Registry.of([grep, READ, clash])


def test_coercions_are_reported() -> None:
    prepared = TOOLS.prepare("read", '{"path": "a", "lines": "5"}')
    assert isinstance(prepared, Prepared)
    assert (prepared.arguments, prepared.mended) == (Path("a", 5), ('lines: the text "5" was taken for 5',))


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ([READ, made("read")], "two tools are named read"),
        ([READ, "write"], "tools are made with @engine.tool; this is not one: 'write'"),
        ([None], "tools are made with @engine.tool; this is not one: None"),
        ([READ.body], "tools are made with @engine.tool; this is not one: <function"),
    ],
)
def test_invalid_tool_sets(tools: list[Tool], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Registry.of(tools)


@pytest.mark.parametrize(
    ("name", "found"),
    [("read", READ), ("Read", READ), ("READ", READ), ("write_file", WRITE), ("red", None), ("", None)],
)
def test_lower_case_name_is_found(name: str, found: Tool | None) -> None:
    assert TOOLS.get(name) is found


def test_the_exact_name_comes_first() -> None:
    upper, lower = made("Read"), made("read")
    both = Registry.of([upper, lower])
    assert (both.get("Read"), both.get("read"), both.get("READ")) == (upper, lower, lower)


async def test_a_call_that_can_run() -> None:
    assert TOOLS.prepare("Read", '{"path":"a"}') == Prepared(tool=READ, arguments=Path("a"), text='{"path":"a"}')
    assert [TOOLS.prepare(name, '{"path":"a"}').safe for name in ("Read", "write_file")] == [True, False]  # type: ignore[union-attr]  # both can run
    assert TOOLS.prepare("write_file", '{"path":"a"}') == Prepared(tool=WRITE, arguments=Path("a"), text='{"path":"a"}')


def _raises(args: object) -> bool:
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    ("safe", "is_safe"),
    [
        (lambda args: args.lines == 1, True),
        (lambda args: args.lines > 1, False),
        (lambda args: args.lines, True),
        (lambda args: None, False),
        (_raises, False),
    ],
)
async def test_unknown_safety_means_unsafe(safe: Any, is_safe: bool) -> None:
    prepared = Registry.of([made("t", safe=safe)]).prepare("t", '{"path":"a"}')
    assert isinstance(prepared, Prepared)
    assert prepared.safe is is_safe


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("wite_file", "{}", "There is no tool named 'wite_file'. Did you mean write_file?"),
        ("zzz", "{}", "There is no tool named 'zzz'. There are: read, write_file."),
        ("", "{}", "There is no tool named ''. There are: read, write_file."),
        ("read" * 50_000, "{}", f"There is no tool named '{'read' * 20}'. There are: read, write_file."),
        (
            "Read",
            "{}",
            "The arguments of read are not valid:\npath: is required\n"
            "Call it again with arguments that fit its schema.",
        ),
        (
            "read",
            '{"path":5,"lines":"2"}',
            "The arguments of read are not valid:\npath: expected string, got integer\n"
            "lines: expected integer, got string\nCall it again with arguments that fit its schema.",
        ),
    ],
)
def test_errors_are_reported_to_the_model(name: str, arguments: str, text: str) -> None:
    assert TOOLS.prepare(name, arguments) == Settlement(status="error", text=text)


def test_broken_json_is_reported_to_the_model() -> None:
    told = TOOLS.prepare("read", '{"path": "/a/b')
    assert isinstance(told, Settlement)
    assert told.status == "error"
    assert told.text.startswith("The arguments of read are not valid:\nthe arguments are not valid JSON (")
    assert 'They begin with: {"path": "/a/b\n' in told.text


def test_without_tools_none_are_named() -> None:
    told = Registry.of([]).prepare("read", "{}")
    assert told == Settlement(status="error", text="There is no tool named 'read'. There are: none.")
