"""Classifies a host's error: by code and status first, by its wording last.

Wording counts only where a host uses one status, or one code, for several errors: an invalid request, one that is too
large, a forbidden one, or one over some limit. Numbers in a text are never read as a status.
"""

from __future__ import annotations

import re

import attrs

from engine.core.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    ErrorInfo,
    InvalidRequest,
    MediaTooLarge,
    ModelNotFound,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    SignatureRejected,
)
from engine.providers.failures.error_codes import (
    ErrorKind,
    generic_kind_of,
    is_lasting,
    is_model_error,
    is_too_large,
    kind_of,
    most_specific,
)
from engine.providers.failures.overflow import (
    is_overflow,
    is_probable_overflow,
    is_wordless_overflow,
    other_cause,
    refused_size,
    refused_window,
)

# A proxy's error may be a whole web page.
_LONGEST_TEXT = 600

_FLAGS = re.IGNORECASE | re.DOTALL
_MEDIA = re.compile(
    r"\b(image|pdf|document|file)s?\b.{0,80}\b(exceeds?|too (large|many)|maximum|at most)\b|too many (images|documents)"
    r"|maximum .{0,20}pages|payload size exceeds",
    _FLAGS,
)
# A limit in bytes is about media: text that fills the window is far smaller.
_BYTES = re.compile(r"\b(bytes|[kmg]i?b)\b", re.IGNORECASE)
_SIGNATURE = re.compile(
    r"invalid `?signature`?|(invalid|corrupted) thought[ _]signature|thought signature is not valid"
    r"|thinking`? blocks?.{0,80}cannot be modified|encrypted content.{0,200}could not be (verified|decrypted)"
    r"|reasoning'? was provided without its required",
    _FLAGS,
)
_FILTER = re.compile(
    r"content[ _](filter|management|policy|moderation|usage policies)|usage (policy|guidelines)|safety (check|system|polic)"
    r"|data[ _]inspection|prohibited content|considered high risk|requires moderation"
    r"|(input|prompt|content|request|message) (was|has been|is) flagged|violat\w+.{0,40}(policy|policies|guidelines)",
    _FLAGS,
)
_QUOTA = re.compile(
    r"credit balance is too low|insufficient (balance|credit|funds)|(used|spent|exhausted) all (of )?(your )?(available )?"
    r"credits|out of credits|(more|any) credits|credits are depleted|spending (limit|cap)|monthly limit"
    r"|payment (is )?required|enable billing|billing (is )?(not |hard |disabled)|overdue|in arrears|recharge",
    _FLAGS,
)
_KEY = re.compile(
    r"(incorrect|invalid|missing|no|expired) (x-)?api[ -_]?key|api[ -_]?key.{0,40}(not valid|invalid|not found|expired"
    r"|missing|required)|^\W*unauthori[sz]ed|authentication (failed|fails|error)|invalid (access |authentication )?token\b",
    _FLAGS,
)
_NO_MODEL = re.compile(
    r"\bmodels?\b.{0,80}(does ?n[o']t exist|does not exist|not found|not exist\b)|model identifier is invalid"
    r"|could not resolve the foundation model"
    r"|(unknown|no such) model|not a valid model|invalid model\b",
    _FLAGS,
)
# A limit per day or longer is not lifted while a turn waits.
_LASTING = re.compile(r"\bper[ -]?(day|week|month)|\b(daily|weekly|monthly)\b|usage limit", re.IGNORECASE)
# For a request that exceeds the limit per minute on its own.
_OVER_LIMIT = re.compile(r"request too large", re.IGNORECASE)

# Errors that share a status, by wording; the first match counts.
_REFUSALS: tuple[tuple[re.Pattern[str], ErrorKind], ...] = (
    (_SIGNATURE, SignatureRejected),
    (_FILTER, ContentFiltered),
    (_KEY, AuthFailed),
    (_NO_MODEL, ModelNotFound),
    (_MEDIA, MediaTooLarge),
)
# Codes of a valid key that may not do this: they have the class of a wrong key.
_FORBIDDEN = re.compile(
    r"permission|unsupported_country|access_?denied|forbidden|not_authorized|OptInRequired|SERVICE_(?:BLOCKED|DISABLED)",
    re.IGNORECASE,
)
_REQUEST_STATUSES = frozenset({400, 405, 406, 411, 415, 417, 422})
_TRANSIENT_STATUSES = frozenset({408, 409, 424, 425, 499})
_BY_STATUS: dict[int, ErrorKind] = {401: AuthFailed, 404: ModelNotFound, 410: ModelNotFound}


@attrs.frozen(kw_only=True)
class ErrorReport:
    """An error as a host reports it.

    Attributes:
        host: the host.
        status: the HTTP status, or one in the body; None: none.
        words: the host's own error codes, the most specific one first.
        message: the message.
        is_lasting: whether it is a limit that a short wait does not lift.
        should_retry: whether the host itself advises a retry.
        retry_after: seconds to wait before a retry.
        reset_at: when the limit is lifted, in seconds since the epoch.
        is_large: whether the request takes most of the model's window, as far as known.
        option: the member of the request that the error is about, if it names one.
        request_id: the host's id of the request.
    """

    host: str
    status: int | None = None
    codes: tuple[str, ...] = ()
    message: str = ""
    is_lasting: bool = False
    should_retry: bool | None = None
    retry_after: float | None = None
    reset_at: float | None = None
    is_large: bool = False
    option: str = ""
    request_id: str = ""

    @property
    def text(self) -> str:
        """The error in one line."""
        status = "" if self.status is None else f"HTTP {self.status}"
        facts = ", ".join(filter(None, [status, most_specific(self.codes)])) or "during the response"
        return f"{self.host}: {one_line(self.message) or 'no reason given'} ({facts})"


def one_line(message: str) -> str:
    """Return *message* in one line, truncated."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_TEXT else f"{truncate_words(line, _LONGEST_TEXT)} …".lstrip()


def truncate_words(text: str, most: int) -> str:
    """Truncate *text* to whole words within *most* characters.

    Half a key would escape redaction, and be shown.
    """
    if len(text) <= most:
        return text
    head = text[: most + 1]
    if head[-1].isspace():
        return head[:-1]
    words = head.rsplit(maxsplit=1)
    return words[0] if len(words) > 1 else ""


def classify(report: ErrorReport) -> ProviderError:
    """Return the error to raise."""
    kind = _error_kind(report)
    error = kind(
        report.text,
        retryable=_is_retryable(kind, report),
        status=report.status,
        retry_after=report.retry_after,
        reset_at=report.reset_at,
    )
    error.info = _facts(error, report)
    return error


# What a request consists of anyway: an error about one of these is not about an option that a user may leave out.
_NO_OPTIONS = frozenset(
    {"messages", "input", "contents", "content", "tools", "model", "prompt", "system", "instructions"}
)
_OPTION = re.compile(r"^\W*([a-z][a-z_]*(?:\.[a-z_]+)*)\W?: ")


def _facts(error: ProviderError, report: ErrorReport) -> ErrorInfo:
    """Return the facts of *error*: its code, the option that was rejected, and how large the request was."""
    info = attrs.evolve(error.info, request_id=report.request_id)
    if isinstance(error, AuthFailed) and (report.status == 403 or _FORBIDDEN.search(" ".join(report.codes))):
        return attrs.evolve(info, code="not_allowed")
    if isinstance(error, ContextOverflow):
        window = refused_window(report.text)
        return attrs.evolve(info, amount=refused_size(report.message, window), limit=window)
    if type(error) is InvalidRequest and (option := _rejected_option(report)):
        return attrs.evolve(info, code="option_rejected", subject=option)
    return info


def _rejected_option(report: ErrorReport) -> str:
    """Return the option that the host rejected; empty: it names none, or a necessary part of the request."""
    match = _OPTION.match(report.message)
    option = report.option or (match[1] if match else "")
    root = option.removeprefix("body.").partition(".")[0].partition("[")[0]
    return "" if root in _NO_OPTIONS else option.removeprefix("body.")


def _is_retryable(kind: ErrorKind, report: ErrorReport) -> bool:
    if kind is InvalidRequest and is_model_error(report.codes):
        return report.should_retry is not False
    if kind not in {Overloaded, RateLimited, ProviderError}:
        return False  # even if the host advises a retry: the same request would fail again
    if report.should_retry is not None:
        return report.should_retry
    if kind is RateLimited:
        return not _is_lasting(report)
    # An error during the response that is not the request's fault is the host's fault.
    return kind is Overloaded or report.status is None


def _is_lasting(report: ErrorReport) -> bool:
    if report.is_lasting or is_lasting(report.codes) or _OVER_LIMIT.search(report.message):
        return True
    # If the host names a delay, that decides.
    return report.retry_after is None and bool(_LASTING.search(report.message))


def _error_kind(report: ErrorReport) -> ErrorKind:
    message = report.message
    if is_too_large(report.codes):
        return _kind_of_oversize(message)
    named = kind_of(report.codes, report.host)
    if named is RateLimited:
        return _kind_of_limit(message)
    return named or _kind_by_status(report)


def _kind_by_status(report: ErrorReport) -> ErrorKind:
    message = report.message
    match report.status:
        case None:
            return _kind_by_wording(message) or _kind_without_status(report)
        case 402:
            # OpenRouter also uses 402 for its limit on concurrent requests, and then names a delay.
            return QuotaExhausted if report.retry_after is None else RateLimited
        case 403:
            return _kind_of_403(message)
        case 413:
            return RateLimited if other_cause(message) == "rate" else _kind_of_oversize(message)
        case 429:
            return _kind_of_limit(message)
        case status:
            return _kind_by_other_status(status, report)


def _kind_by_other_status(status: int, report: ErrorReport) -> ErrorKind:
    kind = _BY_STATUS.get(status)
    if kind is not None:
        return kind
    if is_wordless_overflow(report.host, status, report.message):
        return ContextOverflow
    refused = _kind_by_wording(report.message)
    if status >= 500 or status in _TRANSIENT_STATUSES:
        return refused or Overloaded
    if refused is None and report.is_large and is_probable_overflow(status, report.message):
        return ContextOverflow
    if status in _REQUEST_STATUSES:
        return refused or InvalidRequest
    return ProviderError


def _kind_of_limit(message: str) -> ErrorKind:
    return QuotaExhausted if _QUOTA.search(message) else RateLimited


def _kind_of_403(message: str) -> ErrorKind:
    if other_cause(message) == "rate":
        return RateLimited
    if _FILTER.search(message):
        return ContentFiltered
    return QuotaExhausted if _QUOTA.search(message) else AuthFailed


def _kind_of_oversize(message: str) -> ErrorKind:
    if is_overflow(message):
        return ContextOverflow
    return MediaTooLarge if _MEDIA.search(message) or _BYTES.search(message) else ContextOverflow


def _kind_by_wording(message: str) -> ErrorKind | None:
    """Classify by the wording alone; None if it matches nothing."""
    about = other_cause(message)
    if about is not None:
        return _kind_of_limit(message) if about == "rate" else Overloaded
    if _QUOTA.search(message):
        return QuotaExhausted
    if is_overflow(message):
        return ContextOverflow
    return next((kind for pattern, kind in _REFUSALS if pattern.search(message)), None)


def _kind_without_status(report: ErrorReport) -> ErrorKind:
    """Classify an error without a status whose wording matches nothing."""
    vague = generic_kind_of(report.codes)
    if vague is not None:
        return vague
    return ProviderError if report.codes else Overloaded
