"""An engine's models: each name is resolved once, and the model is closed with the engine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from engine.config.config import Config
from engine.core.exception_groups import public
from engine.core.protocols import Closeable, Learning, Model, Served
from engine.session.validation import ModelChoice, select_models

if TYPE_CHECKING:
    from engine.session.engine_tasks import EngineTasks


@attrs.define(eq=False, repr=False)
class ResolvedModels:
    """The models that were resolved by name."""

    _config: Config
    # By name and `same_as`, which a folder's configuration may set for a name of its own.
    _models: dict[tuple[str, str | None], Model] = attrs.field(factory=dict[tuple[str, str | None], Model], init=False)
    _mentioned: set[str] = attrs.field(factory=set[str], init=False)
    _tasks: EngineTasks | None = attrs.field(default=None, init=False)

    def serve_with(self, tasks: EngineTasks) -> None:
        """Run what models need in the background (a local server, say) as tasks of the engine. Not a checkpoint."""
        self._tasks = tasks
        for model in self._models.values():
            self._serve(model)

    def choices_of(self, model: ModelChoice | Sequence[ModelChoice]) -> tuple[ModelChoice, ...]:
        """Return a host's choice of models as a chain. Raises `ConfigError`. Not a checkpoint."""
        return select_models(model, self._config)

    def models_of(self, choices: Iterable[ModelChoice], folder: Config | None = None) -> tuple[Model, ...]:
        """Return the models of a chain, each name resolved once. Raises `ConfigError`. Not a checkpoint.

        The configuration of a *folder* may have names of its own.
        """
        config = self._config
        if folder is not None and folder.models != config.models:
            config = attrs.evolve(config, models=folder.models)
        return tuple(self._model(choice, config) for choice in choices)

    @property
    def summariser(self) -> Model | None:
        """The model configured to write summaries; None: each session's own model. Raises `ConfigError`."""
        named = self._config.compaction.model
        return None if named is None else self._model(named, self._config)

    def is_first_mention(self, model: str) -> bool:
        """Return whether this is the first call for *model*. Not a checkpoint."""
        is_first = model not in self._mentioned
        self._mentioned.add(model)
        return is_first

    async def learn(self, models: Iterable[Model]) -> None:
        """Ask model servers on this machine about their models, concurrently.

        Always a checkpoint; takes at most two seconds.
        """
        failure: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                for model in models:
                    if isinstance(model, Learning):
                        nursery.start_soon(model.learn)
        except BaseExceptionGroup as group:
            # Hosts await this, so a cancel must be a single `Cancelled`, not a group.
            failure = public(group)
        if failure is not None:
            raise failure

    @property
    def closeable(self) -> tuple[Closeable, ...]:
        """The resolved models, which hold connections; a host's own `Model` is closed by the host."""
        return tuple(model for model in self._models.values() if isinstance(model, Closeable))

    def _model(self, choice: ModelChoice, config: Config) -> Model:
        # A host's own `Model` is used as it is, and never closed or served here.
        if not isinstance(choice, str):
            return choice
        key = choice, config.models[choice].same_as if choice in config.models else None
        if key not in self._models:
            # Imported here: loading a provider takes time, and a host may bring its own.
            from engine.providers.registry import resolve

            # By name, so that sessions share a model and its connections.
            self._models[key] = resolve(choice, os.environ, config)
            self._serve(self._models[key])
        return self._models[key]

    def _serve(self, model: Model) -> None:
        if self._tasks is not None and isinstance(model, Served):
            self._tasks.start(model.serve, name=f"model {model.info.name}")
