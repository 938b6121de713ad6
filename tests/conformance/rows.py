"""The row of the table of hosts for a recording, and a model of that row at another address."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from engine.config.host_values import WireName
from engine.core.llm_types import ModelInfo
from engine.providers.auth.auth import NoAuth
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_table import BY_NAME, HOSTS
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_model import HttpModel
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.registry import wire_format

# What our table calls a protocol, its own form first.
WIRES: Mapping[str, tuple[WireName, ...]] = {
    "anthropic-messages": ("anthropic", "vertex_anthropic"),
    "openai-chat": ("openai_chat",),
    "mistral-chat": ("openai_chat",),
    "groq-chat": ("openai_chat",),
    "openai-responses": ("openai_responses",),
    "gemini": ("gemini",),
    "bedrock-converse": ("bedrock",),
    "cohere-v2": ("cohere",),
}
# Where the recordings have another name for a host than we.
_OURS = {
    "gemini": "google",
    "github-copilot": "github",
    "llama-cpp": "llamacpp",
    "lm-studio": "lmstudio",
    "vercel-gateway": "vercel",
}


def row_of(host: str, *wires: WireName) -> Host:
    """Return the row of *host* that speaks one of *wires*.

    A host that has a row, but not for this wire format, is one that a user has added
    with that row's peculiarities; one without a row is added with none.
    """
    name = _OURS.get(host, host)
    for row in rows_of(host):
        if row.wire in wires:
            return row
    if name in BY_NAME:
        return attrs.evolve(BY_NAME[name], wire=wires[0])
    return Host(name=name, title=name, wire=wires[0])


def rows_of(host: str) -> list[Host]:
    """Return all rows of *host*: it may speak several wire formats."""
    name = _OURS.get(host, host)
    return [row for row in HOSTS if row.name in {name, f"{name}-chat"}]


def model_at(url: str, row: Host, model: str) -> HttpModel:
    """Return *model* of *row* as the product makes it, but with its host at *url*."""
    quirks = attrs.evolve(quirks_of(row, model), title=row.title)
    info = ModelInfo(name=f"{row.name}/{model}")
    endpoint = Endpoint(base_url=url, auth=NoAuth(), path=row.path, headers=row.headers)
    return HttpModel(info, wire_format(row, quirks), endpoint)
