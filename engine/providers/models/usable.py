"""Which models of the price table an agent can work with, at a host.

The table lists all that a maker bills, some of it by the beginning of a name: also images, speech and embeddings, models of another maker that its cloud
serves under another address, and models that a host serves in another wire format only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from engine.config.host_values import WireName
from engine.core.lazy import regex
from engine.providers.hosts.host import Host

_BEGIN: Final = r"(?<![a-z0-9])"
_END: Final = r"(?![a-z])"
# Models for something else than a conversation with tools.
_OTHER_WORK: Final = regex(
    rf"{_BEGIN}(?:image|images|imagen|banana|dall-e|sora|veo|lyria|canvas|reel|stable|titan|sonic|audio|realtime|live|tts"
    rf"|speech|voice|whisper|asr|transcri\w*|embed\w*|rerank\w*|moderation|guard|safeguard|ocr|robotics|computer-use"
    rf"|search|deep-research|omni|babbage|davinci|curie|instruct-beta|aqa){_END}"
    r"|gpt-3|^text-|^ft:|[.:]ft[-:]|-$|^ada$|^claude-(?:v?1|2|instant)(?!\d)"
)
# Models that OpenAI serves at Responses only.
_RESPONSES_ONLY: Final = regex(rf"{_BEGIN}(?:o\d|gpt-[\d.]+)-pro{_END}|codex|deep-research|computer-use")
_OPENAI_CHAT_HOSTS: Final = frozenset({"openai-chat", "azure-chat"})
# Formats that only one maker's models use, regardless of what else its cloud bills.
_OF_WIRE: Final[Mapping[WireName, re.Pattern[str]]] = {
    "gemini": re.compile(rf"{_BEGIN}(?:gemini|gemma|learnlm)"),
    "vertex_anthropic": re.compile(rf"{_BEGIN}claude"),
}


def can_work(host: Host, model: str) -> bool:
    """Return whether *model*, by its name at *host*, can be talked to there and may call tools."""
    name = model.lower()
    of_wire = _OF_WIRE.get(host.wire)
    if of_wire is not None and of_wire.search(name) is None:
        return False
    if host.kind in _OPENAI_CHAT_HOSTS and _RESPONSES_ONLY.search(name):
        return False
    return _OTHER_WORK.search(name) is None
