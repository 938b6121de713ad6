"""The facts that the table of situations names, each from a failure and its surroundings. Empty: unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.terminal_text import clock_minute, duration
from engine.core.errors import ErrorInfo
from engine.core.settings import Timeouts
from engine.core.value_base import Value

# Options that the engine itself sends, by what hosts call them: the setting, and the flag.
_OPTIONS: Final = (
    (re.compile(r"temperature"), "temperature", "--temperature"),
    (re.compile(r"effort|thinking|reasoning"), "effort", "--effort"),
    (re.compile(r"max\w*tokens|maxOutputTokens"), "output_cap", "--max-output"),
    (re.compile(r"cache"), "cache", "--cache"),
)
_HOURS_FROM: Final = 120
_BUDGETS: Final = frozenset({"token_budget", "cost_limit"})
_DAYS_FROM: Final = 48 * 60
# Commands without `--ephemeral`.
_ELSEWHERE: Final = {"serve": "engine serve", "batch": "engine batch TASKS.jsonl"}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FailureFacts(Value):
    """A failure to be put into words.

    Attributes:
        code: its row of the table.
        info: its facts.
        words: the provider's or the engine's own words.
        reset_at: when a limit is lifted, in seconds since the epoch.
        now: the time of day.
        is_saved: the session is saved.
        session: the session.
        process: the process that has it open.
    """

    code: str
    info: ErrorInfo
    words: str = ""
    reset_at: float | None = None
    now: float = 0.0
    is_saved: bool = True
    session: str = ""
    process: str = ""


Fact = Callable[[FailureFacts, Surroundings], str]


def _host(failure: FailureFacts, around: Surroundings) -> str:
    name = failure.info.host
    host = around.host(name) if name else None
    return host.title if host is not None else name or "The provider"


def _model(failure: FailureFacts, _: Surroundings) -> str:
    return failure.info.model or "the model"


def _own_name(failure: FailureFacts, around: Surroundings) -> str:
    model = _model(failure, around)
    return model.partition("/")[2] or model


def _nearest(failure: FailureFacts, around: Surroundings) -> str:
    names = [name.partition("/")[2] for name in around.nearest_models(failure.info.model)]
    return f". Nearest: {', '.join(names)}" if names else ""


def _setting(failure: FailureFacts) -> tuple[str, str]:
    """Return the setting and the flag behind a rejected option; empty: it is none of the engine's."""
    option = failure.info.subject
    return next(((setting, flag) for pattern, setting, flag in _OPTIONS if pattern.search(option)), ("", ""))


def _origin(failure: FailureFacts, around: Surroundings) -> str:
    place = around.url_place(failure.info.host)
    return f" (base URL from {place})" if place else ""


def _status(failure: FailureFacts, _: Surroundings) -> str:
    status = failure.info.http_status
    return "" if status is None else f" ({status})"


def _date(failure: FailureFacts, _: Surroundings) -> str:
    return f" on {failure.info.subject}" if failure.info.subject else ""


def _amount(failure: FailureFacts, _: Surroundings) -> str:
    return _number(failure.info.amount)


def _limit(failure: FailureFacts, _: Surroundings) -> str:
    return _number(failure.info.limit)


def _double(failure: FailureFacts, _: Surroundings) -> str:
    """Return twice the limit, or what is used and twice what the next request takes."""
    limit, info = failure.info.limit or 0, failure.info
    need = float(info.subject) if info.code in _BUDGETS and info.subject else 0.0
    enough = max(2 * limit, (info.amount or 0) + 2 * need)
    if enough == 2 * limit:
        return f"{enough:.12g}" if limit else ""
    return f"{enough:.0f}" if info.code == "token_budget" else f"{enough:.2f}" if enough >= 1 else f"{enough:.2g}"


def _need(failure: FailureFacts, _: Surroundings) -> str:
    """Return what the next request would take, where that exceeds the limit."""
    if not failure.info.subject:
        return ""
    need = float(failure.info.subject)
    what = f"{need:,.0f} tokens" if failure.info.code == "token_budget" else f"${_money(need)}"
    return f"; the next request takes about {what}"


def _seconds(failure: FailureFacts, _: Surroundings) -> str:
    seconds = failure.info.limit
    return "some time" if seconds is None else f"{round(seconds, 1):.12g} s"


def _longer(failure: FailureFacts, around: Surroundings) -> str:
    """Return what lets a provider be silent for longer: its own limit, or that of all attempts if it was reached first."""
    limit, host = failure.info.limit or 0.0, failure.info.host
    own = around.config.hosts.get(host)
    if limit < ((own.silence if own is not None else None) or Timeouts().idle):
        return f"{around.again} --max-wait 1h" if around.again.startswith("engine run") else ""
    return f"set [hosts.{host}] silence = {2 * limit:.12g}" if host else ""


def _after(failure: FailureFacts, _: Surroundings) -> str:
    return f" after {_number(failure.info.amount)} tokens" if failure.info.amount else ""


def _size(failure: FailureFacts, _: Surroundings) -> str:
    return (
        f"{_number(failure.info.amount)} tokens do not fit" if failure.info.amount else "The conversation does not fit"
    )


def _window(failure: FailureFacts, _: Surroundings) -> str:
    return f" ({_number(failure.info.limit)})" if failure.info.limit else ""


def _largest(_: FailureFacts, around: Surroundings) -> str:
    files = sorted(around.files, key=lambda file: file[1], reverse=True)[:3]
    return ", ".join(f"{name} ({_bytes(size)})" for name, size in files)


def _until(failure: FailureFacts, _: Surroundings) -> str:
    at = failure.reset_at
    return "" if at is None else f"{clock_minute(at)} ({in_minutes(at - failure.now)})"


def _wait(failure: FailureFacts, _: Surroundings) -> str:
    """Return how long to wait for the end of a limit, as a flag takes it."""
    if failure.reset_at is None:
        return ""
    minutes = max(1, -int(-(failure.reset_at - failure.now) // 60))
    return f"{-(-minutes // 60)}h" if minutes > _HOURS_FROM else f"{minutes}m"


FACTS: Final[Mapping[str, Fact]] = {
    # who
    "name": lambda failure, _: failure.info.host,
    "host": _host,
    "model": _model,
    "own": _own_name,
    "session": lambda failure, _: failure.session,
    "process": lambda failure, _: failure.process,
    # what it said
    "words": lambda failure, _: failure.words.rstrip(". "),
    "status": _status,
    "option": lambda failure, _: failure.info.subject,
    "setting": lambda failure, _: _setting(failure)[0],
    "flag": lambda failure, _: _setting(failure)[1],
    "other": lambda failure, _: "" if _setting(failure)[0] else failure.info.host,
    "nearest": _nearest,
    "first": lambda failure, around: next(iter(around.nearest_models(failure.info.model)), ""),
    # keys and addresses
    "key": lambda failure, around: around.key(failure.info.host),
    "variable": lambda failure, around: around.key_variable(failure.info.host),
    "billing": lambda failure, around: around.billing(failure.info.host),
    "address": lambda failure, _: failure.info.subject,
    "origin": _origin,
    "url_setting": lambda failure, around: around.url_setting(failure.info.host),
    "start": lambda failure, around: around.start_hint(failure.info.subject),
    "date": _date,
    # how much, and how long
    "amount": _amount,
    "limit": _limit,
    "need": _need,
    "double": _double,
    "longer": _longer,
    "amount_money": lambda failure, _: _money(failure.info.amount),
    "limit_money": lambda failure, _: _money(failure.info.limit),
    "seconds": _seconds,
    "after": _after,
    "size": _size,
    "window": _window,
    "largest": _largest,
    "until": _until,
    "wait": _wait,
    # the engine
    "number": lambda failure, _: failure.info.subject or "without a number",
    "saved": lambda failure, _: "the session is saved" if failure.is_saved else "the session is not saved",
    "place": lambda _, around: around.place,
    # how to continue
    "again": lambda _, around: around.again,
    "local_run": lambda _, around: _command(around, "--model local:FILE.gguf", "TASK"),
    "fork_run": lambda failure, around: _command(around, f"--resume {failure.session} --fork"),
    "unsaved_run": lambda _, around: (
        f"{_ELSEWHERE[around.command]} --store :memory:"
        if around.command in _ELSEWHERE
        else _command(around, "--ephemeral")
    ),
    "run": lambda _, around: around.again if around.again.startswith("engine run") else "",
}


def _command(around: Surroundings, flags: str, task: str = '"TASK"') -> str:
    """Return the command that failed, with other flags."""
    if around.command == "batch":
        return f"{_ELSEWHERE[around.command]} {flags}"
    return f"engine chat {flags}" if around.command == "chat" else f"engine run {flags} {task}"


def in_minutes(seconds: float) -> str:
    """Return how far ahead a moment is, roughly: `in 59 min`."""
    if seconds < 60:
        return f"in {duration(max(0, round(seconds)))}"
    minutes = round(seconds / 60)
    if minutes < _HOURS_FROM:
        return f"in {minutes} min"
    return f"in {round(minutes / 60)} h" if minutes < _DAYS_FROM else f"in {round(minutes / 1440)} days"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _money(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}" if value >= 0.1 or not value else f"{value:.4f}"


def _bytes(size: int) -> str:
    return f"{size / 1_048_576:.1f} MB" if size >= 1_048_576 else f"{max(1, size // 1024)} KB"
