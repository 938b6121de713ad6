"""A workbench: tools that take their time and write down when they began and ended."""

from __future__ import annotations

import attrs
import trio

import engine
from engine.tools.tool import Tool


@attrs.frozen(kw_only=True)
class Job:
    """Work for some seconds."""

    name: str = ""
    seconds: float = 0.0


@attrs.frozen
class Nothing:
    """Take no arguments."""


@attrs.define(eq=False)
class Bench:
    """Two tools, `read` (safe beside others) and `write` (runs alone), and what they did."""

    began: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    ended: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    log: list[str] = attrs.field(factory=list[str], init=False)
    running: int = attrs.field(default=0, init=False)
    most: int = attrs.field(default=0, init=False)

    @property
    def spans(self) -> dict[str, tuple[float, float]]:
        """When each job began and ended."""
        return {name: (began, self.ended[name]) for name, began in self.began.items() if name in self.ended}

    def tools(self) -> tuple[Tool, ...]:
        """The tools."""

        @engine.tool(read_only=True)
        async def read(args: Job, ctx: engine.ToolContext) -> str:
            return await self.work(args)

        @engine.tool
        async def write(args: Job, ctx: engine.ToolContext) -> str:
            return await self.work(args)

        return read, write

    async def work(self, job: Job) -> str:
        """Do a job."""
        self.began[job.name] = trio.current_time()
        self.log.append(f"+{job.name}")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(job.seconds)
        finally:
            self.running -= 1
            self.ended[job.name] = trio.current_time()
            self.log.append(f"-{job.name}")
        return f"did {job.name}"
