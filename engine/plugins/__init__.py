"""Plugins as data: folders with skills, commands, agents, MCP servers and hooks. No Python of theirs is imported."""
