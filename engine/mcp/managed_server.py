"""`ManagedServer`: a server with what the user has approved of it, and the tools that follow from both."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from engine.core.errors import ConfigError, StoreError
from engine.core.exception_groups import ErrorBoundary
from engine.core.threads import to_thread
from engine.json_schema.foreign_schema import ForeignSchema, parse_foreign_schema
from engine.mcp.approvals import Approvals, Approved, Withheld, review, withheld_tools
from engine.mcp.elicitation import ask_user
from engine.mcp.server_skills import skill_description
from engine.mcp.server_task import ServerTask, imported
from engine.mcp.server_text import bounded, framed_description, one_line
from engine.mcp.tool_definition import ToolDefinition, ToolList
from engine.tools.call_values import ToolOutput
from engine.tools.foreign import JsonArguments, foreign_tool
from engine.tools.tool import Tool
from engine.tools.tool_source import SourceQuestion

if TYPE_CHECKING:
    from engine.tools.tool_context import ToolContext

# Of a question: no one reads more than that at a prompt.
_MOST_REVIEW_LINES: Final = 120
_MOST_DETAIL_CHARS: Final = 2_000
# What a turn waits for a server that the user has just let start: its tools are the next question.
_START_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CheckedTools:
    """What a server offers at the moment.

    Attributes:
        listed: the list it was made from.
        approved: what was approved then.
        tools: the tools that may be called.
        withheld: those that wait for approval.
        refused: those that can't be used, with reasons.
    """

    listed: ToolList
    approved: Approved = Approved()
    tools: tuple[Tool, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@attrs.define(eq=False)
class ManagedServer:
    """A server with what the user has approved of it.

    Attributes:
        task: the server.
        approved: what is approved.
        offer: the tools that follow.
        problem: what is wrong with the approvals; empty: nothing.
        changed: set when the list, or what is approved, has changed.
        checked: set when the tools of a new list were checked.
        is_running: whether it is at work.
        scope: ends it.
    """

    task: ServerTask
    approved: Approved = attrs.field(default=Approved(), init=False)
    offer: CheckedTools = attrs.field(default=CheckedTools(listed=ToolList()), init=False)
    problem: str = attrs.field(default="", init=False)
    changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    checked: trio.Event = attrs.field(factory=trio.Event, init=False)
    is_running: bool = attrs.field(default=False, init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    # The lists whose tools the user did not want to approve.
    declined: set[str] = attrs.field(factory=set[str], init=False)

    @property
    def is_new_of_host(self) -> bool:
        """Whether the host has named it, it is ready, and nothing of it was approved yet."""
        is_new = self.task.server.origin == "host" and not self.approved.fingerprint
        return is_new and self.task.state.phase == "ready"

    async def wait_checked(self) -> None:
        """Wait until its newest list is checked against what is approved. A checkpoint if that is not done."""
        while self.is_running and (
            self.offer.listed is not self.task.state.listed
            or self.offer.approved is not self.approved
            or self.is_new_of_host
        ):
            await self.checked.wait()

    async def run(self, approvals: Approvals) -> None:
        """Run a server until cancelled. Always a checkpoint. Raises nothing ordinary."""
        try:
            self.approved = await to_thread(approvals.load, self.task.name, self.task.server)
        except (ConfigError, StoreError) as error:
            self.problem = str(error)
        self.is_running = True
        try:
            with self.scope:
                await self._run(approvals)
        finally:
            self.is_running = False
            self.checked.set()

    async def _run(self, approvals: Approvals) -> None:
        """Run it and check its lists, until it ends or is cancelled. Always a checkpoint. Raises nothing ordinary."""
        is_new = self.task.server.is_foreign and not self.approved.fingerprint
        # Nothing that a project or a plugin names is started before the user has seen it.
        held = f"it was not approved yet, or has changed: engine mcp approve {self.task.name}" if is_new else ""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_offer, approvals)
            with ErrorBoundary() as boundary:
                await self.task.run(held)
            if boundary.error is not None:
                self.problem = one_line(str(boundary.error))
            nursery.cancel_scope.cancel(reason="the server's task is over")

    async def _keep_offer(self, approvals: Approvals) -> None:
        """Check the tools of each new list. A checkpoint; until cancelled."""
        while True:
            if self.is_new_of_host:
                await self._approve_first(approvals)
            listed, approved = self.task.state.listed, self.approved
            self.offer = await to_thread(_checked, self.task, listed, approved)
            done, self.checked = self.checked, trio.Event()
            done.set()
            while self.task.state.listed is listed and self.approved is approved and not self.is_new_of_host:
                await self.changed.wait()
                self.changed = trio.Event()

    def note_change(self) -> None:
        """Check again, since the server's list or the approvals have changed. Not a checkpoint."""
        self.changed.set()

    async def reload(self, approvals: Approvals) -> None:
        """Read again what is approved, and check the tools. Always a checkpoint. Raises `ConfigError`, `StoreError`."""
        self.approved = await to_thread(approvals.load, self.task.name, self.task.server)
        if self.approved.fingerprint and self.task.state.phase == "needs_approval":
            self.task.start_again()
        self.note_change()
        await self.wait_checked()

    async def _approve_first(self, approvals: Approvals) -> None:
        """Approve what a server of the host's offers when it is first seen: the program has chosen it. A checkpoint."""
        name, server, listed = self.task.name, self.task.server, self.task.state.listed
        self.approved = Approved(
            fingerprint=server.fingerprint,
            tools={tool.name: tool for tool in listed.tools},
            instructions=listed.instructions,
        )
        try:
            await to_thread(approvals.approve, name, server, listed)
        except (ConfigError, StoreError) as error:
            self.problem = str(error)

    def question(self, approve: Callable[[str, ToolList], Awaitable[None]]) -> SourceQuestion | None:
        """Return the question whether the tools that are withheld may be used; None: there are none, or it was answered."""
        if self.task.state.phase == "needs_approval":
            return self._question_of_start(approve)
        name, offer = self.task.name, self.offer
        key = " ".join(sorted(one.tool.digest for one in offer.withheld))
        if not key or key in self.declined or offer.listed is not self.task.state.listed:
            return None
        lines = review(offer.withheld, offer.listed)
        rest = len(lines) - _MOST_REVIEW_LINES
        shown = lines[:_MOST_REVIEW_LINES]
        if rest > 0:
            shown.append(f"… and {rest} more lines. See all of them with: engine mcp approve {name}")
        count = "A tool" if len(offer.withheld) == 1 else f"{len(offer.withheld)} tools"
        text = "\n".join(
            [f"{count} of the MCP server {name} may not be used before you have approved what follows.", *shown]
        )

        async def answer(agrees: bool) -> None:  # noqa: FBT001  # as `SourceQuestion` has it
            if not agrees:
                self.declined.add(key)
                return
            try:
                # If cancelled here, the next turn asks again.
                await approve(name, offer.listed)
            except (ConfigError, StoreError):
                self.declined.add(key)
                raise

        return SourceQuestion(text=text, yes="Approve", answer=answer)

    def _question_of_start(self, approve: Callable[[str, ToolList], Awaitable[None]]) -> SourceQuestion | None:
        """Return the question whether a server that another person's file names may start; None: it was answered."""
        name, server = self.task.name, self.task.server
        lines = server.details()
        # What can't be shown whole and as it is can't be agreed to: `engine mcp approve` escapes it.
        is_shown = all(one_line(line, _MOST_DETAIL_CHARS) == line for line in lines)
        if server.fingerprint in self.declined or not is_shown:
            return None
        heading = f"The MCP server {name} is named by the {server.origin}, and was not approved yet or has changed:"

        async def answer(agrees: bool) -> None:  # noqa: FBT001  # as `SourceQuestion` has it
            if not agrees:
                self.declined.add(server.fingerprint)
                return
            # None of its tools: they are asked about once they are known. If cancelled here, the next turn asks again.
            await approve(name, ToolList())
            with trio.move_on_after(_START_SECONDS):
                await self.task.wait_settled()
                await self.wait_checked()

        return SourceQuestion(text="\n".join([heading, *lines]), yes="Start it", answer=answer)

    def notices(self) -> list[str]:
        """Return what the user should know of it. Not a checkpoint."""
        name, state = self.task.name, self.task.state
        texts = [f"MCP server {name}: {self.problem}"] if self.problem else []
        if state.phase in {"failed", "needs_auth", "needs_approval"}:
            texts.append(f"MCP server {name} is not available ({state.phase}): {bounded(state.reason)}")
        if self.offer.withheld:
            names = ", ".join(f"{one_line(one.tool.name, 80)} ({one.what})" for one in self.offer.withheld[:10])
            more = len(self.offer.withheld) - 10
            rest = f" and {more} more" if more > 0 else ""
            texts.append(
                f"Tools of the MCP server {name} wait for your approval: {names}{rest}. See them with: engine mcp approve {name}"
            )
        return texts


async def _call(task: ServerTask, definition: ToolDefinition, arguments: JsonArguments, ctx: ToolContext) -> ToolOutput:
    # It brings the SDK, which a server that still starts may not have loaded yet.
    calls = await imported("engine.mcp.server_calls")
    caller = calls.ServerCaller(task=task, ctx=ctx, elicit=partial(ask_user, task.name, ctx))
    if definition.skill:
        return cast("ToolOutput", await caller.read_skill(definition, str(arguments.value.get("file") or "")))
    return cast("ToolOutput", await caller.call(definition, arguments.value))


def _checked(task: ServerTask, listed: ToolList, approved: Approved) -> CheckedTools:
    """Return what a server offers by its newest list. It blocks, for up to seconds if there are thousands of tools."""
    usable: list[tuple[ToolDefinition, ForeignSchema]] = []
    refused = list(listed.refused)
    for definition in listed.tools:
        try:
            _let_others_run()
            usable.append((definition, parse_foreign_schema(definition.input_schema)))
        except ConfigError as error:
            refused.append((definition.name, str(error)))
    withheld = withheld_tools(approved, [definition for definition, _ in usable])
    held = {one.tool.name for one in withheld}
    tools: list[Tool] = []
    for definition, schema in usable:
        if definition.name not in held:
            try:
                _let_others_run()
                tools.append(_tool(task, definition, schema))
            except ConfigError as error:
                refused.append((definition.name, str(error)))
    return CheckedTools(listed=listed, approved=approved, tools=tuple(tools), withheld=withheld, refused=tuple(refused))


def _let_others_run() -> None:
    # A thread that computes gives the interpreter lock away only every 5 ms, which a request in the event loop would wait
    # for again and again.
    time.sleep(0)


def _tool(task: ServerTask, definition: ToolDefinition, schema: ForeignSchema) -> Tool:
    """Return a tool for models. Raises `ConfigError`."""
    claims = cast("dict[str, object]", json.loads(definition.annotations or "{}"))
    describe = skill_description if definition.skill else partial(framed_description, title=definition.title)
    tool = foreign_tool(
        partial(_call, task, definition),
        server=task.name,
        name=definition.name,
        schema=schema,
        description=describe(task.name, description=definition.description),
        claims_read_only=claims.get("readOnlyHint") is True,
        version=definition.digest,
    )
    # The text of a skill is meant for all that follows, like that of the user's own.
    return attrs.evolve(tool, protected=True) if definition.skill else tool
