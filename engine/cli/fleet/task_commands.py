"""`engine fleet enqueue`, `engine fleet tasks` and `engine fleet cancel`: the queue of a fleet."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.cli.flags.store_flags import open_store, resolve_session, resolve_store
from engine.cli.fleet.run_worker import check_database
from engine.cli.sessions.session_command import run_subcommand
from engine.cli.sessions.table import Column, format_moment, table
from engine.cli.terminal.exit_codes import DONE, FAILED
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import stdout_width
from engine.core.errors import ConfigError
from engine.fleet.enqueue_task import enqueue, queue_of
from engine.store.store_protocols import FullStore
from engine.store.work_queue import QueuedTask, WorkQueue

# Between two looks at a task that is waited for.
_LOOK_SECONDS: Final = 0.5
_COMPLETED: Final = "completed"


def enqueue_main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_subcommand("fleet enqueue", arguments, lambda args: trio.run(_enqueue, args, _prompt(args)))


def list_main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_subcommand("fleet tasks", arguments, lambda args: trio.run(_list, args))


def cancel_main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_subcommand("fleet cancel", arguments, lambda args: trio.run(_cancel, args))


def _prompt(args: argparse.Namespace) -> str:
    """Return the text of the task. It blocks if that comes from standard input. Raises `ConfigError`."""
    if args.task != "-":
        return str(args.task)
    if sys.stdin is None:
        raise ConfigError("standard input is closed\nNext: name the task as an argument")
    try:
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"standard input can't be read: {error}\nNext: name the task as an argument") from error


async def _enqueue(args: argparse.Namespace, text: str) -> int:
    """Add a task, and wait for its end if asked to. A checkpoint."""
    async with open_store(_database(args)) as store:
        if args.resume is None:
            task = await enqueue(store, text, cwd=args.cwd, model=args.model, agent=args.agent, key=args.key)
        else:
            row = await resolve_session(store, args.resume, str(Path.cwd()))
            task = await enqueue(
                store, text, session_id=row.id, cwd=args.cwd, model=args.model, agent=args.agent, key=args.key
            )
        answer = ""
        if args.wait:
            task = await _wait(queue_of(store), task)
            answer = await _answer(store, task)
    if args.json:
        document = _document(task)
        return print_text(f"{json.dumps({**document, 'answer': answer} if args.wait else document)}\n") or _code(task)
    if not args.wait:
        return print_text(f"{task.spec.key}\n")
    if task.outcome != _COMPLETED:
        print_error(
            f"engine fleet enqueue: {task.outcome}: {task.detail}\nNext: engine sessions show {task.spec.session_id}"
        )
    return print_text(f"{answer}\n" if answer else "") or _code(task)


def _code(task: QueuedTask) -> int:
    return DONE if task.outcome in {"", _COMPLETED} else FAILED


async def _wait(queue: WorkQueue, task: QueuedTask) -> QueuedTask:
    """Wait for the end of a task. A checkpoint; cancelling it does not affect the task."""
    while task.ended is None:
        await trio.sleep(_LOOK_SECONDS)
        found = await queue.find(task.spec.key)
        assert found is not None  # no task is deleted
        task = found
    return task


async def _answer(store: FullStore, task: QueuedTask) -> str:
    """Return the answer of the task's turn. A checkpoint."""
    stored = await store.open_session(task.spec.session_id)
    result = None if stored is None else stored.state.last_result
    return "" if result is None else result.text


async def _list(args: argparse.Namespace) -> int:
    """Print the tasks. A checkpoint."""
    async with open_store(_database(args)) as store:
        tasks = await queue_of(store).list(limit=args.limit, ended=args.ended)
    if args.json:
        return print_text("".join(f"{json.dumps(_document(task))}\n" for task in tasks))
    if not tasks:
        return print_text("no task has ended\n" if args.ended else "no task waits or runs\n")
    return print_text(table(_columns(tasks, time.time()), stdout_width()))


async def _cancel(args: argparse.Namespace) -> int:
    """End a task that waits. A checkpoint."""
    async with open_store(_database(args)) as store:
        queue = queue_of(store)
        if await queue.cancel(args.key):
            return DONE
        task = await queue.find(args.key)
    if task is None:
        raise ConfigError(f"no task has the key {args.key!r}\nNext: engine fleet tasks")
    if task.state == "ended":
        print_error(
            f"engine fleet cancel: the task {args.key!r} has ended: {task.outcome}\nNext: engine fleet tasks --ended"
        )
    else:
        print_error(
            f"engine fleet cancel: a worker on {task.host} runs the task {args.key!r}\nNext: engine fleet tasks"
        )
    return FAILED


def _database(args: argparse.Namespace) -> str:
    place = resolve_store(args)
    check_database(place)
    return place


def _columns(tasks: Sequence[QueuedTask], now: float) -> list[Column]:
    return [
        Column(heading="key", texts=[task.spec.key for task in tasks]),
        Column(heading="state", texts=[task.outcome or task.state for task in tasks]),
        Column(heading="since", texts=[format_moment(task.ended or task.enqueued, now) for task in tasks]),
        Column(heading="attempts", texts=[str(task.attempts) for task in tasks], is_right=True),
        Column(heading="worker", texts=[task.host for task in tasks]),
        Column(heading="session", texts=[task.spec.session_id for task in tasks]),
        Column(heading="task", texts=[task.detail or task.spec.text for task in tasks], grows=True),
    ]


def _document(task: QueuedTask) -> dict[str, object]:
    document = attrs.asdict(task)
    return {**document.pop("spec"), **document}
