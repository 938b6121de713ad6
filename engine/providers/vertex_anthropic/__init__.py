"""The Anthropic Messages API on Vertex."""
