"""Openai responses."""
