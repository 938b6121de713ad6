"""The engine as an MCP server, for other agents (`engine mcp serve`)."""
