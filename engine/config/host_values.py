"""The wire formats and authentication schemes that a host can have.

`engine.providers` implements them. They are listed here because configuration is checked against them, and configuration
lies below providers.
"""

from __future__ import annotations

from typing import Literal

WireName = Literal["anthropic", "openai_chat", "openai_responses", "gemini", "vertex_anthropic", "bedrock", "cohere"]
AuthKind = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "aws", "google", "none"]
