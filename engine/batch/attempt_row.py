"""`AttemptRow`: how one attempt at a task ended, as one line of the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar, cast

import attrs

from engine.batch.batch_status import (
    INFRA_CLASSES,
    PHASES,
    STATUSES,
    BatchStatus,
    CheckResult,
    InfraClass,
    Phase,
)
from engine.core.events import STOP_REASONS, StopReason
from engine.core.messages import Usage
from engine.core.value_base import Value
from engine.core.version import __version__

Name = TypeVar("Name", bound=str)

MAX_ROW_BYTES: Final = 65_536
MAX_MESSAGE_CHARS: Final = 2_000
# Longer outputs are files.
MAX_OUTPUT_CHARS: Final = 8_000


class DamagedRow(Exception):
    """A line is no row."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AttemptError(Value):
    """Why an attempt has no result.

    Attributes:
        kind: the class of the fault; "bad_task": the task itself can't be run.
        message: the same in words, for people.
    """

    kind: str
    message: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AttemptRow(Value):
    """How an attempt ended.

    Attributes:
        id: the task.
        attempt: its number, from 1.
        status: how it ended.
        stop_reason: why the turn ended; None: there was none.
        check: how the check ended, whatever the status is.
        session: the session's id; empty: there was none.
        continued: the session went on from its last saved step, because an earlier attempt or runner ended before the turn.
        base_commit: of the repository that the folder is made from; empty: none.
        patch: the file with the changes, relative to the folder of the ledger; empty: there is none.
        output: the answer as JSON text: a string, or what fits the task's schema; None: there is none.
        output_file: the file with the answer, if it is too long for the row.
        usage: tokens, sub-agents included.
        cost: in dollars, as far as it is known.
        cost_known: whether all that was used has a price.
        times: seconds by phase.
        error: why there is no result; None: there is one.
        retries: why earlier attempts of this task were repeated, the oldest first.
        notes: what else is to be known: that there is no patch, say.
        denied: how many calls were denied for lack of a user, or by a rule.
        steps: the requests to the model.
        engine: the version.
        model: as it answered, `host/model`; empty: it did not.
        config_hash: what names the configuration of the command.
        task_hash: what names the content of the task's line.
        prompt_hash: what names its prompt.
        host: the machine.
        shard: which part of the batch, as `1/4`; empty: all of it.
        ended: when, in seconds since the epoch.
    """

    id: str
    attempt: int
    status: BatchStatus
    stop_reason: StopReason | None = None
    check: CheckResult = ""
    session: str = ""
    continued: bool = False
    base_commit: str = ""
    patch: str = ""
    output: str | None = None
    output_file: str = ""
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0
    cost_known: bool = True
    times: Mapping[Phase, float] = attrs.field(factory=dict[Phase, float])
    error: AttemptError | None = None
    retries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    denied: int = 0
    steps: int = 0
    engine: str = __version__
    model: str = ""
    config_hash: str = ""
    task_hash: str = ""
    prompt_hash: str = ""
    host: str = ""
    shard: str = ""
    ended: float = 0.0


def encode_row(row: AttemptRow) -> str:
    """Return the row as a line of JSON, without its end, at most 64 KiB: what is too long is cut, and says so."""
    line = _encode(row)
    if len(line) <= MAX_ROW_BYTES:  # it is ASCII
        return line
    return _encode(attrs.evolve(row, output=None, retries=row.retries[-3:]))


def _encode(row: AttemptRow) -> str:
    error = row.error and {"class": row.error.kind, "message": _cut(row.error.message, MAX_MESSAGE_CHARS)}
    fields = {
        **{name: getattr(row, name) for name in _FIELDS},
        "output": None if row.output is None else json.loads(row.output),
        "usage": {name: getattr(row.usage, name) for name in _USAGE},
        "times": {phase: round(seconds, 6) for phase, seconds in row.times.items()},
        "error": error,
        "retries": [_cut(text, MAX_MESSAGE_CHARS // 4) for text in row.retries],
        "notes": [_cut(text, MAX_MESSAGE_CHARS // 4) for text in row.notes],
    }
    return json.dumps(fields)


def decode_row(line: str | bytes) -> AttemptRow:
    """Return the row of a line. Unknown members, of a newer engine, are ignored. Raises `DamagedRow`."""
    return _parse(line, _decode)


def decode_digest(line: str | bytes) -> AttemptRow:
    """Return what sums need of a row, twice as fast: other fields have their defaults. Raises `DamagedRow`."""
    return _parse(line, _decode_digest)


def _parse(line: str | bytes, decode: Callable[[dict[str, object]], AttemptRow]) -> AttemptRow:
    try:
        document: object = json.loads(line)
    except ValueError as error:
        raise DamagedRow(f"it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise DamagedRow("it is no JSON object")
    fields = cast("dict[str, object]", document)
    try:
        return decode(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedRow(f"it is no row: {error!r}") from error


def _decode(fields: dict[str, object]) -> AttemptRow:
    output, usage, times, error, retries, notes = (fields.pop(name, None) for name in _NESTED)
    own = fields if fields.keys() <= _PLAIN else {name: value for name, value in fields.items() if name in _PLAIN}
    _check_words(own)
    return AttemptRow(
        **own,  # type: ignore[arg-type]  # JSON: what is compared is checked above
        output=None if output is None else json.dumps(output),
        usage=Usage(**_numbers(usage, _USAGE)),  # type: ignore[arg-type]  # whole numbers, as written
        times=_numbers(times, PHASES),
        error=_error(error) if error else None,
        retries=_texts(retries) if retries else (),
        notes=_texts(notes) if notes else (),
    )


def _decode_digest(fields: dict[str, object]) -> AttemptRow:
    # A ledger may have a hundred thousand rows, which are read before anything runs.
    _check_words(fields)
    error, usage = fields.get("error"), cast("dict[str, int]", fields.get("usage") or {})
    return AttemptRow(
        **{name: fields[name] for name in _DIGEST if name in fields},  # type: ignore[arg-type]  # as in `_decode`
        usage=Usage(**usage) if usage.keys() <= _USAGE_NAMES else Usage(**_numbers(usage, _USAGE)),  # type: ignore[arg-type]
        error=_error(error) if error else None,
    )


def _check_words(own: dict[str, object]) -> None:
    if not (isinstance(own["id"], str) and isinstance(own["attempt"], int) and own["status"] in _STATUSES):
        raise ValueError("id, attempt or status")
    if own.get("stop_reason") not in _STOP_REASONS:
        raise ValueError("stop_reason")


def _numbers(value: object, names: Iterable[Name]) -> dict[Name, float]:
    members = cast("dict[Name, float]", value or {})
    return {name: members[name] for name in names if name in members}


def _error(value: object) -> AttemptError:
    members = cast("dict[str, str]", value)
    return AttemptError(kind=members["class"], message=members["message"])


def _texts(value: object) -> tuple[str, ...]:
    return tuple(cast("list[str]", value or ()))


def retry_reason(row: AttemptRow) -> str:
    """Return why a row's attempt is repeated, for the rows of the next ones."""
    error = row.error
    return row.status if error is None else _cut(f"{error.kind}: {error.message}", MAX_MESSAGE_CHARS // 4)


def infra_class(row: AttemptRow) -> InfraClass | None:
    """Return the class of the infrastructure's fault; None: it was none."""
    if row.status != "infra" or row.error is None:
        return None
    return next((name for name in INFRA_CLASSES if name == row.error.kind), None)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


_USAGE: Final = tuple(field.name for field in attrs.fields(Usage))
# Those whose value is not JSON as it is, and the others.
_NESTED: Final = ("output", "usage", "times", "error", "retries", "notes")
_FIELDS: Final = tuple(field.name for field in attrs.fields(AttemptRow) if field.name not in _NESTED)
_PLAIN: Final = frozenset(_FIELDS)
_STOP_REASONS: Final = frozenset({None, *STOP_REASONS})
_STATUSES: Final = frozenset(STATUSES)
_USAGE_NAMES: Final = frozenset(_USAGE)
_DIGEST: Final = (
    *("id", "attempt", "status", "session", "continued", "cost", "cost_known", "denied", "task_hash", "config_hash"),
)
