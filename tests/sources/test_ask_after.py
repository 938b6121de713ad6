"""`permissions.ask_after`: once a turn has used a server, nothing carries its words away unasked, whatever way a model tries."""

from __future__ import annotations

import attrs
import pytest

import engine
from engine.config.rule_layers import RuleLayers
from engine.core.errors import ConfigError
from engine.core.events import CallJudged, PermissionAsked
from engine.core.hooks import Hooks, ToolDecision, ToolUse
from engine.options import PermissionOptions, Ports
from engine.permission.policy import Policy
from engine.permission.rules.rule_file import parse_rule
from engine.session.engine import Engine
from engine.settings_file.config_file import read_config
from engine.testing.fake_source import FakeSource
from engine.testing.script import Answer
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools import Need, ToolContext
from tests.support.sourced import DONE, calls, results, run, uses


@attrs.frozen
class Nothing:
    """No arguments."""


@engine.tool(name="send", need=lambda _: Need(permission="send"))
async def send(args: Nothing, ctx: ToolContext) -> str:
    """Send something somewhere."""
    return "sent"


@engine.tool(name="look", read_only=True, need=lambda _: Need(permission="read", patterns=("notes.txt",)))
async def look(args: Nothing, ctx: ToolContext) -> str:
    """Look at a file."""
    return "seen"


@engine.tool(name="delegate", read_only=True, need=lambda _: Need(permission="task"))
async def delegate(args: Nothing, ctx: ToolContext) -> str:
    """Delegate."""
    return (await ctx.run_agent("do it")).text


def servers() -> tuple[FakeSource, FakeSource]:
    mail, other = FakeSource(name="mail"), FakeSource(name="other")
    mail.offer("read", "list", "skill_sort", server="mail")
    other.offer("post", server="other")
    return mail, other


def opened(model: ScriptedProvider, *, ask_after: tuple[str, ...] = ("mcp:mail/*",), **options: object) -> Engine:
    policy = Policy(profile="full", host=(parse_rule("allow * *"),), layers=RuleLayers(ask_after=ask_after))
    return engine.open_engine(
        model=model,
        tools=[send, look, delegate],
        permissions=PermissionOptions(approver=policy),
        ports=Ports(sources=servers()),
        **options,  # type: ignore[arg-type]  # a test names only what open_engine takes
    )


async def asked(
    *answers: Answer, turns: int = 1, ask_after: tuple[str, ...] = ("mcp:mail/*",), **options: object
) -> list[str]:
    """Return which permissions are asked about in the last of some turns; the user rejects each with a reason."""
    events: list[object] = []
    async with opened(ScriptedProvider(list(answers)), ask_after=ask_after, **options) as eng:
        session = await eng.create_session()
        for _ in range(turns):
            events = await run(session)
    return [event.permission for event in events if isinstance(event, PermissionAsked)]


READ, POST, SEND = calls("mail_read"), calls("other_post"), calls("send")


async def test_off_by_default() -> None:
    assert await asked(READ, POST, SEND, DONE, ask_after=()) == []


async def test_other_servers_are_asked_about() -> None:
    assert await asked(POST, READ, calls("mail_list"), POST) == ["mcp:other/post"]


async def test_what_may_connect_is_asked_about() -> None:
    assert await asked(SEND, READ, calls("look"), SEND) == ["send"]


async def test_unnamed_server_taints_nothing() -> None:
    assert await asked(POST, SEND, READ, DONE) == []


@pytest.mark.parametrize(("read", "taints"), [(uses("mail_read"), True), (calls("mail_read", {"query": 5}), False)])
async def test_wrapped_call_counts_as_itself(read: Answer, taints: bool) -> None:
    # A call with invalid arguments never ran, and has shown nothing of the server.
    assert await asked(read, uses("other_post"), DONE) == (["mcp:other/post"] if taints else [])


async def test_sub_agent_inherits_the_taint() -> None:
    assert await asked(READ, calls("delegate"), POST) == ["mcp:other/post"]


async def test_sub_agent_taints_its_turn() -> None:
    assert await asked(calls("delegate"), READ, DONE, SEND) == ["send"]


async def test_next_turn_is_free() -> None:
    assert await asked(READ, DONE, SEND, DONE, turns=2) == []


async def test_sub_agent_may_report_later() -> None:
    assert await asked(calls("delegate"), READ, DONE, DONE, SEND, turns=2) == ["send"]


async def test_skill_stays_in_the_session() -> None:
    assert await asked(calls("mail_skill_sort"), DONE, SEND, DONE, turns=2) == ["send"]


async def test_hook_answers_no_question() -> None:
    async def allow(use: ToolUse) -> ToolDecision:
        return ToolDecision(verdict="allow")

    assert await asked(READ, SEND, hooks=Hooks(before_tool=(allow,))) == ["send"]


async def test_question_says_why() -> None:
    async with opened(ScriptedProvider([READ, SEND])) as eng:
        events = await run(await eng.create_session())
    [question] = [event for event in events if isinstance(event, PermissionAsked)]
    assert question.rule == "the setting permissions.ask_after, because mcp:mail/read was used in this turn"
    assert question.offers == ()
    assert [e.source for e in events if isinstance(e, CallJudged) and e.verdict == "ask"] == [question.rule]


async def test_denied_where_no_one_answers() -> None:
    settings = engine.Settings(headless="deny")
    async with opened(ScriptedProvider([READ, SEND, DONE]), settings=settings) as eng:
        events = await run(await eng.create_session())
    assert [status for status, _ in results(events)] == ["completed", "denied"]


def test_setting_names_servers() -> None:
    config = read_config(b'[permissions]\nask_after = ["mcp:mail/*", "mcp:*"]\n', "config.toml")
    assert config.rule_layers.ask_after == ("mcp:mail/*", "mcp:*")


@pytest.mark.parametrize("value", ['["bash"]', '["mcp:"]', "[5]", '"mcp:mail/*"', '["web:read"]'])
def test_other_permissions_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"permission of tools of a server|must be an array of texts"):
        read_config(f"[permissions]\nask_after = {value}\n".encode(), "config.toml")
