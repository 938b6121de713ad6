"""The control server."""
