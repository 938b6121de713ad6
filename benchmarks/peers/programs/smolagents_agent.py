import os
import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from tools import bash, read

model = OpenAIServerModel("m", api_base=os.environ["OPENAI_BASE_URL"], api_key="none")
agent = ToolCallingAgent(tools=[tool(read), tool(bash)], model=model, stream_outputs=True, max_steps=100_000)
agent.run(sys.argv[1])
