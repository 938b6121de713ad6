"""`engine run`."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CWD
from engine.cli.command_table.turn_flags import (
    COLOR,
    LIMIT_FLAGS,
    MODEL_FLAGS,
    PERMISSION_FLAGS,
    SANDBOX_FLAGS,
    SESSION_FLAGS,
)
from engine.cli.flags.arg_types import time_span, whole
from engine.cli.task.standard_input import MAX_BYTES, StdinPolicy
from engine.cli.terminal.exit_codes import MEANINGS
from engine.cli.turn.record_types import OutputMode

_INPUT: Final = FlagGroup(
    "input",
    (
        Flag(
            names=("--attach",),
            value="FILE",
            help="add a file to the task",
            detail="Text, a folder's listing, an image, a PDF or audio. @FILE in the task does the same, @FILE:10-40 adds these "
            "lines, and \\@ is an ordinary @.",
            example="--attach README.md",
            is_repeated=True,
            completes="file",
        ),
        Flag(
            names=("--stdin",),
            choices=get_args(StdinPolicy),
            default="auto",
            help="choose how standard input joins the task",
            detail="auto: a pipe that sends nothing for 10 seconds is ignored. wait: wait for it. skip: do not read it.",
            example="--stdin skip",
        ),
        Flag(
            names=("--stdin-max",),
            value="BYTES",
            help="accept at most so many bytes of standard input",
            parse=whole(1),
            default=MAX_BYTES,
            example="--stdin-max 1000000",
        ),
        CWD,
    ),
)

_OUTPUT: Final = FlagGroup(
    "output",
    (
        Flag(
            names=("--output",),
            choices=get_args(OutputMode),
            default="text",
            help="choose what standard output carries",
            detail="text: the answer. json: one object at the end. stream-json: each event as a line of JSON, and that object "
            "last.",
            example="--output json",
        ),
        Flag(
            names=("--json",),
            help="print events as lines of JSON: --output stream-json",
            const="stream-json",
            dest="output",
            default="text",
        ),
        Flag(names=("--stream",), help="write the answer as it comes, also into a pipe"),
        Flag(
            names=("-o", "--output-file"),
            value="FILE",
            help="write the answer, or the object, to FILE as well",
            parse=Path,
            example="--output-file answer.txt",
            completes="file",
        ),
        COLOR,
        Flag(names=("-q", "--quiet"), help="print nothing but the answer and errors"),
        Flag(names=("-v", "--verbose"), help="print a line for each request to a model", const=1, default=0),
        Flag(
            names=("-vv", "--very-verbose"),
            help="write the debug log to standard error, too",
            const=2,
            dest="verbose",
            default=0,
        ),
        Flag(
            names=("--debug-log",),
            value="FILE",
            help="write the debug log to FILE, for you alone",
            detail="Its mode is 0600. The values of secret variables are hidden; prompts, answers and the output of tools are "
            "not.",
            parse=Path,
            variable="ENGINE_LOG",
            example="--debug-log debug.log",
            completes="file",
        ),
        Flag(
            names=("--schema",),
            value="FILE|-|JSON",
            help="accept only an answer that fits a JSON Schema",
            detail="Standard output gets the JSON value alone. -: the schema comes from standard input.",
            example="--schema schema.json",
            completes="file",
        ),
        Flag(
            names=("--no-input",),
            variable="ENGINE_NO_INPUT",
            help="ask nothing: deny what would be asked",
            detail="--unattended chooses what is denied.",
        ),
        Flag(
            names=("--deny-ok",),
            help="exit with 0 if the task completed though calls were denied",
        ),
    ),
)

_LIMITS: Final = FlagGroup(
    LIMIT_FLAGS.title,
    (
        *LIMIT_FLAGS.flags,
        Flag(
            names=("--max-wait",),
            value="TIME",
            help="wait no longer than this for a provider",
            detail="For one that is silent, overloaded or limits the rate, over all retries. Default without a user to ask: 5m.",
            parse=time_span,
            example="--max-wait 1h",
        ),
    ),
)

RUN: Final = CommandSpec(
    name="run",
    help=summary("run"),
    description="Give the agent a task and watch it work. Ctrl-C cancels it and leaves nothing running. The session is saved: "
    "--continue continues it. Standard output gets the answer and nothing else.",
    run="engine.cli.run:main",
    arguments=(
        Argument(
            name="task",
            count="optional",
            help="what to do; - or nothing reads it from standard input",
            detail="With - among the words it waits for standard input, however long that takes. /NAME is one of your custom "
            "commands. Without a task, --continue and --resume resume a turn that was waiting for an answer when its process "
            "ended.",
            completes="file",
        ),
        Argument(name="words", label="WORD", count="any", help="arguments of the custom command", completes="file"),
    ),
    groups=(_INPUT, _OUTPUT, _LIMITS, SESSION_FLAGS, PERMISSION_FLAGS, SANDBOX_FLAGS, MODEL_FLAGS),
    notes=("While the agent works, a line that you type is sent to the model.",),
    exit_codes=MEANINGS,
    sample='"fix the failing test"',
    examples=(
        ('run "fix the failing test"', "give it a task in this folder"),
        ('run --continue "now the other one"', "go on in the same session"),
        ('run --output json --no-input "review the last commit"', "use it in a script"),
    ),
)
