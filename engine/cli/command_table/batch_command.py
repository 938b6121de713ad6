"""`engine batch`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, Literal, get_args

from engine.batch.batch_status import STATUSES, BatchStatus, Keep
from engine.batch.disk_space import GIBIBYTE, FreeSpace
from engine.cli.command_table.batch_place_flags import MERGE, PLACE_FLAGS
from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import STORE
from engine.cli.command_table.turn_flags import COLOR, LIMIT_FLAGS, MODEL_FLAGS, PERMISSION_FLAGS, SANDBOX_FLAGS
from engine.cli.flags.arg_types import amount, seconds, time_span, whole

TaskFormat = Literal["jsonl", "swebench", "harbor"]

_MAX_JOBS: Final = 1_000
_UNITS: Final = {"M": 1_048_576, "G": GIBIBYTE, "T": 1_024 * GIBIBYTE}


def free_space(text: str) -> FreeSpace:
    """Parse how much of a disk stays free: `5G`, `500M`, `5%` or 0. For `type=`."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in {*_UNITS, "%"} else (text, "")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e15 or (unit == "%" and value >= 100) or (not unit and value):
        raise argparse.ArgumentTypeError(f"must be a size such as 5G or 500M, a share such as 5%, or 0, not {text!r}")
    if unit == "%":
        return FreeSpace(bytes=0, share=value / 100)
    return FreeSpace(bytes=int(value * _UNITS.get(unit, 1)), share=0.0)


def share(text: str) -> float:
    """Parse a share below all of it: `20%`, or `0.2`. For `type=`."""
    number = text.removesuffix("%")
    try:
        value = float(number) / (1 if number == text else 100)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a share such as 20%, less than 100%, not {text!r}")
    return value


def statuses(text: str) -> frozenset[BatchStatus]:
    """Parse a list of statuses, such as `failed,timeout`. For `type=`."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in STATUSES]
    if unknown:
        raise argparse.ArgumentTypeError(f"must be among {', '.join(STATUSES)}, not {unknown[0]!r}")
    return frozenset(status for status in STATUSES if status in names)


_TASKS: Final = FlagGroup(
    "tasks",
    (
        Flag(
            names=("--task",),
            value="PROMPT",
            help="run this task instead of a file's",
            example='--task "say hello"',
            is_repeated=True,
        ),
        Flag(
            names=("--format",),
            choices=get_args(TaskFormat),
            help="read tasks of this format",
            detail="jsonl: our own. swebench: a row of SWE-bench on each line. harbor: a folder of Harbor tasks, whose instructions "
            "are run without their containers and tests.",
            default_text="harbor for a folder, else jsonl",
            example="--format swebench",
        ),
        Flag(
            names=("--repos",),
            value="DIR",
            help="use the clones in DIR for rows of SWE-bench",
            detail="A clone is DIR/OWNER/NAME, DIR/OWNER__NAME or DIR/NAME. Nothing is cloned.",
            default_text="the folder of the file",
            parse=Path,
            example="--repos clones",
            completes="directory",
        ),
        Flag(
            names=("--trust-tasks",),
            help="let tasks run their commands: setup, check, env",
            detail="And let them choose a wider permission profile. Without it, such lines are reported, and not run.",
        ),
        Flag(
            names=("--scripted",),
            value="TEXT",
            help="use TEXT as every answer, to try this offline",
            detail="Everything but the model is real. No key is needed.",
            example="--scripted 'Hello.'",
        ),
    ),
)
_RUN: Final = FlagGroup(
    "run",
    (
        Flag(
            names=("-j", "--jobs"),
            value="N",
            help="run so many tasks at once",
            parse=whole(1, _MAX_JOBS),
            default_text="4; on a cluster twice what it can run",
            example="--jobs 16",
        ),
        Flag(
            names=("--retry",),
            value="STATUS,...",
            help="run also tasks that ended like this before",
            detail=f"Any of {', '.join(STATUSES)}. Tasks without a result are run again anyway.",
            parse=statuses,
            default=frozenset[BatchStatus](),
            default_text="none",
            example="--retry failed,timeout",
        ),
        Flag(
            names=("--retry-delay",),
            value="SECONDS",
            help="wait so long before the first retry; it doubles",
            detail="Only faults of the infrastructure are retried, at most three times.",
            parse=seconds,
            default=5.0,
            default_text="5",
            example="--retry-delay 30",
        ),
        Flag(
            names=("--fresh",),
            help="start each retry in a new session",
            detail="Otherwise a retry continues the session after its last saved step, so that nothing is done twice.",
        ),
        Flag(
            names=("--allow-changed",),
            help="run though tasks or the configuration have changed",
            detail="Tasks whose line has changed are run again. Without it, nothing is run: results would be mixed.",
        ),
    ),
)
_FILES: Final = FlagGroup(
    "files",
    (
        Flag(
            names=("--results-dir",),
            value="DIR",
            help="write the ledger, patches and logs here",
            default_text="NAME.results in this directory",
            parse=Path,
            example="--results-dir results",
            completes="directory",
        ),
        Flag(
            names=("--predictions",),
            value="FILE",
            help="write results to FILE, as SWE-bench evaluates them",
            detail="A line for each task with a result: instance_id, model_name_or_path, model_patch. A task without one, as after a "
            "fault of the infrastructure, has no line.",
            parse=Path,
            example="--predictions predictions.jsonl",
            completes="file",
        ),
        Flag(
            names=("--name",),
            value="NAME",
            help="show the batch as NAME in lists of sessions",
            default_text="the file's name",
            example="--name nightly",
        ),
        Flag(
            names=("--keep",),
            choices=get_args(Keep),
            default="none",
            help="choose which tasks' folders stay",
            detail="failed: those of tasks that neither passed nor finished. Folders of tasks without a result always stay, "
            "so that they can be continued.",
            example="--keep failed",
        ),
        Flag(
            names=("--min-free",),
            value="SIZE",
            help="start no task with less than this free on the disk",
            detail="A size such as 5G, a share such as 5%, or 0.",
            parse=free_space,
            default=FreeSpace(),
            default_text="5G or 5%, the smaller one",
            example="--min-free 20G",
        ),
        STORE,
    ),
)
_BATCH_LIMITS: Final = FlagGroup(
    "limits of the whole batch",
    (
        Flag(
            names=("--max-cost",),
            value="USD",
            help="start nothing more at this cost in dollars",
            detail="What earlier runs of the batch have cost counts. Tasks that run then are stopped before their next request. "
            "A model without a known price needs --max-tokens as well.",
            parse=amount,
            example="--max-cost 25",
        ),
        Flag(
            names=("--max-tokens",),
            value="N",
            help="start nothing more after N tokens, input and output",
            detail="As with --max-cost, for all tasks together. A task may have limits of its own.",
            parse=whole(1),
            example="--max-tokens 40000000",
        ),
    ),
)
_PACE: Final = FlagGroup(
    "requests to model hosts",
    (
        Flag(
            names=("--reserve",),
            value="SHARE",
            help="keep this share of a host's limits for other users",
            detail="How many requests a host takes at once is found out: the number grows until it refuses one.",
            parse=share,
            default=0.0,
            default_text="0%",
            example="--reserve 20%",
        ),
        Flag(
            names=("--rpm",),
            value="N",
            help="send at most N requests a minute to a model",
            detail="With a store in PostgreSQL this holds for all engines that share it. So does --tpm.",
            parse=whole(1),
            example="--rpm 60",
        ),
        Flag(
            names=("--tpm",),
            value="N",
            help="use at most N tokens of a model a minute",
            detail="Prompts count when they are sent, answers when they are over; cached tokens count too.",
            parse=whole(1),
            example="--tpm 200000",
        ),
    ),
)
_DISPLAY: Final = FlagGroup(
    "display",
    (
        Flag(names=("--json",), help="print events, and how it ended, as lines of JSON"),
        Flag(names=("-q", "--quiet"), help="print nothing but how it ended, and errors"),
        COLOR,
    ),
)
_LIMITS: Final = FlagGroup(
    "limits of each task, sub-agents included",
    (
        *(flag for flag in LIMIT_FLAGS.flags if flag.name == "--max-steps"),
        Flag(
            names=("--timeout",),
            value="TIME",
            help="end a task's turn after this time, such as 90 or 10m",
            detail="It is a timeout then. A task may have a timeout of its own.",
            parse=time_span,
            example="--timeout 10m",
        ),
    ),
)

BATCH: Final = CommandSpec(
    name="batch",
    help=summary("batch"),
    description="Run many tasks, a few at once, each in a folder and a session of its own, and write a row for each attempt to a "
    "ledger. Ctrl-C ends it within seconds; the same command continues where it stopped. What the agent did is kept apart from "
    "faults of the infrastructure, which alone are retried.",
    run="engine.cli.batch.run_batch_command:main",
    subcommands=(MERGE,),
    arguments=(
        Argument(
            name="tasks",
            count="optional",
            help="a JSONL file, a task on each line; - is standard input",
            detail="A line is an object: prompt, or prompt_file; id; cwd, or repo and ref; in_place, model, agent, profile, limits, "
            "timeout, attempts, setup, check, env, output_schema, metadata.",
            completes="file",
        ),
    ),
    groups=(
        _TASKS,
        _RUN,
        PLACE_FLAGS,
        _FILES,
        _DISPLAY,
        _BATCH_LIMITS,
        _PACE,
        _LIMITS,
        PERMISSION_FLAGS,
        SANDBOX_FLAGS,
        MODEL_FLAGS,
    ),
    exit_codes={
        0: "all tasks are done, and none failed",
        1: "all are done, and some failed, were stopped or timed out",
        2: "wrong usage or configuration, or lines that are no tasks",
        3: "tasks are left without a result: faults of the infrastructure, or never started",
        74: "the output or the ledger can't be written",
        129: "SIGHUP: what ran was cancelled and saved",
        130: "Ctrl-C: what ran was cancelled and saved",
        143: "SIGTERM: what ran was cancelled and saved",
    },
    sample="tasks.jsonl",
    examples=(
        ('batch --task "say hello" --task "say goodbye" --scripted "Hello."', "try it, offline and without a key"),
        ("batch tasks.jsonl --jobs 8", "run the tasks of a file; the same again continues"),
        ("batch tasks.jsonl --retry failed", "run once more what failed its check"),
    ),
)
