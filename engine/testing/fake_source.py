"""`FakeSource`: a source of tools whose tools come, change and go when a test says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from engine.tools.foreign import ForeignBody, JsonArguments, foreign_tool
from engine.tools.tool import Tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_source import SourceQuestion, SourceScope

SCHEMA = '{"type":"object","properties":{"query":{"type":"string"}}}'


@attrs.define(eq=False)
class FakeSource:
    """A source without a process or a network.

    Attributes:
        name: what people call it.
        offers: the tools that it has now; a test may replace them at any time.
        news: what the user should know.
        wait: what holds the first turn of a session.
        work: what it does as long as the engine is open; by default it waits.
        running: whether it is at work.
        calls: the arguments of the calls that have reached `echo`.
        asks: what it asks the user before a turn, until that is answered; empty: nothing.
        answers: what the user has answered: whether to agree.
    """

    name: str = "fake"
    offers: Sequence[Tool] = ()
    news: Sequence[str] = ()
    wait: Callable[[SourceScope], Awaitable[None]] | None = None
    work: Callable[[], Awaitable[None]] = trio.sleep_forever
    running: bool = attrs.field(default=False, init=False)
    calls: list[str] = attrs.field(factory=list[str], init=False)
    asks: str = ""
    answers: list[bool] = attrs.field(factory=list[bool], init=False)

    async def run(self) -> None:
        """Work until cancelled. A checkpoint."""
        self.running = True
        try:
            await self.work()
        finally:
            self.running = False

    def tools(self, scope: SourceScope) -> Sequence[Tool]:
        """Return the tools. Not a checkpoint."""
        return self.offers

    async def ready(self, scope: SourceScope) -> None:
        """Wait as the test says. A checkpoint if it does."""
        if self.wait is not None:
            await self.wait(scope)

    def notices(self, scope: SourceScope) -> Sequence[str]:
        """Return what the user should know. Not a checkpoint."""
        return self.news

    def questions(self, scope: SourceScope) -> Sequence[SourceQuestion]:
        """Return what it asks. Not a checkpoint."""
        return [SourceQuestion(text=self.asks, yes="Approve", answer=self.answer)] if self.asks else []

    async def answer(self, agrees: bool) -> None:  # noqa: FBT001  # as `SourceQuestion` has it
        """Take an answer; the question is not asked again. A checkpoint."""
        await trio.lowlevel.checkpoint()
        self.asks = ""
        self.answers.append(agrees)

    async def echo(self, arguments: JsonArguments, ctx: ToolContext) -> str:
        """Note the call, and return its arguments. A checkpoint."""
        self.calls.append(arguments.text)
        await trio.lowlevel.checkpoint()
        return f"echo {arguments.text}"

    def offer(self, *names: str, server: str = "fake", schema: str = SCHEMA, body: ForeignBody | None = None) -> None:
        """Offer tools of these names and no others. Not a checkpoint."""
        self.offers = tuple(
            foreign_tool(
                body or self.echo, server=server, name=name, schema=schema, description=f"Do {name} at {server}."
            )
            for name in names
        )
