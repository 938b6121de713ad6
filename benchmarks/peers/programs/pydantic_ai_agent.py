import asyncio
import sys

from pydantic_ai import Agent, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.usage import UsageLimits
from tools import bash_async, read

agent = Agent(OpenAIChatModel("m"), tools=[Tool(read, takes_ctx=False), Tool(bash_async, takes_ctx=False, name="bash")])


async def main() -> None:
    limits = UsageLimits(request_limit=None)
    async with agent.iter(sys.argv[1], usage_limits=limits) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    async for event in stream:
                        print(getattr(getattr(event, "delta", None), "content_delta", ""), end="")


asyncio.run(main())
