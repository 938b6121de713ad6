"""`engine worker` and `engine fleet`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.server_commands import seconds_or_none
from engine.cli.command_table.shared_flags import CWD, JSON, STORE
from engine.cli.command_table.turn_flags import LIMIT_FLAGS, MODEL_FLAGS, PERMISSION_FLAGS, SANDBOX_FLAGS
from engine.cli.flags.arg_types import whole

_DATABASE: Final = Flag(
    names=("--store",),
    value="URL",
    help="use the queue of this PostgreSQL database",
    default_text="$ENGINE_STORE",
    detail="?tenant=NAME at its end selects a tenant.",
    example="--store postgresql://db.example/agents",
)
_CODES: Final = {0: "done", 1: "failed", 2: "wrong usage", 74: "the database can't be read or written"}

WORKER: Final = CommandSpec(
    name="worker",
    help=summary("worker"),
    description="Take tasks from the queue of a database, the oldest first, and run each as a turn of a session, until a signal "
    "ends it. `engine fleet enqueue` adds tasks. Any number of workers share a queue.",
    run="engine.cli.fleet.run_worker:main",
    groups=(
        FlagGroup(
            "worker",
            (
                Flag(
                    names=("--slots",),
                    value="N",
                    help="run so many tasks at a time",
                    parse=whole(1, 1_000),
                    default=4,
                    example="--slots 20",
                ),
                Flag(
                    names=("--drain",),
                    value="SECONDS",
                    help="let tasks continue for so long when the worker ends",
                    detail="Then their turns are stopped and saved, and other workers continue with them.",
                    parse=seconds_or_none,
                    default=60.0,
                    default_text="60",
                    example="--drain 300",
                ),
                Flag(
                    names=("--attempts",),
                    value="N",
                    help="give a task up after so many attempts",
                    detail="A worker that is drained does not count.",
                    parse=whole(1, 1_000),
                    default=5,
                    example="--attempts 3",
                ),
                CWD,
                STORE,
            ),
        ),
        PERMISSION_FLAGS,
        SANDBOX_FLAGS,
        LIMIT_FLAGS,
        MODEL_FLAGS,
    ),
    notes=(
        "SIGTERM or Ctrl-C drains it: it takes no new task, and those that run may continue for --drain seconds; a second one "
        "stops them at once.",
    ),
    exit_codes={0: "drained", 1: "failed", 2: "wrong usage", 74: "the database can't be read or written"},
    sample="--store postgresql://db.example/agents",
    examples=(("worker --slots 20 --yes", "run twenty tasks at a time, without asking"),),
)

FLEET: Final = CommandSpec(
    name="fleet",
    help=summary("fleet"),
    description="Add tasks to the queue of a database, list and cancel them, and show how its engines do.",
    default="status",
    subcommands=(
        CommandSpec(
            name="fleet status",
            help="show engines, sessions, leases and the queue",
            description="Show how the engines of a database do: their sessions and leases, the queue, and how long commits take. "
            "All of it comes from the database.",
            run="engine.cli.fleet.show_status:main",
            groups=(FlagGroup("flags", (JSON, _DATABASE)),),
            exit_codes=_CODES,
            examples=(("fleet status --json", "print what a monitor reads"),),
        ),
        CommandSpec(
            name="fleet enqueue",
            help="add a task for a worker, and print its key",
            description="Add a task to the queue, and print its key. A worker runs it in a new session, or in one that exists.",
            run="engine.cli.fleet.task_commands:enqueue_main",
            arguments=(Argument(name="task", help="the task; - reads it from standard input"),),
            groups=(
                FlagGroup(
                    "flags",
                    (
                        Flag(
                            names=("--key",),
                            value="KEY",
                            help="name the task: the same name again adds nothing",
                            default_text="a random one",
                            example="--key nightly-2026-11-20",
                        ),
                        Flag(
                            names=("--wait",),
                            help="wait for the end, and print the answer",
                            detail="The exit code is 0 if it completed, else 1.",
                        ),
                        JSON,
                        _DATABASE,
                    ),
                ),
                FlagGroup(
                    "session",
                    (
                        Flag(
                            names=("--cwd",),
                            value="DIR",
                            help="work in this directory of the worker's machine",
                            default_text="this one",
                            example="--cwd /srv/project",
                            completes="directory",
                        ),
                        Flag(
                            names=("--model",),
                            value="NAME",
                            help="use this model",
                            default_text="the worker's",
                            example="--model anthropic/claude-sonnet-4-5",
                            completes="model",
                        ),
                        Flag(
                            names=("--agent",),
                            value="NAME",
                            help="use this agent",
                            default_text="the worker's",
                            example="--agent plan",
                            completes="agent",
                        ),
                        Flag(
                            names=("--resume",),
                            value="SESSION",
                            help="continue this session",
                            example="--resume last",
                            completes="session",
                        ),
                    ),
                ),
            ),
            exit_codes={**_CODES, 1: "failed; with --wait also: the task did not complete"},
            sample="'make the tests pass'",
            examples=(("fleet enqueue --wait 'make the tests pass'", "wait for a worker's answer"),),
        ),
        CommandSpec(
            name="fleet tasks",
            help="list the tasks that wait or run",
            description="List the tasks that wait or run, the oldest first.",
            run="engine.cli.fleet.task_commands:list_main",
            groups=(
                FlagGroup(
                    "flags",
                    (
                        Flag(names=("--ended",), help="list those that have ended, the newest first"),
                        Flag(
                            names=("--limit",),
                            value="N",
                            help="list at most so many",
                            parse=whole(1),
                            default=100,
                            example="--limit 1000",
                        ),
                        JSON,
                        _DATABASE,
                    ),
                ),
            ),
            exit_codes=_CODES,
            examples=(("fleet tasks --ended", "list what has been done"),),
        ),
        CommandSpec(
            name="fleet cancel",
            help="cancel a task that waits",
            description="Cancel a task that no worker has taken yet.",
            run="engine.cli.fleet.task_commands:cancel_main",
            arguments=(Argument(name="key", help="its key, as `engine fleet tasks` lists it"),),
            groups=(FlagGroup("flags", (_DATABASE,)),),
            exit_codes={**_CODES, 1: "a worker runs it, or it has ended"},
            sample="nightly-2026-11-20",
            examples=(("fleet cancel nightly-2026-11-20", "cancel that task"),),
        ),
    ),
)
