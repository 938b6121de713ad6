"""What a server asks the user: questions of the session, checked; nobody there: declined, at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import mcp_types as types
import pytest
import trio

import engine
from engine.core.events import CallSettled, Choice, QuestionAsked
from engine.mcp.elicitation import ask_user
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.tool_context import ToolContext, UserAnswers
from tests.mcp.serving import lying
from tests.mcp.test_servers_in_turns import DONE, approve_all, calls, opened, run, servers


class User:
    """Answers questions with prepared texts; then nobody is there."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, list[str]]] = []

    async def ask_user(self, question: str, choices: Sequence[Choice] = (), *, several: bool = False) -> UserAnswers:
        await trio.lowlevel.checkpoint()
        self.asked.append((question, [choice.label for choice in choices]))
        return ("answered", (self.answers.pop(0),)) if self.answers else ("declined", ())


async def asked(user: User, properties: dict[str, object], *required: str) -> types.ElicitResult:
    schema: dict[str, object] = {"type": "object", "properties": properties, "required": list(required)}
    params = types.ElicitRequestFormParams(message="Tell\u202e me", requested_schema=schema)
    return await ask_user("liar", cast("ToolContext", user), params)


async def test_form_is_filled_in_field_by_field() -> None:
    user = User("Ann", "7", "yes", "b", "(leave it empty)")
    result = await asked(
        user,
        {
            "name": {"type": "string", "description": "Your name."},
            "age": {"type": "integer"},
            "sure": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "more": {"type": "string"},
        },
        "name",
    )
    assert (result.action, result.content) == ("accept", {"name": "Ann", "age": 7, "sure": True, "kind": "b"})
    assert user.asked[0][0] == "The MCP server liar asks:\nTell me\n\nname: Your name."
    assert user.asked[3][1][:2] == ["a", "b"]


@pytest.mark.parametrize(
    ("field", "wrong", "right", "value"),
    [
        ({"type": "integer", "minimum": 18}, "5", "20", 20),
        ({"type": "integer"}, "many", "2", 2),
        ({"type": "number", "maximum": 1}, "2", "0.5", 0.5),
        ({"type": "string", "minLength": 3}, "ab", "abc", "abc"),
        ({"type": "string", "format": "email"}, "me", "me@x.example", "me@x.example"),
        ({"type": "string", "enum": ["a"]}, "b", "a", "a"),
    ],
)
async def test_answer_that_does_not_fit_is_asked_for_again(
    field: dict[str, object], wrong: str, right: str, value: object
) -> None:
    user = User(wrong, right)
    result = await asked(user, {"x": field}, "x")
    assert result.content == {"x": value}
    assert "does not fit" in user.asked[1][0]


@pytest.mark.parametrize(
    ("field", "label", "value"),
    [
        ({"type": "string", "default": "Ann"}, "(use Ann)", "Ann"),
        ({"type": "boolean", "default": False}, "(use no)", False),
        ({"type": "integer", "default": 0}, "(use 0)", 0),
        ({"type": "string", "enum": ["a", "b"], "default": "b"}, "(use b)", "b"),
        # What does not fit is no default.
        ({"type": "integer", "default": "7"}, "(leave it empty)", None),
        ({"type": "string", "enum": ["a", "b"], "default": "c"}, "(leave it empty)", None),
    ],
)
async def test_default_counts_for_a_field_left_alone(field: dict[str, object], label: str, value: object) -> None:
    user = User(label)
    result = await asked(user, {"x": field})
    assert label in user.asked[0][1]
    assert result.content == ({} if value is None else {"x": value})


async def test_user_may_refuse() -> None:
    assert (await asked(User("(answer nothing)"), {"x": {"type": "string"}})).action == "decline"
    assert (await asked(User(), {"x": {"type": "string"}})).action == "decline"
    assert (await asked(User("a", "a", "a"), {"x": {"type": "integer"}})).action == "decline"
    many: dict[str, object] = {f"x{n}": {"type": "string"} for n in range(30)}
    assert (await asked(User("a"), many)).action == "decline"


async def test_page_is_shown_with_its_host_and_not_opened() -> None:
    user = User("I have visited it")
    link = types.ElicitRequestURLParams(message="Pay", url="https://pay.example/x", elicitation_id="1")
    assert (await ask_user("liar", cast("ToolContext", user), link)).action == "accept"
    assert "Host: pay.example" in user.asked[0][0]
    plain = types.ElicitRequestURLParams(message="Pay", url="http://pay.example/x", elicitation_id="1")
    assert (await ask_user("liar", cast("ToolContext", User("I have visited it")), plain)).action == "decline"


@pytest.mark.os
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_question_in_a_turn(tmp_path: Path, era: str) -> None:
    source = servers(tmp_path, liar=lying(era=era))
    model = ScriptedProvider([calls("liar_ask"), DONE, calls("liar_ask"), DONE])
    async with opened(model, source, "allow mcp:liar/* *") as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path)
        texts: list[str] = []
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, QuestionAsked):
                    assert "The MCP server liar asks:\nHow old?" in event.question
                    await turn.answer(event.request_id, "7")
                if isinstance(event, CallSettled):
                    texts.append(event.settlement.text)
        assert json.loads(texts[0].removeprefix("you said ")) == {"action": "accept", "content": {"age": 7}}


@pytest.mark.os
async def test_nobody_there_declines_at_once(tmp_path: Path) -> None:
    source = servers(tmp_path, liar=lying())
    model = ScriptedProvider([calls("liar_ask"), DONE])
    async with opened(model, source, "allow mcp:liar/* *") as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path, settings=engine.Settings(headless="deny"))
        (settled,), _ = await run(session)
    assert json.loads(settled.settlement.text.removeprefix("you said ")) == {"action": "decline"}
