"""A part of opencode's HTTP API over the control server, for clients that were made for opencode."""
