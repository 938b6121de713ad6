"""Too long a request, in the words of every host that has no code for it (T23).

Each row was said by a host, or by a gateway that repeats one. A row is as narrow as
that allows: what a host says of other limits (of an answer, of tools, of an image, of
tokens per minute) must not match, since whoever believes it is an overflow throws
history away.
"""

from __future__ import annotations

import re
from typing import Literal

_N = r"[\d,._]+"
# Of the one row that names nothing but a limit: what else hosts count.
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
    ("anybody", r"context[ _]length[ _]exceeded"),
    ("anybody", r"request entity too large"),
    ("anybody", r"too many tokens"),
    ("anybody", r"\btoken limit exceeded"),
    # What an SDK in a gateway makes of an answer of Cerebras or Mistral without a body.
    ("Cerebras, Mistral", r"^4(?:00|13)\b[ :]*(?:status code)? ?\(no body\)"),
)
OVERFLOW = tuple((host, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for host, pattern in _ROWS)

_RATE = re.compile(r"^\W*throttling error:|\brate[- ]?limit|too many requests", re.IGNORECASE)
_BUSY = re.compile(r"^\W*service unavailable:", re.IGNORECASE)

# They answer too long a request with a bare status.
_WORDLESS = ("cerebras", "mistral")


def is_overflow(message: str) -> bool:
    """Tell whether *message* says that the request is too long."""
    return other_cause(message) is None and any(pattern.search(message) for _, pattern in OVERFLOW)


def other_cause(message: str) -> Literal["rate", "busy"] | None:
    """Return what *message* is about if it can't be about the request's length, whatever else it says."""
    if _RATE.search(message):
        return "rate"
    return "busy" if _BUSY.search(message) else None


def is_wordless_overflow(host: str, status: int | None, message: str) -> bool:
    """Tell whether an answer without any words means too long a request, at *host*."""
    return not message and status in {400, 413} and host.casefold().startswith(_WORDLESS)
