import asyncio
import sys

from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from tools import bash_async, read

tools = [StructuredTool.from_function(read), StructuredTool.from_function(coroutine=bash_async, name="bash")]
agent = create_react_agent(ChatOpenAI(model="m", streaming=True, stream_usage=True), tools)


async def main() -> None:
    messages = {"messages": [("user", sys.argv[1])]}
    async for chunk, _ in agent.astream(messages, {"recursion_limit": 1_000_000}, stream_mode="messages"):
        print(chunk.content, end="")


asyncio.run(main())
