"""A source of tools: they come and go while the engine runs, and the model searches for them."""

import json
from collections.abc import Sequence

import attrs
import trio

import engine
from engine.options import PermissionOptions, Ports
from engine.testing import ScriptedProvider
from engine.testing.script import call, done, text
from engine.tools import JsonArguments, SourceScope, Tool, ToolContext, foreign_tool

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


@attrs.define(eq=False)
class Weather:
    """A service that is asked every minute which tools it has."""

    name: str = "weather"
    offers: tuple[Tool, ...] = ()
    has_answered: trio.Event = attrs.field(factory=trio.Event)

    async def run(self) -> None:
        """Ask the service which tools it has, again and again."""
        while True:
            self.offers = (self.make("forecast"), self.make("history"))
            self.has_answered.set()
            await trio.sleep(60)

    def tools(self, scope: SourceScope) -> Sequence[Tool]:
        """Return the tools that it has now."""
        return self.offers

    async def ready(self, scope: SourceScope) -> None:
        """Wait for its first answer."""
        await self.has_answered.wait()

    def notices(self, scope: SourceScope) -> Sequence[str]:
        """Return what the user should know: nothing."""
        return ()

    def make(self, own_name: str) -> Tool:
        """Return one of the service's tools."""

        async def body(arguments: JsonArguments, ctx: ToolContext) -> str:
            return f"{own_name} of {arguments.value['city']}: rain"

        return foreign_tool(
            body,
            server="weather",
            name=own_name,
            schema=json.dumps(SCHEMA),
            description=f"The {own_name} of the weather in a city.",
        )


SCRIPT = [
    [*call("tool_search", {"query": "forecast"}, id="1"), *done("calls")],
    [
        *call("tool_use", {"name": "weather_forecast", "arguments": {"city": "Oslo", "days": "2"}}, id="2"),
        *done("calls"),
    ],
    [*text("It will rain."), *done()],
]


async def main() -> None:
    model = ScriptedProvider(SCRIPT)
    permissions = PermissionOptions(rules=["allow mcp:weather/forecast *"])
    async with engine.open_engine(
        model=model,
        permissions=permissions,
        settings=engine.Settings(eager_tokens=0),
        ports=Ports(sources=[Weather()]),
    ) as eng:
        session = await eng.create_session()
        async with session.prompt("Will it rain?") as turn:
            async for event in turn:
                if isinstance(event, engine.CallSettled):
                    print(f"{event.settlement.status}: {event.settlement.text}\n")
    print("in each request:", [tool.name for tool in model.requests[-1].tools])


if __name__ == "__main__":
    trio.run(main)
