"""Recognises by its message an error that the request exceeds the context window, for hosts without an error code.

Each pattern is from a host, or from a gateway that repeats one, and is as narrow as possible. Messages about other
limits (of output, tools, images, tokens per minute) must not match: the engine drops history for an overflow.
"""

# ruff: noqa: RUF001 -- hosts write in many alphabets

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
    ("vLLM", rf"decoder prompt \(length {_N}\) is longer than the maximum model length"),
    ("vLLM, SGLang", rf"token count exceeds (?:the )?model'?s maximum context length of {_N}"),
    ("SGLang", rf"input length \({_N} tokens\) exceeds the maximum allowed length"),
    ("llama.cpp", r"exceeds the available context size"),
    ("llama.cpp", r"\bcontext shift is disabled\b"),
    (
        "gateways",
        r"(?<!tokens )exceeds (?:the )?(?:model'?s? |configured |maximum |max )?context (?:window|size|length)\b(?! of the output)",
    ),
    ("llama.cpp, LM Studio", r"context (?:size|length|window) (?:has been|was|is) exceeded"),
    ("llama-cpp-python", rf"requested tokens \({_N}\) exceed context window of {_N}"),
    ("LM Studio", r"(?:greater|larger) than the context length"),
    ("LM Studio", rf"trying to keep the first {_N} tokens when context the overflows"),
    ("LM Studio", rf"reached context length of {_N} tokens"),
    ("LM Studio", r"\bn_keep\b.{0,24}>= ?n_ctx"),
    (
        "TensorRT-LLM, SiliconFlow",
        r"prompt.{0,120}(?:should not exceed|must be less than|exceeds) `?max_(?:seq|input)_len",
    ),
    ("TabbyAPI", r"prompt length \S+ is greater than max_seq_len"),
    ("LMDeploy", r"exceeds? (?:the )?session_len"),
    ("Cloudflare", rf"exceeded this model context window limit \({_N} tokens\)"),
    (
        "DeepInfra, Databricks, TensorRT-LLM",
        rf"(?:input|prompt) length \(?{_N}\)? exceeds (?:the )?maximum (?:input|allowed|sequence|prompt)? ?length",
    ),
    ("Bedrock Nova", r"input tokens exceeded"),
    ("Bedrock Nova", r"number of input tokens exceeds maximum length"),
    ("Perplexity", rf"input tokens exceeds? {_N} tokens"),
    ("Perplexity", r"total length of all messages is too long"),
    ("Perplexity", r"following a prompt of length \S+, which exceeds the max limit"),
    ("OpenAI", r"input tokens exceed the configured limit"),
    ("Volcano Ark", r"exceed max (?:message|messages|input) tokens?\b"),
    ("watsonx", rf"number of input tokens {_N} cannot exceed the total tokens limit"),
    ("MiniMax", r"context window exceeds limit"),
    ("MiniMax", r"^token limit reached\b"),
    ("Moonshot", r"exceeded model token limit"),
    ("Moonshot", r"input token length too long"),
    ("Ollama", r"prompt too long; exceeded (?:max )?context length"),
    ("Ollama", r"input length exceeds (?:the |maximum )?context length"),
    ("Mistral", r"too large for model with \S+ maximum context length"),
    ("local servers", rf"prompt has {_N} tokens?, but the configured context size is {_N} tokens"),
    ("Z.ai", r"model_context_window_exceeded"),
    ("Z.ai", r"prompt exceeds max length"),
    ("Alibaba", r"range of input length should be"),
    ("Hugging Face", r"`?inputs`? (?:tokens \+ `?max_new_tokens`? must be <=|must have less than)"),
    ("Hugging Face", rf"`?inputs`? (?:tokens )?must have (?:at most|no more than|less than) {_N} tokens"),
    (
        "Chinese hosts",
        r"(?:上下文|输入|提示词?|prompt|tokens?)[^，。]{0,16}(?:超过|超出|超长|过长)[^，。]{0,16}(?:上下文|长度|限制|上限|$)",
    ),
    ("Chinese hosts", r"(?:上下文|输入|提示词?)[^，。]{0,8}(?:超限|超长|过长|太长)"),
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


# A fallback for hosts without a row: the message has a word for what is too long near a word for being too long, and
# the request is large.
_LENGTH = r"(?:tokens?|context|prompt|input|messages|conversation|history|sequence|request)\b"
_EXCESS = (
    r"\b(?:exceed\w*|limit\w*|length|window|max(?:imum)?|too (?:long|large|many|big)|(?:long|larg|great|bigg)er|over"
    r"|at most|more than|less than|fewer|smaller|shorten|truncat\w+|reduce|overflow\w*)\b"
)
_NEAR = re.compile(rf"{_LENGTH}.{{0,48}}{_EXCESS}|{_EXCESS}.{{0,48}}{_LENGTH}", re.IGNORECASE | re.DOTALL)
# It must be about the model's tokens or context, not about another member of the request.
_TOKENS = re.compile(r"token|context|prompt.{0,24}(?:long|large|length|size)|too_?long", re.IGNORECASE)
_ANOTHER_MEMBER = re.compile(
    rf"\b(?:{_OTHER_THINGS})\b|max_(?:completion_|output_|new_)?tokens|maxoutputtokens|\b(?:output|completion|generated|thinking"
    r"|budget|reasoning|access|auth\w*|api|bearer|id|session|csrf|invalid|special|eos|bos|stop|logit|cached?) tokens?\b|budget_tokens"
    r"|thinking|temperature|top_[pk]|top_logprobs|penalty|logprobs|logit_bias|cache_control|messages\[|messages\.\d|\btools?\["
    r"|tool_(?:use|call|choice|result)|json|base64|parameter|argument|field|property|propert|must be (?:a|an|one of|of type)\b"
    r"|per (?:minute|hour|day)|\b(?:tpm|rpm)\b|quota|unsupported|not supported|does not support|encoder",
    re.IGNORECASE,
)
_NET_STATUSES = frozenset({400, 413, 422})


def is_probable_overflow(status: int | None, message: str) -> bool:
    """Return whether an unrecognised rejection of a *large* request is probably about its length.

    An empty message is: a host that rejects a member of the request names it. False alarms are counted by
    tests/providers/failures/test_overflow.py; each costs an unneeded summary, after which the error shows up again.
    """
    if status not in _NET_STATUSES:
        return False
    if not message.strip():
        return True
    if other_cause(message) is not None or _ANOTHER_MEMBER.search(message):
        return False
    return bool(_TOKENS.search(message) and _NEAR.search(message))


def is_overflow(message: str) -> bool:
    """Return whether *message* means that the request exceeds the context window."""
    return other_cause(message) is None and any(pattern.search(message) for _, pattern in OVERFLOW)


def other_cause(message: str) -> Literal["rate", "busy"] | None:
    """Return the other cause that *message* names; None if it may be about the request's length."""
    if _RATE.search(message):
        return "rate"
    return "busy" if _BUSY.search(message) else None


def is_wordless_overflow(host: str, status: int | None, message: str) -> bool:
    """Return whether an empty error from *host* means that the request is too long."""
    return not message and status in {400, 413} and host.casefold().startswith(_WORDLESS)


# How errors state the window, the most reliable wording first.
_WINDOW = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"context (?:length|size|window)[^\d]{{0,24}}({_N})",
        rf"({_N}) (?:tokens )?maximum context length",
        rf"max_model_len[^\d]{{0,8}}({_N})",
        rf"(?:maximum|at most|limit|max)\b[^\d]{{0,40}}({_N}) tokens",
    )
)
# No model has a smaller window; a smaller number means something else.
_SMALLEST_WINDOW = 256


def refused_size(message: str, window: int | None) -> int | None:
    """Return how many tokens *message* says that the request has, if that is more than *window*."""
    numbers = [int(digits) for found in re.findall(_N, message) if (digits := re.sub(r"\D", "", found))]
    largest = max(numbers, default=0)
    return largest if window is not None and largest > window else None


def refused_window(message: str) -> int | None:
    """Return the context window stated in *message*, an error about a request that is too long."""
    # Not the status and the code, which stand behind the host's own words; MiniMax has one among them.
    message = message.partition(" (HTTP ")[0].removesuffix("(2013)")
    for pattern in _WINDOW:
        if match := pattern.search(message):
            digits = re.sub(r"\D", "", match[1])
            if digits and int(digits) >= _SMALLEST_WINDOW:
                return int(digits)
    return None
