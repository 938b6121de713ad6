"""The HTTP client: sends encoded requests, streams responses to a decoder."""
