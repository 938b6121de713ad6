import asyncio
import sys

from agents import Agent, Runner, function_tool
from tools import bash_async, read

agent = Agent(name="a", model="m", tools=[function_tool(read), function_tool(bash_async, name_override="bash")])


async def main() -> None:
    result = Runner.run_streamed(agent, sys.argv[1], max_turns=100_000)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="")


asyncio.run(main())
