"""The engine of a batch, as the flags and the configuration have it: here, or in a process that gets the same flags."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

from engine.batch.attempt_run import LocalWorld
from engine.batch.batch_task import BadLine, BatchTask
from engine.batch.local_runner import LocalRunner
from engine.batch.task_file import TaskList
from engine.batch.work_folder import WorkFolders
from engine.cli.batch.batch_options import BatchCommand, config_hash_of
from engine.cli.default_tools import default_tools, edit_diagnostics, knowledge_for, tool_sources
from engine.cli.export_telemetry import command_telemetry
from engine.cli.flags.limit_flags import has_price, headless_limits
from engine.cli.flags.model_flags import ModelChoice, model_choice
from engine.cli.flags.store_flags import open_store, resolve_store
from engine.cli.folder_settings import FolderSettings
from engine.cli.plugin_code import package_hooks
from engine.core.errors import ConfigError
from engine.core.settings import Limits, RetryPolicy, Settings
from engine.nursery.budget import SpendingLimit
from engine.pace.leased_pace import LeasedPace, PermitOffice
from engine.pace.local_pace import LocalPace
from engine.pace.pace_port import LaneStatus
from engine.pace.postgres_pace import postgres_pace
from engine.process.own_environment import hide_own_secrets
from engine.process.secret_names import SecretVariables
from engine.session.engine import open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.open_store import DATABASES
from engine.session.validation import secrets_of

if TYPE_CHECKING:
    from engine.core.protocols import Model

# Seconds. No user waits for a single answer; the next attempt can come later, and in another order.
_MAX_WAIT: Final = 300.0
_SCRIPTED_MODEL: Final = "anthropic/claude-sonnet-4-5"


class BatchEngine:
    """What the flags and the configuration say. Making it blocks, and raises `ConfigError`.

    Attributes:
        command: the command line.
        model: the models.
        settings: of all turns.
        place: the store's location.
        spending: the limit of all tasks together; None: there is none.
        config_hash: what names the configuration.
        permit_office: grants permits for requests to all processes of the batch; None: there is only this one.
    """

    def __init__(self, command: BatchCommand) -> None:
        """Read the configuration."""
        args = command.args
        self.command = command
        self.permit_office: PermitOffice | None = None
        self._pace: LocalPace | LeasedPace | None = None
        self._folders = FolderSettings(args, command.permissions)
        config = self._folders.config(args.cwd)
        self._layers = self._folders.layers(config)
        self.place: str = resolve_store(args)
        self.secrets: SecretVariables = secrets_of(config)
        self.model: ModelChoice = model_choice(args, config)
        self.settings: Settings = self._settings()
        self.spending: SpendingLimit | None = self._spending()
        self.config_hash: str = config_hash_of(command, self.model, self.settings)
        self._tools = default_tools(config.sandbox, knowledge_for(config), self._layers, args.cwd, config.all_agents)

    def prepare_process(self) -> None:
        """Hide the secrets of this process from the commands that the model runs. Once, outside of Trio."""
        hide_own_secrets(self.secrets)

    def read_tasks(self) -> TaskList:
        """Read the tasks, and check the models and agents that they name. It blocks. Raises `ConfigError`."""
        found = self.command.read_tasks(self.model.config)
        timeout = self.command.args.timeout
        problems: dict[tuple[str, str], str] = {}
        tasks: list[BatchTask] = []
        bad = list(found.bad)
        for task in found.tasks:
            names = task.model, task.agent
            if names not in problems:
                problems[names] = self._problem(task)
            if problems[names]:
                bad.append(BadLine(line=task.line, id=task.id, message=problems[names]))
            else:
                tasks.append(attrs.evolve(task, timeout=task.timeout or timeout))
        self._check_prices(task.model for task in tasks)
        return TaskList(tasks=tuple(tasks), bad=tuple(sorted(bad, key=lambda line: line.line)))

    def _check_prices(self, models: Iterable[str]) -> None:
        """Raise `ConfigError` if a limit of money can't hold, and no other one would."""
        args, config = self.command.args, self.model.config
        if args.max_cost is None or args.max_tokens is not None or args.scripted is not None:
            return
        others = (config.compaction.model, *(agent.model for agent in config.all_agents.values()))
        for model in dict.fromkeys((*self.model.models, *models, *others)):
            if model and not has_price(model, config):
                raise ConfigError(
                    f"the cost of {model} is unknown, so --max-cost alone can't limit it\n"
                    f"Next: add --max-tokens N, or a price: -c 'models.\"{model}\".prices={{input=1.0,output=4.0}}'"
                )

    def _spending(self) -> SpendingLimit | None:
        args = self.command.args
        if args.max_cost is None and args.max_tokens is None:
            return None
        return SpendingLimit(cost=args.max_cost, tokens=args.max_tokens)

    def pace_status(self) -> Sequence[LaneStatus]:
        """Return the pace at each host; nothing before the engine is open, and of engines in other processes."""
        return () if self._pace is None else self._pace.status()

    def _open_pace(self) -> LocalPace | LeasedPace:
        """Return the pace of requests: shared by all engines with the database, or else of this process."""
        args = self.command.args
        if self.place.startswith(DATABASES):
            return postgres_pace(self.place, reserve=args.reserve, requests_minute=args.rpm, tokens_minute=args.tpm)
        make = LocalPace if self.permit_office is None else partial(LeasedPace, self.permit_office)
        return make(reserve=args.reserve, requests_minute=args.rpm, tokens_minute=args.tpm)

    def _problem(self, task: BatchTask) -> str:
        """Return why a task's model or agent can't be used; empty: it can, or there is none."""
        config = self.model.config
        if task.model and self.command.args.scripted is not None:
            return "model: with --scripted, no task has a model of its own"
        try:
            if task.agent:
                config.check_primary(task.agent)
            if task.model:
                # Imported here: few tasks have one.
                from engine.providers.registry import split_name

                split_name(task.model, config)
        except ConfigError as error:
            return str(error).splitlines()[0]
        return ""

    def _settings(self) -> Settings:
        args, config = self.command.args, self.model.config
        defaults = config.defaults
        limits = Limits(
            steps=args.max_steps or defaults.max_steps,
            tokens=defaults.max_tokens,
            cost=defaults.max_cost,
            seconds=defaults.max_seconds,
        )
        return Settings(
            limits=headless_limits(limits, config),
            retry=RetryPolicy(longest=_MAX_WAIT, total=_MAX_WAIT, silence=_MAX_WAIT),
            headless=self.command.permissions.unattended,
            on_exhausted="stop",
            options=self.model.options,
            # A turn that waited for an answer would wait for ever.
            park=False,
        )

    @asynccontextmanager
    async def open_runner(self, work: Path) -> AsyncGenerator[LocalRunner]:
        """Open the engine, and yield what runs attempts in it. A checkpoint. Raises `ConfigError`, `StoreError`.

        Args:
            work: where the folders of tasks are made.
        """
        config = self.model.config
        async with AsyncExitStack() as stack:
            models: tuple[str | Model, ...] = self.model.models
            if self.command.args.scripted is not None:
                models = (await stack.enter_async_context(scripted_model(self.command.args.scripted)),)
            store = await stack.enter_async_context(open_store(self.place))
            telemetry = await stack.enter_async_context(command_telemetry(config))
            self._pace = self._open_pace()
            eng = await stack.enter_async_context(
                open_engine(
                    model=models,
                    config=config,
                    tools=self._tools,
                    settings=self.settings,
                    permissions=PermissionOptions(approver=self._folders.policy),
                    store=store,
                    context=ContextOptions(prompt=self._layers),
                    ports=Ports(
                        sources=tool_sources(config, trusts=self._folders.trusts),
                        configure=self._folders.setup,
                        telemetry=telemetry,
                        pace=self._pace,
                        spending=self.spending,
                    ),
                    hooks=package_hooks(config),
                    # No snapshots: a patch says what was changed, and the folder goes.
                    files=FileOptions(diagnostics=edit_diagnostics(config)),
                )
            )
            yield LocalRunner(
                LocalWorld(eng=eng, folders=WorkFolders(work), settings=self.settings, secrets=self.secrets)
            )


@asynccontextmanager
async def scripted_model(text: str) -> AsyncGenerator[Model]:
    """Yield a model that answers each request with *text*: a real connection to a server on this machine. A checkpoint."""
    # Imported here: it is to try the command without a key.
    from engine.providers.registry import resolve
    from engine.testing.http_server import ScriptedServer
    from engine.testing.script import done
    from engine.testing.script import text as text_block

    server = ScriptedServer(lambda _request: [*text_block(text), *done()])
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        async with aclosing(
            resolve(_SCRIPTED_MODEL, {"ANTHROPIC_API_KEY": "none-is-needed", "ANTHROPIC_BASE_URL": url})
        ) as model:
            yield model
        nursery.cancel_scope.cancel(reason="the batch is over")
