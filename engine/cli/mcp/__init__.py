"""`engine mcp`."""
