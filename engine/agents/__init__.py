"""Agents: what one is, those that are built in, those in files, and sub-agents at work."""
