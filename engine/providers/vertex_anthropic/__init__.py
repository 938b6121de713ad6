"""Anthropic's models at Google Vertex."""
