"""What models read of each built-in tool: one text file a tool."""
