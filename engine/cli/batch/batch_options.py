"""The parsed command line of `engine batch`, and what names its configuration."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from engine.batch.batch_scheduler import BatchOptions
from engine.batch.batch_status import Keep
from engine.batch.batch_summary import SUMMARY_NAME
from engine.batch.batch_task import BadLine, BatchTask, short_hash
from engine.batch.disk_space import DiskGate
from engine.batch.result_ledger import LEDGER_NAME
from engine.batch.shard import Shard
from engine.batch.task_fields import BadTask, TaskSource, parse_task
from engine.batch.task_file import TaskList
from engine.cli.batch.task_formats import STDIN, read_formatted_tasks
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags.model_flags import ModelChoice
from engine.cli.flags.permission_flags import PermissionChoice, permission_choice
from engine.config.config import Config, ModelConfig
from engine.core.errors import ConfigError
from engine.core.settings import Settings
from engine.nursery.budget import SpendingLimit
from engine.permission.rules.profiles import DEFAULT

_UNNAMED: Final = "batch"
_MAX_NAME_CHARS: Final = 100
_JOBS: Final = 4


@attrs.frozen(kw_only=True, eq=False)
class BatchCommand:
    """The parsed command line.

    Attributes:
        args: the flags.
        permissions: what the flags say about permissions.
        name: the batch's.
        results: the folder of the ledger.
    """

    args: argparse.Namespace
    permissions: PermissionChoice
    name: str
    results: Path

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> BatchCommand:
        """Parse *arguments*. Raises `ConfigError`, or `SystemExit` after the help was printed."""
        args = parse_arguments("batch", arguments)
        if (args.tasks is None) == (not args.task):
            raise ConfigError("name a file of tasks, or give tasks with --task\nNext: engine batch --help")
        source = args.tasks if args.tasks not in (None, STDIN) else _UNNAMED
        name = args.name or Path(source).absolute().name.removesuffix(".jsonl")
        if not name.isprintable() or not 0 < len(name) <= _MAX_NAME_CHARS:
            raise ConfigError(
                f"the name of a batch has 1 to {_MAX_NAME_CHARS} printable characters\nNext: use --name NAME"
            )
        results = args.results_dir or Path(f"{Path(name).name}.results")
        # The folder that the tasks are in counts for most flags of `engine run`; here each task has its own.
        args.cwd = Path.cwd()
        return cls(args=args, permissions=permission_choice(args), name=name, results=results.absolute())

    def read_tasks(self, config: Config) -> TaskList:
        """Read the tasks. It blocks. Raises `ConfigError` if there are none, `StoreError` if they can't be read."""
        path = self.args.tasks
        profile = self.permissions.profile or config.profile or DEFAULT
        is_file = path not in (None, STDIN)
        folder = Path(path).absolute().parent if is_file else Path.cwd()
        source = TaskSource(folder=folder, trusts=self.args.trust_tasks, profile=profile)
        if path is None:
            return _tasks_of_flags(self.args.task, source)
        return read_formatted_tasks(path, source, task_format=self.args.format, repositories=self.args.repos)

    @property
    def shard(self) -> Shard | None:
        """The part of the batch to run; None: all of it."""
        shard: Shard | None = self.args.shard
        return shard

    def options(self, config_hash: str, work: Path, spending: SpendingLimit | None = None) -> BatchOptions:
        """Return how the batch is run; *work* is where its folders are, *spending* the limit of all tasks."""
        args, shard = self.args, self.shard
        return BatchOptions(
            name=self.name,
            results=self.results,
            jobs=args.jobs or _JOBS,
            retry=args.retry,
            allow_changed=args.allow_changed,
            fresh=args.fresh,
            keep=cast("Keep", args.keep),
            retry_delay=args.retry_delay,
            config_hash=config_hash,
            shard="" if shard is None else str(shard),
            ledger_name=LEDGER_NAME if shard is None else shard.ledger_name,
            summary_name=SUMMARY_NAME if shard is None else shard.summary_name,
            gates=(DiskGate((work, self.results), args.min_free),),
            spending=spending,
        )


def _tasks_of_flags(prompts: Sequence[str], source: TaskSource) -> TaskList:
    tasks: list[BatchTask] = []
    bad: list[BadLine] = []
    for number, prompt in enumerate(prompts, 1):
        try:
            tasks.append(parse_task({"id": f"task-{number}", "prompt": prompt}, source, line=number))
        except BadTask as error:
            bad.append(BadLine(line=number, id=f"task-{number}", message=str(error)))
    return TaskList(tasks=tuple(tasks), bad=tuple(bad))


def config_hash_of(command: BatchCommand, choice: ModelChoice, settings: Settings) -> str:
    """Return what names the configuration under which results can be compared: model, agent, permissions, limits."""
    config, permissions = choice.config, command.permissions
    parts = {
        "models": choice.models,
        "model settings": [repr(config.models.get(model, ModelConfig())) for model in choice.models],
        "agent": (choice.agent, repr(config.agent(choice.agent))),
        "options": repr(choice.options),
        "profile": permissions.profile or config.profile,
        "rules": [f"{rule.action} {rule.permission} {rule.pattern}" for rule in permissions.rules],
        "unattended": permissions.unattended,
        "sandbox": repr(permissions.box(config)),
        "limits": repr(settings.limits),
        "timeout": command.args.timeout,
        "scripted": command.args.scripted,
    }
    return short_hash(json.dumps(parts, sort_keys=True, default=str))
