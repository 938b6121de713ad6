"""Permissions through a real engine: the built-in tools in a real folder, a scripted model, and whoever answers.

The "Accept" lines of the behaviours that this engine promises, one after the other:

- T18, shell commands: `test_rights_of_a_command_line`, `test_a_deny_finds_the_command_wherever_it_hides`,
  `test_unparsable_scripts_ask_or_are_denied`, `test_reading_the_project_needs_no_question`.
- T19, sub-agents: `test_sub_agents_inherit_denies` and the one behind it.
- T24, rules: `test_deny_beats_ask_without_a_question`, `test_hidden_tools_are_not_offered_and_denied`,
  `test_secrets_in_subfolders_are_asked_about`.
- T25, answers: the tests on "always", rejections and withdrawn questions; those on one question in tests/nursery/test_questions.py.
"""

# ruff: noqa: ASYNC240 -- the folders are small

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.errors import ConfigError, RequestNotFound
from engine.core.events import (
    CallJudged,
    CallStarted,
    GrantScope,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    Right,
    Verdict,
)
from engine.core.hooks import Hooks, PermissionDecision, PermissionRequested, ToolDecision, ToolUse
from engine.core.permission_types import Allowance, Judgement, Opinion, PermissionQuery, Rule
from engine.core.settings import Headless, Settings
from engine.permission.grants.grant_file import GrantFile
from engine.permission.policy import Policy
from engine.permission.rules.rule_file import parse_rule
from engine.session.answer_types import Answer as Reply
from engine.session.session import Session, live_session
from engine.session.turn import Turn
from engine.testing.invariants import check_transcript
from engine.testing.script import Answer, call, done, text
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.task import Agent, task_tool
from tests.support.world import Played, React, Seen, World, said, world

pytestmark = pytest.mark.os

DONE: Answer = [*text("Done."), *done()]
TOOLS = builtin_tools({})


def rules(*texts: str) -> tuple[Rule, ...]:
    return tuple(parse_rule(one, "test") for one in texts)


def policy(*user: str, profile: str = "ask", file: GrantFile | None = None, home: str = "/nowhere") -> Policy:
    return Policy(profile=profile, user=rules(*user), file=file, home=home, load_project_rules=lambda *_: ())


def bash(*commands: str) -> Answer:
    calls = [item for n, line in enumerate(commands) for item in call("bash", {"command": line}, id=f"b{n}")]
    return [*calls, *done("calls")]


def tool(name: str, **arguments: str) -> Answer:
    return [*call(name, json.dumps(arguments), id=name), *done("calls")]


@attrs.frozen
class There:
    """A world in which one session works in a real folder."""

    world: World
    session: Session

    async def play(self, react: React | None = None, headless: Headless = "wait") -> Played:
        return await self.world.play(session=self.session, react=react, settings=Settings(headless=headless))


@asynccontextmanager
async def at(
    folder: Path,
    *answers: Answer,
    approver: Policy | None = None,
    opinion: Opinion | None = None,
    hooks: Hooks | None = None,
    own: Sequence[str] = (),
) -> AsyncGenerator[There]:
    folder.mkdir(exist_ok=True)
    async with world(
        *answers, tools=TOOLS, approver=approver or policy(), opinion=opinion, hooks=hooks, settings=Settings()
    ) as w:
        yield There(w, await w.engine.create_session(cwd=folder, rules=own))


def replies(*answers: Reply) -> React:
    left = list(answers)

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await turn.reply(event.request_id, left.pop(0))

    return react


NO = engine.Reject(feedback="no")


def rights_asked(played: Played) -> list[set[str]]:
    return [{f"{one.permission} {one.pattern}" for one in event.rights} for event in played.all(PermissionAsked)]


def answers(played: Played) -> list[str]:
    return [event.answer for event in played.all(PermissionAnswered)]


# -- T18 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "rights"),
    [
        ("echo x > ../out", {"edit {up}/out", "outside {up}/out"}),
        ("cat <(rm x)", {"bash rm x", "edit x"}),
        ("echo $(rm x)", {"bash rm x", "edit x"}),
        ("ls | tee /out", {"bash tee /out", "edit /out", "outside /out"}),
        ("env A=1 rm /out", {"bash rm /out", "edit /out", "outside /out"}),
        ("sh -c 'rm /out'", {"bash rm /out", "edit /out", "outside /out"}),
        ("> /out", {"edit /out", "outside /out"}),
        ("cd /tmp && rm x", {"bash rm x", "edit /tmp/x", "outside /tmp", "outside /tmp/x"}),
        ("cat link", {"outside {up}/beside"}),
    ],
)
async def test_rights_of_a_command_line(tmp_path: Path, command: str, rights: set[str]) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "x").touch()
    (tmp_path / "beside").write_text("out of sight")
    (folder / "link").symlink_to("../beside")
    async with at(folder, bash(command), DONE) as there:
        played = await there.play(replies(NO))
    assert (played.statuses, (folder / "x").exists(), (tmp_path / "out").exists()) == (["denied"], True, False)
    (texts,) = rights_asked(played)
    texts = {right for right in texts if "/fd/" not in right}  # a pipe to a command of the line itself
    assert {right.format(up=tmp_path) for right in rights} <= texts
    assert all(right.startswith("bash ") or right in {one.format(up=tmp_path) for one in rights} for right in texts)
    assert played.one(PermissionAsked).detail == command


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "true && rm x",
        "X=1 rm x",
        "( rm x )",
        "f(){ rm x; }; f",
        "xargs rm < list",
        "'r'm x",
        "/bin/rm x",
        "sudo -n rm x",
        "if true; then rm x; fi",
        "bash -c 'rm x'",
        "find . -name x -exec rm {} +",
        "command rm x",
        "echo `rm x`",
        "{ rm x; } 2>/dev/null",
    ],
)
@pytest.mark.parametrize("profile", ["ask", "full"])
async def test_a_deny_finds_the_command_wherever_it_hides(tmp_path: Path, command: str, profile: str) -> None:
    (tmp_path / "x").touch()
    (tmp_path / "list").write_text("x\n")
    async with at(tmp_path, bash(command), DONE, approver=policy("deny bash rm *", profile=profile)) as there:
        played = await there.play()
        texts = said(there.world.requests[-1].transcript[-1])
    assert (played.statuses, rights_asked(played), (tmp_path / "x").exists()) == (["denied"], [], True)
    assert texts == "Denied by the rule 'deny bash rm *' of the layer user (test). Don't try to get around it."
    assert played.all(CallJudged)[-1].source == "the rule 'deny bash rm *' of the layer user (test)"


@pytest.mark.parametrize("command", ["echo 'x", "eval $X", "$(", "rm\u202e x", "echo x" * 3_000])
async def test_unparsable_scripts_ask_or_are_denied(tmp_path: Path, command: str) -> None:
    async with at(tmp_path, bash(command), bash(command), DONE) as there:
        played = await there.play(replies(NO, NO))
        first = played.all(PermissionAsked)[0]
        assert first.opaque
        assert (first.detail, first.offers) == (command, ())
        there.world.will_say(bash(command), DONE)
        headless = await there.play(headless="deny")
    assert (headless.statuses, rights_asked(headless)) == (["denied"], [])


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls nope 2>/dev/null; true",
        "cat a.txt | wc -l >/dev/null",
        "grep -c x a.txt || true",
        "git status 2>&1; true",
    ],
)
async def test_reading_the_project_needs_no_question(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    async with at(tmp_path, bash(command), DONE) as there:
        played = await there.play()
    assert (rights_asked(played), played.statuses) == ([], ["completed"])


async def test_always_covers_the_same_command_line(tmp_path: Path) -> None:
    """The offers always answer the question that they were made with: each of them, by its number."""
    for number in range(2):
        folder = tmp_path / str(number)
        line = "FOO=1 touch a b && touch c"
        async with at(folder, bash(line), bash(line), DONE) as there:
            played = await there.play(replies(engine.Always(offer=number)))
        assert (answers(played), played.statuses) == (["always"], ["completed", "completed"])
        assert (folder / "c").exists()


# -- T24 --------------------------------------------------------------------------------------------------


async def test_deny_beats_ask_without_a_question(tmp_path: Path) -> None:
    approver = policy("ask bash touch *", "deny bash rm *")
    async with at(tmp_path, bash("touch a; rm b"), DONE, approver=approver) as there:
        played = await there.play()
    assert (rights_asked(played), played.statuses, list(tmp_path.iterdir())) == ([], ["denied"], [])


async def test_secrets_in_subfolders_are_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.env").write_text("KEY=1\n")
    async with at(tmp_path, tool("read", path="a/b.env"), DONE) as there:
        played = await there.play(replies(NO))
    assert rights_asked(played) == [{"read a/b.env"}]


async def test_hidden_tools_are_not_offered_and_denied(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    edit = tool("edit", path="a", old_string="one", new_string="two")
    async with at(tmp_path, edit, bash("touch b"), DONE, approver=policy(profile="read-only")) as there:
        played = await there.play()
        offered = [{schema.name for schema in request.tools} for request in there.world.requests]
    assert offered[0] & {"edit", "write", "multi_edit", "apply_patch", "bash", "read"} == {"bash", "read"}
    assert offered == [offered[0]] * 3
    assert (played.statuses, (tmp_path / "a").read_text()) == (["denied", "denied"], "one\n")


async def test_denied_sub_agents_are_not_listed(tmp_path: Path) -> None:
    agents = [Agent(name="look", description="Looks."), Agent(name="work", description="Works.")]
    async with at(tmp_path, DONE, DONE, approver=policy("deny task work")) as there:
        there.session.use_tools([*TOOLS, task_tool(agents)])
        await there.play()
        await there.play()
        listed = [schema for request in there.world.requests for schema in request.tools if schema.name == "task"]
    assert listed[0] is listed[1]
    assert listed[0].description.endswith("\n- look: Looks.")


async def test_hidden_tools_are_computed_once_per_tool_set(tmp_path: Path) -> None:
    """Requests begin with the tools, and are cheap only as long as they begin alike."""
    asked_about: list[str] = []

    class Counting(Policy):
        def hides(self, chain: object, cwd: str, permission: str) -> bool:
            asked_about.append(permission)
            return permission == "edit"

    approver = Counting(load_project_rules=lambda *_: ())
    async with at(tmp_path, DONE, DONE, DONE, approver=approver) as there:
        await there.play()
        once = list(asked_about)
        await there.play()
        assert (asked_about, sorted(set(once)).count("edit")) == (once, 1)
        there.session.use_tools([one for one in TOOLS if one.name in {"read", "edit"}])
        await there.play()
        names = [[schema.name for schema in request.tools] for request in there.world.requests]
    assert names[0] == names[1]
    assert (names[2], asked_about[len(once) :]) == (["read"], ["edit", "read"])


# -- T25 --------------------------------------------------------------------------------------------------


async def test_deny_secret_always_on_all_still_denied(tmp_path: Path) -> None:
    write = [tool("write", path=name, content="x") for name in ("a", "docs/b", "SECRET.md", "docs/SECRET.md")]
    approver = policy("deny edit SECRET.md")
    async with at(tmp_path, *write, DONE, approver=approver) as there:

        async def react(turn: Turn, event: Seen) -> None:
            if isinstance(event, PermissionAsked):
                query = PermissionQuery(
                    chain=live_session(there.session).active.inputs.chain,  # type: ignore[union-attr]
                    call_id=event.call_id,
                    cwd=str(tmp_path),
                    tool="write",
                    read_only=False,
                    permission="edit",
                    rights=(),
                )
                approver.grant(query, engine_allowance("edit", "*"))
                await turn.reply(event.request_id, engine.Once())

        played = await there.play(react)
    assert played.statuses == ["completed", "completed", "denied", "denied"]
    assert len(played.all(PermissionAsked)) == 1


def engine_allowance(permission: str, pattern: str) -> Allowance:
    return Allowance(rights=(Right(permission=permission, pattern=pattern),), scope="session")


@pytest.mark.parametrize(("scope", "released"), [("turn", False), ("session", False), ("project", True)])
async def test_always_answers_open_questions_of_other_conversations(
    tmp_path: Path, scope: GrantScope, *, released: bool
) -> None:
    async with at(tmp_path, bash("touch x"), bash("touch x"), DONE, DONE) as there:
        other = await there.world.engine.create_session(cwd=tmp_path)
        async with there.session.prompt("go") as one, other.prompt("go") as two:
            first, second = await question(there.session), await question(other)
            await one.reply(first.request_id, engine.Always(scope=scope))
            if released:
                with pytest.raises(RequestNotFound):
                    await two.reply(second.request_id, engine.Once())
            else:
                await two.reply(second.request_id, engine.Once())
            assert [(await turn.wait()).stop_reason for turn in (one, two)] == ["completed"] * 2
        events = other.events()
    sources = [e.source for e in events if isinstance(e, CallJudged)]
    by = "the user, who allowed bash touch x (for this project)" if released else "the user, once"
    assert sources[-1] == by
    assert [e.answer for e in events if isinstance(e, PermissionAnswered)] == ["once"]


async def question(session: Session) -> PermissionAsked:
    with trio.fail_after(60):
        while True:
            for event in session.events():
                if isinstance(event, PermissionAsked):
                    return event
            await trio.sleep(0.01)


async def test_grants_end_with_their_turn_and_session(tmp_path: Path) -> None:
    held = policy()
    async with at(tmp_path, bash("touch x"), DONE, bash("touch y"), DONE, approver=held) as there:
        await there.play(replies(engine.Always(scope="turn")))
        assert held.grants.current(0) == ()
        await there.play(replies(engine.Always(scope="session")))
        assert [grant.scope for grant in held.grants.current(0)] == ["session"] * 2
    assert held.grants.current(0) == ()


async def test_project_grants_survive_a_restart(tmp_path: Path) -> None:
    file, folder = GrantFile(tmp_path / "state" / "grants.json"), tmp_path / "app"
    for scope, questions in (("session", 2), ("project", 2), ("project", 1), ("turn", 1)):
        script = [bash("touch x"), bash("rm x"), bash("rm x"), DONE]
        async with at(folder, *script, approver=policy("allow bash touch *", file=file)) as there:
            played = await there.play(replies(*[engine.Always(scope=scope)] * 2))  # type: ignore[arg-type]
        assert len(played.all(PermissionAsked)) == (1 if questions == 2 else 0), scope
    assert {grant.scope for grant in file.load()} == {"project"}


async def test_project_grants_need_a_project() -> None:
    seen: list[str] = []

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            with pytest.raises(ConfigError, match="belongs to no project") as caught:
                await turn.reply(event.request_id, engine.Always(scope="project"))
            seen.append(str(caught.value))
            await turn.reply(event.request_id, NO)

    async with at(Path("/"), bash("touch /nowhere/x"), DONE) as there:
        played = await there.play(react)
    assert (len(seen), answers(played)) == (1, ["reject"])


async def test_unwritable_grants_apply_and_are_reported(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with at(
        tmp_path, bash("touch x"), bash("touch x"), DONE, approver=policy(file=GrantFile(state / "grants.json"))
    ) as there:
        state.write_text("no folder")
        played = await there.play(replies(engine.Always(scope="project")))
    assert played.statuses == ["completed", "completed"]
    notices = [e.text for e in played.all(Notice) if e.code == "grant_not_saved"]
    assert len(notices) == 1
    assert notices[0].startswith("what was allowed ends with this engine: ")


class CancelAt(trio.abc.Instrument):
    """Calls *cancel* before the step of that number of any task, counted from when it is armed."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.cancel: Callable[[], None] | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.cancel is not None:
            self.left -= 1
            if self.left == 0:
                self.cancel()


async def _always(file: GrantFile, folder: Path, injector: CancelAt, *, by_host: bool) -> None:
    """Play a question, an "always" for the project and a command; be cancelled somewhere in it."""
    script = [bash("touch x && rm -f y"), bash("touch x && rm -f y"), DONE]
    async with at(folder, *script, approver=policy(file=file)) as there:
        with trio.CancelScope() as host:
            async with there.session.prompt("go") as turn:
                injector.cancel = (lambda: host.cancel(reason="test")) if by_host else turn.cancel
                async for event in turn:
                    if isinstance(event, PermissionAsked):
                        with suppress(RequestNotFound):
                            await turn.reply(event.request_id, engine.Always(scope="project"))
        injector.cancel = None
        events = there.session.events()
        assert check_transcript(there.session.state.transcript) == []
        open_questions = {e.request_id for e in events if isinstance(e, PermissionAsked)}
        assert open_questions == {e.request_id for e in events if isinstance(e, PermissionAnswered)}
        assert len(live_session(there.session).questions) == 0
        ran = [e for e in events if isinstance(e, CallStarted)]
        allowed = [e for e in events if isinstance(e, PermissionAnswered) and e.answer == "always"]
        assert not ran or allowed, "a command ran that nobody had allowed"


@pytest.mark.parametrize("by_host", [False, True], ids=["the turn", "the host"])
def test_cancelled_project_grants_are_stored_atomically(tmp_path: Path, *, by_host: bool) -> None:
    outcomes: set[int] = set()
    for step in range(1, 400, 3):
        file = GrantFile(tmp_path / str(step) / "grants.json")
        injector = CancelAt(step)
        trio.run(partial(_always, file, tmp_path / f"app{step}", injector, by_host=by_host), instruments=[injector])
        outcomes.add(len(file.load()))
        if injector.left > 0:  # it was over before
            break
    else:
        raise AssertionError("the turn has more steps than were tried")
    # The two commands and the two files that they touch.
    assert outcomes == {0, 4}


# -- T19 --------------------------------------------------------------------------------------------------


@attrs.frozen
class Task:
    """Hand a task to a sub-agent."""

    prompt: str


@engine.tool(name="agent", read_only=True)
async def agent(args: Task, ctx: engine.ToolContext) -> str:
    result = await ctx.run_agent(args.prompt)
    return f"{result.stop_reason}: {result.text}"


async def family(folder: Path, command: Answer, own: Sequence[str], react: React | None, headless: Headless) -> Played:
    delegate = [*call("agent", {"prompt": "do"}, id="a"), *done("calls")]
    async with world(delegate, command, DONE, DONE, tools=[*TOOLS, agent], approver=policy()) as w:
        session = await w.engine.create_session(cwd=folder, rules=own)
        return await w.play(session=session, react=react, settings=Settings(headless=headless))


async def test_sub_agents_inherit_denies(tmp_path: Path) -> None:
    command = tool("write", path="a", content="x")
    played = await family(tmp_path, command, ["deny edit *"], None, "wait")
    sources = [e.source for e in played.events if isinstance(e, CallJudged) and e.session_id != played.session.id]
    assert sources == ["the rule 'deny edit *' of the layer agent (the host's own)"]
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("headless", ["wait", "deny"])
async def test_sub_agent_questions_reach_the_root(tmp_path: Path, headless: Headless) -> None:
    paths: list[int] = []
    roots: list[str] = []

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            paths.append(len(event.path))
            roots.append(event.path[0])
            await turn.reply(event.request_id, engine.Once())

    played = await family(tmp_path, bash("touch x"), [], react, headless)
    assert (paths, (tmp_path / "x").exists()) == ([2] if headless == "wait" else [], headless == "wait")
    assert played.statuses == ["completed"]
    assert set(roots) <= {played.session.id}


# -- second opinions, and hooks --------------------------------------------------------------------------------


def says(*verdicts: object) -> Opinion:
    left = list(verdicts)

    async def second(query: PermissionQuery, judgement: Judgement) -> Verdict:
        await trio.lowlevel.checkpoint()
        said_now = left.pop(0)
        if isinstance(said_now, Exception):
            raise said_now
        if said_now == "hang":
            await trio.sleep_forever()
        return said_now  # type: ignore[return-value]

    return second


@pytest.mark.parametrize(
    ("verdict", "headless", "status", "questions"),
    [
        ("allow", "wait", "completed", 0),
        ("allow", "deny", "completed", 0),
        ("deny", "wait", "denied", 0),
        ("ask", "wait", "completed", 1),
        ("ask", "deny", "denied", 0),
        ("hang", "wait", "completed", 1),
        ("hang", "deny", "denied", 0),
        *((odd, "wait", "completed", 1) for odd in ("ALLOW", "", None, True, 1, ["allow"], "none", ValueError("no"))),
        (None, "deny", "denied", 0),
    ],
    ids=repr,
)
async def test_a_second_opinion(
    tmp_path: Path, verdict: object, headless: Headless, status: str, questions: int
) -> None:
    async with at(tmp_path, bash("touch x"), DONE, opinion=says(verdict)) as there:
        request = Settings(headless=headless, hook_timeout=0.2)
        played = await there.world.play(session=there.session, react=replies(engine.Once()), settings=request)
    assert (played.statuses, len(played.all(PermissionAsked))) == ([status], questions)
    assert (tmp_path / "x").exists() == (status == "completed")


async def test_second_opinion_only_where_rules_ask(tmp_path: Path) -> None:
    async def wants_a_person(use: ToolUse) -> ToolDecision:
        await trio.lowlevel.checkpoint()
        return ToolDecision(verdict="ask", reason="look at it" if "touch" in use.arguments else "")

    hooks = Hooks(before_tool=(wants_a_person,))
    script = [bash("rm x"), bash("touch x"), DONE]
    async with at(tmp_path, *script, approver=policy("deny bash rm *"), opinion=says(), hooks=hooks) as there:
        played = await there.play(replies(NO))
    assert (played.statuses, len(played.all(PermissionAsked))) == (["denied", "denied"], 1)


async def test_a_policy_hook_that_hangs_denies(tmp_path: Path) -> None:
    async def hangs(request: PermissionRequested) -> PermissionDecision:
        await trio.sleep_forever()
        raise AssertionError(request)

    hooks = Hooks(permission_request=(hangs,))
    async with at(tmp_path, bash("touch x"), DONE, hooks=hooks) as there:
        played = await there.world.play(session=there.session, settings=Settings(hook_timeout=0.2))
    assert (played.statuses, rights_asked(played), (tmp_path / "x").exists()) == (["denied"], [], False)


async def test_a_hooks_question_needs_its_own_answer(tmp_path: Path) -> None:
    """Two open questions, one of them a hook's: an "always" for the other one leaves it open."""

    async def wants_a_person(use: ToolUse) -> ToolDecision:
        await trio.lowlevel.checkpoint()
        return ToolDecision(verdict="ask" if use.session_id == hooked[0] else "none")

    hooked = [""]
    async with at(
        tmp_path, bash("touch x"), bash("touch x"), DONE, DONE, hooks=Hooks(before_tool=(wants_a_person,))
    ) as there:
        other = await there.world.engine.create_session(cwd=tmp_path)
        hooked[0] = other.id
        async with there.session.prompt("go") as one, other.prompt("go") as two:
            first, second = await question(there.session), await question(other)
            await one.reply(first.request_id, engine.Always(scope="project"))
            await one.wait()
            await two.reply(second.request_id, NO)
            await two.wait()
        texts = [e.answer for e in other.events() if isinstance(e, PermissionAnswered)]
    assert texts == ["reject"]


async def test_grants_during_a_second_opinion_answer_the_call(tmp_path: Path) -> None:
    approver = policy()

    async def allows_it_elsewhere(query: PermissionQuery, judgement: Judgement) -> Verdict:
        await trio.lowlevel.checkpoint()
        approver.grant(query, engine_allowance("bash", "touch *"))
        return "ask"

    async with at(
        tmp_path,
        bash("touch x"),
        DONE,
        approver=approver,
        opinion=allows_it_elsewhere,
    ) as there:
        played = await there.play()
    assert (played.statuses, rights_asked(played)) == (["completed"], [])


# -- nobody there ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "headless", "status"),
    [
        ((), "deny", "denied"),
        ((), "rules", "denied"),
        (("allow bash touch *", "allow edit x"), "deny", "completed"),
        (("allow bash touch *", "allow edit x"), "rules", "completed"),
        (("deny bash touch *",), "rules", "denied"),
    ],
)
async def test_headless(tmp_path: Path, user: tuple[str, ...], headless: Headless, status: str) -> None:
    async with at(tmp_path, bash("touch x"), DONE, approver=policy(*user)) as there:
        played = await there.play(headless=headless)
    assert (played.statuses, rights_asked(played), (tmp_path / "x").exists()) == ([status], [], status == "completed")


async def test_headless_rules_allow_nothing_by_default(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    script = [tool("read", path="a"), bash("ls"), DONE]
    async with at(tmp_path, *script) as there:
        played = await there.play(headless="rules")
        texts = [one.text for one in played.settlements]
    assert texts == [
        "Denied: no rule allows 'read' here, and no one is available to ask.",
        "Denied: no rule allows 'bash' here, and no one is available to ask.",
    ]


async def test_questions_expire_at_their_deadline(tmp_path: Path) -> None:
    async with at(tmp_path, bash("touch x"), bash("touch x"), DONE) as there:
        request = Settings(question_timeout=0.2)
        began = trio.current_time()
        played = await there.world.play(session=there.session, settings=request)
    first, second = played.all(PermissionAsked)
    assert first.until is not None
    assert second.until is not None
    assert began + 0.2 <= first.until <= second.until
    assert (answers(played), played.statuses) == (["expired", "expired"], ["denied", "denied"])
    assert not (tmp_path / "x").exists()


# -- searches ---------------------------------------------------------------------------------------------------------


def tree(folder: Path) -> None:
    (folder / "deep").mkdir(parents=True)
    for name in ("a.txt", ".env", "deep/prod.env", "deep/b.txt", ".env.example"):
        (folder / name).write_text("KEY=1\n")


GREP: Answer = [*call("grep", {"pattern": "KEY"}, id="g"), *done("calls")]


async def test_searches_hide_unreadable_files(tmp_path: Path) -> None:
    tree(tmp_path)
    async with at(tmp_path, GREP, DONE) as there:
        played = await there.play()
    assert played.settlements[0].text == (
        ".env.example\n1: KEY=1\n\na.txt\n1: KEY=1\n\ndeep/b.txt\n1: KEY=1\n"
        "(2 files left out: what is in there may not be read unasked. To see one of them, name it as path)"
    )


@pytest.mark.parametrize("output", ["files", "count"])
async def test_nor_which_of_them_match(tmp_path: Path, output: str) -> None:
    tree(tmp_path)
    search = [*call("grep", {"pattern": "KEY", "output": output}, id="g"), *done("calls")]
    async with at(tmp_path, search, DONE, approver=policy("deny read deep/b.txt")) as there:
        shown = (await there.play()).settlements[0].text
    assert ("prod.env" in shown, "b.txt" in shown, "a.txt" in shown, "(3 files left out" in shown) == (
        False,
        False,
        True,
        True,
    )


async def test_an_allowed_file_is_searched(tmp_path: Path) -> None:
    tree(tmp_path)
    search = [*call("grep", {"pattern": "KEY", "path": ".env"}, id="g"), *done("calls")]
    async with at(tmp_path, search, DONE) as there:
        played = await there.play(replies(engine.Once()))
    assert (rights_asked(played), played.settlements[0].text) == ([{"read .env"}], ".env\n1: KEY=1")


@pytest.mark.parametrize("way", ["a person", "a second opinion", "a hook"])
async def test_an_allowed_search_outside_shows_its_files(tmp_path: Path, way: str) -> None:
    tree(tmp_path / "out")
    search = [*call("grep", {"pattern": "KEY", "path": str(tmp_path / "out")}, id="g"), *done("calls")]

    async def allows(request: PermissionRequested) -> PermissionDecision:
        await trio.lowlevel.checkpoint()
        return PermissionDecision(verdict="allow")

    hooks = Hooks(permission_request=(allows,)) if way == "a hook" else None
    opinion = says("allow") if way == "a second opinion" else None
    async with at(tmp_path / "app", search, DONE, hooks=hooks, opinion=opinion) as there:
        played = await there.play(replies(engine.Once()))
    assert len(rights_asked(played)) == (1 if way == "a person" else 0)
    shown = played.settlements[0].text
    assert (shown.count("KEY=1"), "(2 files left out" in shown) == (3, True)
