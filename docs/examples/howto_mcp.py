"""An MCP server of ten lines, and an engine that calls it."""

import sys

import trio

import engine
from engine.mcp import McpConfig, McpServer, McpServers
from engine.options import PermissionOptions, Ports
from engine.testing import ScriptedProvider, call, done, text

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("demo")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run("stdio")
"""


async def main() -> None:
    server = McpServer(command=(sys.executable, "-c", SERVER), origin="host")
    source = McpServers(McpConfig(servers={"demo": server}, required=("demo",), required_wait=60.0))
    model = ScriptedProvider(
        [[*call("demo_add", {"a": 2, "b": 3}, id="1"), *done("calls")], [*text("It is 5."), *done()]]
    )
    async with engine.open_engine(
        model=model,
        ports=Ports(sources=[source]),
        permissions=PermissionOptions(rules=["allow mcp:demo/* *"]),
    ) as eng:
        session = await eng.create_session()
        print((await session.run("What is 2 + 3?")).text)
        print(source.states["demo"].phase)


if __name__ == "__main__":
    trio.run(main)
