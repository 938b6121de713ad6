"""Flags of `engine batch` that say where its attempts run, and `engine batch merge`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from engine.batch.shard import Shard
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.server_commands import memory_size

_MOST_CPUS: Final = 10_000


def cluster(text: str) -> str:
    """Parse `ray` or `ray:ADDRESS`. For `parse=`."""
    name, colon, address = text.partition(":")
    if name != "ray" or (colon and not address.strip()):
        raise argparse.ArgumentTypeError("must be ray, or ray: and an address")
    return text


def cpu_share(text: str) -> float:
    """Parse a number of CPUs, such as 2 or 0.5. For `parse=`."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # Ray takes fractions of one CPU, and only whole numbers above it.
    if not (0.01 <= value < 1 or (value.is_integer() and 1 <= value <= _MOST_CPUS)):
        raise argparse.ArgumentTypeError(f"must be a whole number, or a share between 0.01 and 1, not {text!r}")
    return value


def shard(text: str) -> Shard:
    """Parse the part of a batch, such as 2/8. For `parse=`."""
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, not {text!r}") from error


PLACE_FLAGS: Final = FlagGroup(
    "where",
    (
        Flag(
            names=("--on",),
            value="ray[:ADDRESS]",
            help="run attempts on a Ray cluster (extra ray)",
            detail="Without an address: the cluster of $RAY_ADDRESS or of this machine, or else a new one here, which ray:local "
            "always starts. Attempts continue on other machines only if --store is a database.",
            parse=cluster,
            example="--on ray",
        ),
        Flag(
            names=("--cpus",),
            value="N",
            help="reserve so many CPUs of the cluster for each attempt",
            parse=cpu_share,
            default=1.0,
            default_text="1",
            example="--on ray --cpus 2",
        ),
        Flag(
            names=("--memory",),
            value="SIZE",
            help="reserve so much memory of the cluster for each attempt",
            parse=memory_size,
            default=0,
            default_text="none is reserved",
            example="--on ray --memory 4G",
        ),
        Flag(
            names=("--shard",),
            value="I/N",
            help="run only the part I of N, with a ledger of its own",
            detail="For jobs of Kubernetes or Slurm: the same command with another I in each, and engine batch merge at the end.",
            parse=shard,
            example="--shard 1/8",
        ),
    ),
)

MERGE: Final = CommandSpec(
    name="batch merge",
    help="merge the ledgers of all shards into one",
    description="Write results.jsonl and summary.json of a batch whose shards have run by themselves. The ledgers of the shards "
    "are only read, so it can be run at any time, and again.",
    run="engine.cli.batch.merge_command:main",
    arguments=(
        Argument(
            name="folders",
            label="DIR",
            count="some",
            help="the folder of the shards' results, or one of each",
            completes="directory",
        ),
    ),
    groups=(
        FlagGroup(
            "flags",
            (
                Flag(
                    names=("--results-dir",),
                    value="DIR",
                    help="write the merged ledger here",
                    detail="With the patches, outputs, logs and sessions that its rows name.",
                    default_text="the first folder",
                    parse=Path,
                    example="--results-dir merged",
                    completes="directory",
                ),
                Flag(
                    names=("--allow-changed",),
                    help="mix results of different configurations",
                ),
            ),
        ),
    ),
    exit_codes={
        0: "all tasks of all shards are done, and none failed",
        1: "all are done, and some failed, were stopped or timed out",
        2: "wrong usage, lines that are no tasks, or ledgers that do not belong together",
        3: "tasks are left without a result, or shards have no ledger yet",
        74: "a file can't be read or written",
    },
    sample="results",
    examples=(("batch merge results", "merge the ledgers of the shards in results"),),
)
