"""From a host's complaint to one of our errors: code and status first, wording last.

Wording is looked at only where a host has one status, or one code, for several
things: a request that it finds invalid, that it finds too large, that it forbids,
or that went over some limit. No number in a text is ever taken for a status.
"""

from __future__ import annotations

import re

import attrs

from engine.core.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
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
from engine.providers.failures.overflow import is_overflow, is_wordless_overflow, other_cause

_LONGEST_TEXT = 600

_FLAGS = re.IGNORECASE | re.DOTALL
_MEDIA = re.compile(
    r"\b(image|pdf|document|file)s?\b.{0,80}\b(exceeds?|too (large|many)|maximum|at most)\b|too many (images|documents)"
    r"|maximum .{0,20}pages|payload size exceeds",
    _FLAGS,
)
# A request of so many *bytes* holds media: a window's worth of text is far smaller.
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
# A limit that counts in days is not lifted while somebody waits.
_LASTING = re.compile(r"\bper[ -]?(day|week|month)|\b(daily|weekly|monthly)\b|usage limit", re.IGNORECASE)
# Larger than all that the limit allows in its whole minute.
_OVER_LIMIT = re.compile(r"request too large", re.IGNORECASE)

# What one status says of several things, by its wording; the first that fits.
_REFUSALS: tuple[tuple[re.Pattern[str], ErrorKind], ...] = (
    (_SIGNATURE, SignatureRejected),
    (_FILTER, ContentFiltered),
    (_KEY, AuthFailed),
    (_NO_MODEL, ModelNotFound),
    (_MEDIA, MediaTooLarge),
)
_REQUEST_STATUSES = frozenset({400, 405, 406, 411, 415, 417, 422})
_TRANSIENT_STATUSES = frozenset({408, 409, 424, 425, 499})
_BY_STATUS: dict[int, ErrorKind] = {401: AuthFailed, 404: ModelNotFound, 410: ModelNotFound}


@attrs.frozen(kw_only=True)
class ErrorReport:
    """What a host says is wrong.

    Attributes:
        host: who says it.
        status: the HTTP status, or the one that stands in the complaint; None: there is none.
        words: the host's own names and numbers for it, the most telling one first.
        message: its text.
        is_lasting: it is a limit that waiting a little does not lift.
        should_retry: what the host itself says of trying again.
        retry_after: seconds it asks to wait.
        reset_at: when it lifts its limit, in seconds since the epoch.
    """

    host: str
    status: int | None = None
    codes: tuple[str, ...] = ()
    message: str = ""
    is_lasting: bool = False
    should_retry: bool | None = None
    retry_after: float | None = None
    reset_at: float | None = None

    @property
    def text(self) -> str:
        """The complaint in one line."""
        status = "" if self.status is None else f"HTTP {self.status}"
        facts = ", ".join(filter(None, [status, most_specific(self.codes)])) or "in the middle of its answer"
        return f"{self.host}: {one_line(self.message) or 'no reason given'} ({facts})"


def one_line(message: str) -> str:
    """Return *message* in one line of sensible length."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_TEXT else f"{truncate_words(line, _LONGEST_TEXT)} …".lstrip()


def truncate_words(text: str, most: int) -> str:
    """Return the whole words of *text* that *most* characters hold.

    A key that was cut in two would not be found any more by what hides it, and be shown.
    """
    if len(text) <= most:
        return text
    head = text[: most + 1]
    if head[-1].isspace():
        return head[:-1]
    words = head.rsplit(maxsplit=1)
    return words[0] if len(words) > 1 else ""


def classify(report: ErrorReport) -> ProviderError:
    """Return *complaint* as the error to raise."""
    kind = _error_kind(report)
    return kind(
        report.text,
        retryable=_is_retryable(kind, report),
        status=report.status,
        retry_after=report.retry_after,
        reset_at=report.reset_at,
    )


def _is_retryable(kind: ErrorKind, report: ErrorReport) -> bool:
    if kind is InvalidRequest and is_model_error(report.codes):
        return report.should_retry is not False
    if kind not in {Overloaded, RateLimited, ProviderError}:
        return False  # whatever the host says: the same request would fail again
    if report.should_retry is not None:
        return report.should_retry
    if kind is RateLimited:
        return not _is_lasting(report)
    # In the middle of an answer, what is not the request's fault is the host's.
    return kind is Overloaded or report.status is None


def _is_lasting(report: ErrorReport) -> bool:
    if report.is_lasting or is_lasting(report.codes) or _OVER_LIMIT.search(report.message):
        return True
    # Where the host says how long, that decides.
    return report.retry_after is None and bool(_LASTING.search(report.message))


def _error_kind(report: ErrorReport) -> ErrorKind:
    message = report.message
    if is_too_large(report.codes):
        return _kind_of_oversize(message)
    named = kind_of(report.codes, report.host)
    if named is RateLimited:
        return _kind_of_limit(message)
    if named is not None:
        return named
    match report.status:
        case None:
            return _kind_by_wording(message) or _kind_without_status(report)
        case 402:
            # OpenRouter's budget of requests under way has the same status, and says when it is free again.
            return QuotaExhausted if report.retry_after is None else RateLimited
        case 403:
            return _kind_of_403(message)
        case 413:
            return RateLimited if other_cause(message) == "rate" else _kind_of_oversize(message)
        case 429:
            return _kind_of_limit(message)
        case status:
            return _by_status(status, report)


def _by_status(status: int, report: ErrorReport) -> ErrorKind:
    kind = _BY_STATUS.get(status)
    if kind is not None:
        return kind
    if is_wordless_overflow(report.host, status, report.message):
        return ContextOverflow
    refused = _kind_by_wording(report.message)
    if status >= 500 or status in _TRANSIENT_STATUSES:
        return refused or Overloaded
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
    """Return what the wording alone says; None: nothing that is known."""
    about = other_cause(message)
    if about is not None:
        return _kind_of_limit(message) if about == "rate" else Overloaded
    if _QUOTA.search(message):
        return QuotaExhausted
    if is_overflow(message):
        return ContextOverflow
    return next((kind for pattern, kind in _REFUSALS if pattern.search(message)), None)


def _kind_without_status(report: ErrorReport) -> ErrorKind:
    """Return what a complaint without a status is, about which the wording says nothing."""
    vague = generic_kind_of(report.codes)
    if vague is not None:
        return vague
    return ProviderError if report.codes else Overloaded
