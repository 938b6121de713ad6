"""Openai chat."""
