"""Recognises requests that exceed the context window by their message, for hosts without an error code.

Each pattern is from a host, or from a gateway that repeats one, and is as narrow as possible. Messages about other
limits (of output, tools, images, tokens per minute) must not match: the engine drops history for an overflow.
"""

from __future__ import annotations

import re
from typing import Literal

_N = r"[\d,._]+"
# Other things that hosts limit, excluded in the one pattern that names only a limit.
_OTHER_THINGS = r"tools?|functions?|images?|files?|pdfs?|documents?|videos?|audio|pages?|stop|schemas?|characters|bytes"

_ROWS: tuple[tuple[str, str], ...] = (
    ("Anthropic", r"prompt is too long"),
    ("Anthropic", r"request_too_large"),
    ("Anthropic", r"input length and `?max_tokens`? exceed context limit"),
    ("Bedrock", r"input is too long for requested model"),
    ("Bedrock", r"too many input tokens"),
    ("OpenAI", r"exceeds the context window"),
    ("like OpenAI, LiteLLM", rf"exceeds (?:the )?(?:model'?s )?maximum context length (?:of {_N} tokens|\({_N}\))"),
    ("Gemini", r"input token count.{0,80}exceeds the maximum"),
    ("gateways", r"tokens in request more than max tokens allowed"),
    ("gateways", rf"exceeds (?:the )?maximum allowed input length of {_N} tokens"),
    ("gateways", rf"input \({_N} tokens\) is longer than the model(?:'?s)? context length \({_N} tokens\)"),
    ("xAI", rf"maximum prompt length is {_N}"),
    ("Groq", r"reduce the length of the messages"),
    ("OpenRouter, DeepSeek, vLLM", rf"maximum context length is {_N} tokens"),
    ("vLLM", rf"context length is only {_N} tokens"),
    ("vLLM", r"input length.{0,80}exceeds.{0,80}context length"),
    ("GitHub Copilot", r"token count of \S+ exceeds the limit of"),
    ("GitHub Copilot", rf"^(?!.*\b(?:{_OTHER_THINGS})\b).*exceeds the limit of {_N}(?![\d,._]| ?[kmg]i?b\b)"),
    ("llama.cpp", r"exceeds the available context size"),
    ("LM Studio", r"greater than the context length"),
    ("MiniMax", r"context window exceeds limit"),
    ("MiniMax", r"^token limit reached\b"),
    ("Moonshot", r"exceeded model token limit"),
    ("Moonshot", r"input token length too long"),
    ("Ollama", r"prompt too long; exceeded (?:max )?context length"),
    ("Mistral", r"too large for model with \S+ maximum context length"),
    ("local servers", rf"prompt has {_N} tokens?, but the configured context size is {_N} tokens"),
    ("Z.ai", r"model_context_window_exceeded"),
    ("Z.ai", r"prompt exceeds max length"),
    ("Alibaba", r"range of input length should be"),
    ("Hugging Face", r"`?inputs`? (?:tokens \+ `?max_new_tokens`? must be <=|must have less than)"),
    ("any host", r"context[ _]length[ _]exceeded"),
    ("any host", r"request entity too large"),
    ("any host", r"too many tokens"),
    ("any host", r"\btoken limit exceeded"),
    # How an SDK in a gateway renders the empty errors of Cerebras and Mistral.
    ("Cerebras, Mistral", r"^4(?:00|13)\b[ :]*(?:status code)? ?\(no body\)"),
)
OVERFLOW = tuple((host, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for host, pattern in _ROWS)

_RATE = re.compile(r"^\W*throttling error:|\brate[- ]?limit|too many requests", re.IGNORECASE)
_BUSY = re.compile(r"^\W*service unavailable:", re.IGNORECASE)

# Hosts that reject an overlong request with an empty body.
_WORDLESS = ("cerebras", "mistral")


def is_overflow(message: str) -> bool:
    """Return whether *message* means that the request exceeds the context window."""
    return other_cause(message) is None and any(pattern.search(message) for _, pattern in OVERFLOW)


def other_cause(message: str) -> Literal["rate", "busy"] | None:
    """Return what *message* is about if it cannot be about the request's length; None otherwise."""
    if _RATE.search(message):
        return "rate"
    return "busy" if _BUSY.search(message) else None


def is_wordless_overflow(host: str, status: int | None, message: str) -> bool:
    """Return whether an empty error from *host* means that the request is too long."""
    return not message and status in {400, 413} and host.casefold().startswith(_WORDLESS)
