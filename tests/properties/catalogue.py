"""The scenarios that are cancelled at each of their points: one for each thing that a turn may be doing."""

from collections.abc import Callable, Sequence
from functools import partial

import trio

from engine.core.errors import ContextOverflow, Overloaded, ProviderError, SignatureRejected
from engine.core.events import RecoveryAsked
from engine.core.hooks import (
    Compacted,
    Compacting,
    Context,
    Hooks,
    PermissionDecision,
    PermissionRequested,
    PromptDecision,
    Prompted,
    Remark,
    RequestDecision,
    Requesting,
    StopDecision,
    Stopping,
    Subject,
    ToolDecision,
    ToolUse,
)
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import Message, ResultsMessage
from engine.core.protocols import ContextView
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.nursery.rate_limiter import LONG_PREFIX
from engine.session.answer_types import Always, Recovery, Reject
from engine.testing.fake_source import FakeSource
from engine.testing.fake_tools import BEHAVIOURS, Work
from engine.testing.fakes import ScriptedKeeper, ScriptedSnapshots
from engine.testing.harness import Scenario
from engine.testing.script import Answer, Break, Fail, Pause, call, done, reasoning, text
from engine.tools.foreign import JsonArguments
from engine.tools.tool import assessed_by, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_source import SourceQuestion, SourceScope, ToolSource


def _manner(manner: str) -> Scenario:
    """A safe call and one that runs alone, both behaving in that manner."""
    first = [
        *text("x"),
        *call("look", {"key": "a", "seconds": 0.3, "manner": manner}, id="1"),
        *call("work", {"key": "b", "seconds": 0.3, "manner": manner}, id="2"),
        *done("calls"),
    ]
    return Scenario(script=[first])


def _deep(manner: str) -> Scenario:
    """Sub-agents three levels deep, the last one running a call in that manner."""
    root = [
        *call("sub", {"key": "one"}, id="1"),
        *call("look", {"key": "x", "seconds": 0.5}, id="2"),
        *done("calls"),
    ]
    child = [*text("child "), *call("sub", {"key": "two"}, id="1"), *done("calls")]
    grandchild = [*text("deep "), *call("look", {"key": "y", "seconds": 0.5, "manner": manner}, id="1"), *done("calls")]
    return Scenario(script=[root, child, grandchild])


async def _slow_hook(use: ToolUse) -> ToolDecision | None:
    await trio.sleep(0.2)
    return None


async def _slow_change(use: ToolUse) -> ToolDecision:
    await trio.sleep(0.2)
    return ToolDecision(verdict="ask", arguments=use.arguments, text="another text", context="said by a hook")


async def _slow_permission(wanted: PermissionRequested) -> PermissionDecision:
    await trio.sleep(0.2)
    return PermissionDecision(verdict="allow", arguments=wanted.arguments)


async def _slow_prompt(prompted: Prompted) -> PromptDecision:
    await trio.sleep(0.2)
    return PromptDecision(context="said by a hook")


async def _blocked_prompt(prompted: Prompted) -> PromptDecision | None:
    await trio.sleep(0.2)
    return PromptDecision(verdict="block", reason="no") if prompted.text == "go" else None


async def _slow_request(requesting: Requesting) -> RequestDecision:
    await trio.sleep(0.2)
    return RequestDecision(context="said by a hook")


async def _slow_compaction(compacting: Compacting) -> None:
    await trio.sleep(0.2)


async def _slow_context(compacted: Compacted) -> Context:
    await trio.sleep(0.2)
    return Context(context="said by a hook")


async def _slow_remark(subject: Subject) -> Remark:
    await trio.sleep(0.2)
    return Remark(message="said by a hook")


async def _one_more_round(stopping: Stopping) -> StopDecision | None:
    await trio.sleep(0.1)
    return StopDecision(verdict="block", reason="go on") if stopping.already_blocked < 1 else None


def _keep_last(view: ContextView) -> Sequence[Message]:
    return view.transcript[-1:]


def _keep_all(view: ContextView) -> Sequence[Message]:
    return view.transcript[:]


def _busy_keeper() -> ScriptedKeeper:
    return ScriptedKeeper(seconds=0.5, prunes=[_keep_all], compacts=[_keep_last], forced=[_keep_last])


def _assessed() -> Scenario:
    """Calls of a tool that takes time to tell whether they are safe; more comes from the model meanwhile."""

    async def assess(args: Work, cwd: str) -> bool:
        await trio.sleep(0.2)
        return args.key != "alone"

    async def read(args: Work, ctx: ToolContext) -> str:
        await trio.sleep(args.seconds)
        return args.key

    calls = [
        e
        for key in ("a", "b", "alone", "c")
        for e in [*call("read", {"key": key, "seconds": 0.1}, id=key), Pause(0.1), *text(key, id=f"t{key}")]
    ]
    return Scenario(
        tools=(assessed_by(tool(name="read", read_only=True)(read), assess),), script=[[*calls, *done("calls")]]
    )


_WORK = call("work", {"key": "a", "seconds": 0.3}, id="1")
_LOOK = call("look", {"key": "b", "seconds": 0.3}, id="2")
_LOOK_MORE = call("look", {"key": "c", "seconds": 0.2}, id="3")


def _ask_for_work_once(request: ModelRequest) -> Answer:
    """Answer like a model that has not seen a result of its call."""
    has_run = any(isinstance(message, ResultsMessage) for message in request.transcript)
    return [*text("ok"), *done()] if has_run else [*_WORK, *done("calls")]


def _failing(recover: Callable[[RecoveryAsked], Recovery | None]) -> Scenario:
    """A model that can't be reached: one retry, then somebody is asked; then it answers."""
    return Scenario(
        settings=Settings(on_exhausted="ask", question_timeout=2.0, retry=RetryPolicy(attempts=1, base=0.5)),
        recover=recover,
        script=[
            [*_LOOK, *done("calls")],
            [*text("abc"), Fail(Overloaded("busy", retryable=True))],
            [Fail(Overloaded("busy", retryable=True))],
            [*text("ok"), *done()],
        ],
    )


def _siblings(info: ModelInfo, settings: Settings | None = None) -> Scenario:
    """Three sub-agents at once, whose requests begin with the same words."""
    root = [*(e for n in range(3) for e in call("sub", {"key": f"s{n}"}, id=f"{n}")), *done("calls")]
    child = [Pause(0.3), *text("child "), Pause(0.3), *done()]
    return Scenario(script=[root, child, child, child], model=info, settings=settings or Settings())


class _Changing(FakeSource):
    """A source whose tools are others each time that it is asked, some of which take time, and which holds the first turn."""

    async def slow(self, arguments: JsonArguments, ctx: ToolContext) -> str:
        await trio.sleep(0.3)
        return arguments.text

    async def hold(self, scope: SourceScope) -> None:
        await trio.sleep(0.3)
        self.offer("slow", "lost", "still", body=self.slow)

    def lose(self, _: ModelRequest) -> Answer:
        self.offer("slow", "new", body=self.slow)
        lost = call("tool_use", {"name": "fake_lost", "arguments": {}}, id="1")
        return [*lost, *call("tool_use", {"name": "fake_slow", "arguments": {"query": "a"}}, id="2"), *done("calls")]


def _sourced(*, hangs: bool = False) -> Scenario:
    """Tools that are searched for and used, of a source that changes in the middle of the turn."""
    source = _Changing()
    source.wait = _never if hangs else source.hold

    def fresh() -> Sequence[ToolSource]:
        source.offer()
        return [source]

    search = call("tool_search", {"query": "slow lost"}, id="1")
    use = call("tool_use", {"name": "fake_slow", "arguments": {"query": "b"}}, id="2")
    return Scenario(
        sources=fresh,
        settings=Settings(eager_tokens=0),
        asks=True,
        # What comes after a source that hangs is as ever.
        script=[[*text("ok"), *done()]]
        if hangs
        else [[*search, *use, *_LOOK_MORE, *done("calls")], source.lose, [*text("ok"), *done()]],
    )


class _Asking(_Changing):
    """A source that asks the user before the first turn, and has a tool only after a yes."""

    def questions(self, scope: SourceScope) -> Sequence[SourceQuestion]:
        text, self.asks = self.asks, ""
        return [SourceQuestion(text=text, yes="Approve", answer=self.answer)] if text else []

    async def answer(self, agrees: bool) -> None:
        await trio.sleep(0.1)
        if agrees:
            self.offer("slow", body=self.slow)


def _asking(*labels: str) -> Scenario:
    """A source that asks before the turn."""
    source = _Asking()

    def fresh() -> Sequence[ToolSource]:
        source.offer()
        source.asks = "May it be used?"
        return [source]

    use = call("tool_use", {"name": "fake_slow", "arguments": {"query": "b"}}, id="1")
    return Scenario(
        sources=fresh,
        settings=Settings(eager_tokens=0),
        asks=True,
        say=lambda _: labels,
        script=[[*use, *done("calls")], [*text("ok"), *done()]],
    )


async def _never(_: SourceScope) -> None:
    await trio.sleep_forever()


CATALOGUE: dict[str, Callable[[], Scenario]] = {
    **{f"manner {manner}": partial(_manner, manner) for manner in BEHAVIOURS},
    "text and thinking": lambda: Scenario(
        script=[[*reasoning("hm", pieces=2, signature="s"), *text("Hello there", pieces=3), *done()]]
    ),
    "interleaved": lambda: Scenario(
        script=[
            [e for pair in zip(text("ab", id="1", pieces=2), text("cd", id="2", pieces=2), strict=True) for e in pair]
        ]
    ),
    "parallel calls": lambda: Scenario(
        script=[
            [
                *(e for n in range(4) for e in call("look", {"key": f"k{n}", "seconds": 0.1 * (4 - n)}, id=f"{n}")),
                *done("calls"),
            ]
        ]
    ),
    "calls that are assessed": _assessed,
    "slow stream": lambda: Scenario(
        script=[[*text("a"), Pause(1), *_LOOK, Pause(1), *_WORK, *text("b", id="b"), Pause(1), *done("calls")]]
    ),
    "one chunk": lambda: Scenario(
        batch=100, script=[[*text("abc", pieces=3), *_LOOK, *_WORK, *_LOOK_MORE, *done("calls")]]
    ),
    "source that asks": partial(_asking, "Approve"),
    "source that is declined": partial(_asking),
    "question answered": lambda: Scenario(asks=True, script=[[*_WORK, *_LOOK, *done("calls")]]),
    "question answered always": lambda: Scenario(
        asks=True,
        reply=lambda _: Always(),
        script=[[*_WORK, *call("work", {"key": "z"}, id="9"), *done("calls")]],
    ),
    "question rejected with a word": lambda: Scenario(
        asks=True, reply=lambda _: Reject("not that"), script=[[*_WORK, *_LOOK, *done("calls")]]
    ),
    "question rejected": lambda: Scenario(
        asks=True, reply=lambda _: Reject(), script=[[*_LOOK, *_WORK, *_LOOK_MORE, *done("calls")]]
    ),
    "question unanswered": lambda: Scenario(
        asks=True,
        reply=lambda _: None,
        settings=Settings(question_timeout=2.0),
        script=[[*_WORK, *done("calls")]],
    ),
    "retries and a break": lambda: Scenario(
        script=[
            [Fail(Overloaded("busy", retryable=True))],
            [*text("abc", pieces=2), Break()],
            [*_LOOK, Pause(1), Break()],
            [*text("ok"), *done()],
        ]
    ),
    "runs before a break": lambda: Scenario(script=[[*_WORK, *text("and"), Pause(1), Break()], _ask_for_work_once]),
    "break in the arguments": lambda: Scenario(
        script=[[*text("abc"), *call("look", {"key": "q"}, id="1", pieces=3)[:-2], Break()]]
    ),
    "slow store": lambda: Scenario(store_delay=0.05, script=[[*_WORK, *done("calls")]]),
    "steered": lambda: Scenario(
        steers=((1, "left"), (2, "right")),
        script=[[*_LOOK, *done("calls")], [*_LOOK_MORE, *done("calls")]],
    ),
    "hooks": lambda: Scenario(
        hooks=Hooks(before_tool=(_slow_hook,), after_tool=(_slow_hook,), stop=(_one_more_round,)),
        script=[[*_WORK, *done("calls")]],
    ),
    "hooks that change a call": lambda: Scenario(
        asks=True,
        hooks=Hooks(
            before_tool=(_slow_change,),
            permission_request=(_slow_permission,),
            after_tool=(_slow_change,),
            notification=(_slow_remark,),
        ),
        script=[[*_WORK, *_LOOK, *done("calls")]],
    ),
    "hooks of a failure": lambda: Scenario(
        hooks=Hooks(tool_failed=(_slow_change,)),
        script=[[*call("work", {"key": "1", "seconds": 0.1, "manner": "failed"}, id="1"), *_LOOK, *done("calls")]],
    ),
    "hooks of a prompt and a request": lambda: Scenario(
        hooks=Hooks(user_prompt=(_slow_prompt,), request=(_slow_request,)),
        steers=((1, "left"),),
        script=[[*_LOOK, *done("calls")], [Break()], [*text("ok"), *done()]],
    ),
    "hooks that block a prompt": lambda: Scenario(
        hooks=Hooks(user_prompt=(_slow_prompt, _blocked_prompt)), script=[[*text("never"), *done()]]
    ),
    "hooks of a completed task and of rest": lambda: Scenario(
        hooks=Hooks(task_completed=(_one_more_round,), idle=(_slow_remark,), session_end=(_slow_remark,)),
        script=[[*text("abc"), *done()], [*text("def"), *done()]],
    ),
    "hooks of a sub-agent": lambda: Scenario(
        hooks=Hooks(sub_agent_stop=(_one_more_round,)),
        script=[
            [*call("sub", {"key": "do"}, id="1"), *done("calls")],
            [*text("child "), *done()],
            [*text("child again"), *done()],
        ],
    ),
    "hooks of a compaction": lambda: Scenario(
        keeper=lambda: ScriptedKeeper(seconds=0.2, compacts=[_keep_last], forced=[_keep_all, _keep_last]),
        hooks=Hooks(before_compaction=(_slow_compaction,), after_compaction=(_slow_context,)),
        script=[
            [*text("abc"), Fail(ContextOverflow("too long"))],
            [Fail(ContextOverflow("too long"))],
            [*text("ok"), *done()],
        ],
    ),
    "compaction": lambda: Scenario(
        keeper=_busy_keeper, script=[[Fail(ContextOverflow("too long"))], [*text("ok"), *done()]]
    ),
    "too long in the middle": lambda: Scenario(
        keeper=_busy_keeper,
        script=[[*text("abc"), Fail(ContextOverflow("too long"))], [*text("ok"), *done()]],
    ),
    "too long in the middle, and no room": lambda: Scenario(script=[[*text("abc"), Fail(ContextOverflow("too long"))]]),
    "failed after a thought": lambda: Scenario(script=[[*reasoning("hm", signature="s"), Fail(ProviderError("no"))]]),
    "cut off": lambda: Scenario(
        script=[[*text("abc"), *done("length")], [*text("abc"), *done("length")], [*text("def"), *done()]]
    ),
    "cut off in a call": lambda: Scenario(
        script=[[*_LOOK, *call("work", {"key": "never"}, id="9", pieces=4)[:-3], *done("length")]]
    ),
    "paused by the provider": lambda: Scenario(script=[[*text("a"), *done("pause")], [*text("b"), *done()]]),
    "signature rejected": lambda: Scenario(script=[[Fail(SignatureRejected("old"))], [*text("b"), *done()]]),
    "chain": lambda: Scenario(
        settings=Settings(chain=True),
        script=[
            [
                *call("work", {"key": "1", "seconds": 0.1, "manner": "failed"}, id="1"),
                *call("work", {"key": "2", "seconds": 0.1}, id="2"),
                *done("calls"),
            ]
        ],
    ),
    "deadline": lambda: Scenario(
        settings=Settings(limits=Limits(seconds=0.7)), script=[[*_WORK, *_LOOK, *_LOOK_MORE, *done("calls")]]
    ),
    "step limit": lambda: Scenario(
        settings=Settings(limits=Limits(steps=2)), script=[[*_LOOK, *done("calls")]] * 3, unique_keys=False
    ),
    "doom loop": lambda: Scenario(
        asks=True,
        unique_keys=False,
        script=[[*call("look", {"key": "same"}, id="1"), *done("calls")]] * 4,
    ),
    "left early": lambda: Scenario(breaks_after=12, script=[[*text("abcdef", pieces=5), *_LOOK, *done("calls")]]),
    "sub-agent": lambda: Scenario(
        script=[
            [*call("sub", {"key": "do"}, id="1"), *call("look", {"key": "x", "seconds": 0.5}, id="2"), *done("calls")],
            [*text("child "), *call("look", {"key": "y", "seconds": 0.5}, id="1"), *done("calls")],
        ]
    ),
    "failed for good, and tried again": lambda: _failing(lambda _: "wait"),
    "failed for good, and another model": lambda: _failing(lambda _: "switch"),
    "failed for good, and stopped": lambda: _failing(lambda _: "stop"),
    "failed for good, and nobody there": lambda: _failing(lambda _: None),
    "one place at the host": lambda: _siblings(ModelInfo(name="scripted/model", host="scripted", parallel=1)),
    "one writes the cache": lambda: _siblings(
        ModelInfo(name="scripted/model"), settings=Settings(system="x" * LONG_PREFIX)
    ),
    "files are noted": lambda: Scenario(
        snapshots=lambda: ScriptedSnapshots(seconds=0.1),
        script=[
            [
                *call("look", {"key": "a", "seconds": 0.1}, id="1"),
                *call("work", {"key": "b", "seconds": 0.1}, id="2"),
                *call("sub", {"key": "c"}, id="3"),
                *done("calls"),
            ],
            [*call("work", {"key": "d", "seconds": 0.1}, id="1"), *done("calls")],
        ],
    ),
    "files can't be noted": lambda: Scenario(
        snapshots=lambda: ScriptedSnapshots(fails=True), script=[[*_LOOK, *_WORK, *done("calls")]]
    ),
    "tools that are searched for": _sourced,
    "tools that are never ready": partial(_sourced, hangs=True),
    "three levels, stubborn": lambda: _deep("stubborn"),
    "three levels, cleaning up": lambda: _deep("cleans_up"),
}
