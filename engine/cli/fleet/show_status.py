"""`engine fleet status`: how the engines of a database do, from the database alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Final

import attrs
import trio

from engine.cli.flags.store_flags import open_store, resolve_store
from engine.cli.fleet.run_worker import check_database
from engine.cli.sessions.session_command import run_subcommand
from engine.cli.sessions.table import Column, table
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import stdout_width
from engine.core.errors import ConfigError
from engine.store.fleet_status import EngineStatus, FleetStatus, ReportsFleet

_MINUTE: Final = 60
_HOUR: Final = 3_600
_DAY: Final = 86_400


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_subcommand("fleet status", arguments, _run)


def _run(args: argparse.Namespace) -> int:
    place = resolve_store(args)
    check_database(place)
    status = trio.run(_status, place)
    return print_text(f"{json.dumps(attrs.asdict(status), indent=2)}\n" if args.json else _text(status))


async def _status(place: str) -> FleetStatus:
    """Return the status. A checkpoint. Raises `ConfigError`, `StoreError`."""
    async with open_store(place) as store:
        if not isinstance(store, ReportsFleet):
            raise ConfigError("this store has no fleet\nNext: add --store postgresql://HOST/DATABASE")
        return await store.fleet_status()


def _text(status: FleetStatus) -> str:
    age = "" if status.queue_age is None else f"; the oldest has waited for {_span(status.queue_age)}"
    connections = status.connections
    lines = [
        f"sessions: {_counts(status.sessions)}",
        f"leases: {_counts(status.leases)}",
        f"tasks: {_counts(status.tasks)}{age}",
        f"ended in the last hour: {_counts(status.outcomes) or 'none'}",
        f"permits: {_counts(status.permits)}",
        f"connections: {connections['engines']} of engines, {connections['all']} in all, of at most {connections['limit']}",
        f"notifications: {_notification(status)}",
    ]
    engines = table(_columns(status), stdout_width()) if status.engines else "no engine has the store open\n"
    return "\n".join(lines) + f"\n\n{engines}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _notification(status: FleetStatus) -> str:
    took = status.notification_seconds
    arrival = "none arrives" if took is None else f"{_milliseconds(took)} to arrive"
    return f"{arrival}, the server's queue is {status.notification_queue:.0%} full"


def _columns(status: FleetStatus) -> list[Column]:
    def column(heading: str, texts: list[str]) -> Column:
        return Column(heading=heading, texts=texts, is_right=True)

    engines = status.engines
    return [
        Column(heading="engine", texts=[f"{each.host}:{each.pid}" for each in engines], grows=True),
        Column(heading="version", texts=[each.version for each in engines]),
        column("open for", [_span(each.opened) for each in engines]),
        column("silent for", [_span(each.silent) for each in engines]),
        column("leases", [f"{each.leases:,}" for each in engines]),
        column("taken", [_figure(each, "takeovers") for each in engines]),
        column("commits", [_figure(each, "commits") for each in engines]),
        column("commit", [_mean(each, "commit_seconds", "commits") for each in engines]),
        column("flush", [_mean(each, "flush_seconds", "flushes") for each in engines]),
        column("drafts/s", [_rate(each, "drafts") for each in engines]),
        column("notes/s", [_rate(each, "notifications") for each in engines]),
    ]


def _figure(engine: EngineStatus, name: str) -> str:
    return f"{engine.figures[name]:,.0f}" if name in engine.figures else ""


def _mean(engine: EngineStatus, seconds: str, count: str) -> str:
    """Return the mean of a duration since the store was opened."""
    figures = engine.figures
    return _milliseconds(figures[seconds] / figures[count]) if figures.get(count) else ""


def _rate(engine: EngineStatus, name: str) -> str:
    """Return how often something happens: in the seconds before the figures were written."""
    rate = engine.figures.get(f"{name}_per_second")
    return "" if rate is None else f"{rate:,.1f}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


def _span(seconds: float) -> str:
    """Format a duration in its largest unit."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
