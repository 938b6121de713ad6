"""MCP servers: `McpServers` is a source of tools for `engine.options.Ports`; `McpConfig` names the servers."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.config.mcp_config import McpConfig as McpConfig
    from engine.config.mcp_config import McpServer as McpServer
    from engine.config.mcp_config import McpToolLimits as McpToolLimits
    from engine.mcp.mcp_servers import McpServers as McpServers
    from engine.mcp.server_state import ServerState as ServerState
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.config.mcp_config": "McpConfig McpServer McpToolLimits",
            "engine.mcp.mcp_servers": "McpServers",
            "engine.mcp.server_state": "ServerState",
        },
    )
