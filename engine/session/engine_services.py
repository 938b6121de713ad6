"""What an engine's sessions share: its set-up, and what it owns while it is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from engine.config.config import Config
from engine.core.hooks import Hooks
from engine.core.named_locks import Locks
from engine.core.permission_types import Approver, Opinion
from engine.core.protocols import ContextKeeper, Deps, IdSource, Model, Snapshots, Store, Trace, WallClock
from engine.core.value_base import Value
from engine.journal.span_port import NO_TELEMETRY, Telemetry
from engine.nursery.rate_limiter import Traffic
from engine.process.secret_names import SecretVariables
from engine.session.engine_options import Ports
from engine.session.engine_tasks import EngineTasks
from engine.session.model_cache import ResolvedModels
from engine.session.session_config import SessionConfig
from engine.session.session_watch import ChangeSignal
from engine.session.validation import ModelChoice
from engine.sources.running_source import RunningSource
from engine.sources.tool_deferral import ToolDeferral
from engine.store.adapter import StoreAdapter
from engine.tools.output.spill import SpillStore

if TYPE_CHECKING:
    from engine.session.engine_options import FolderSetup
    from engine.tools.edit.formatters import Diagnose
    from engine.tools.tool_context import EditDiagnostics
    from engine.tools.tool_source import ToolSource


@attrs.frozen(kw_only=True, eq=False, repr=False)
class EngineSetup(Value):
    """The arguments of `open_engine`, validated and completed.

    Attributes:
        defaults: the configuration of a session without options of its own.
        hooks: for all sessions.
        place: the store, or where to open one.
        is_kept: whether the store outlives the engine.
        diagnostics: the host's check of each file that a tool changes; None: there is none.
        secrets: the variables that processes of tools do not get.
        title_model: gives sessions their titles; None: they have none.
        jitter: random fractions for retry delays.
        sources: of tools that come and go, for all sessions.
        configure: returns what the sessions of a folder have instead; it blocks. None: nothing.
        telemetry: makes spans of what the sessions do.
        ports: for the pace of requests, and the limit for all turns together.
    """

    config: Config
    defaults: SessionConfig
    hooks: Hooks
    approver: Approver
    opinion: Opinion | None
    place: Store | str = attrs.field(repr=False)  # a URL may hold a password
    is_kept: bool
    spills: SpillStore
    keeper: ContextKeeper
    snapshots: Snapshots | None
    clock: WallClock
    ids: IdSource
    trace: Trace
    jitter: Callable[[], float]
    diagnostics: Diagnose | EditDiagnostics | None
    secrets: SecretVariables
    title_model: ModelChoice | None
    sources: tuple[ToolSource, ...] = ()
    configure: Callable[[str], FolderSetup | None] | None = None
    telemetry: Telemetry = NO_TELEMETRY
    ports: Ports = Ports()


@attrs.define(eq=False, repr=False)
class EngineServices:
    """What the sessions of an engine share.

    Attributes:
        titler: the model that gives titles; None: sessions have none.
        store: set when the engine is opened.
        sources: of tools, at work once the engine is open.
    """

    setup: EngineSetup
    tasks: EngineTasks = attrs.field(factory=EngineTasks, init=False)
    locks: Locks = attrs.field(factory=Locks, init=False)
    traffic: Traffic = attrs.field(init=False)
    deferral: ToolDeferral = attrs.field(factory=ToolDeferral, init=False)
    changes: ChangeSignal = attrs.field(factory=ChangeSignal, init=False)
    models: ResolvedModels = attrs.field(init=False)
    titler: Model | None = attrs.field(default=None, init=False)
    store: StoreAdapter = attrs.field(init=False)
    sources: tuple[RunningSource, ...] = attrs.field(default=(), init=False)

    # Set later, since opening a store is a checkpoint: models may be used before, the store may not.
    def __attrs_post_init__(self) -> None:
        self.models = ResolvedModels(self.setup.config)
        self.traffic = Traffic(self.setup.ports.pace, self.setup.clock.now)

    def resolve_models(self) -> None:
        """Resolve the models of the set-up, so that a wrong name is reported before any work is done.

        Not a checkpoint.
        """
        # Resolving makes no request. Otherwise a wrong name would surface in the first turn, after the user has typed a
        # prompt.
        self.models.models_of(self.setup.defaults.choices)
        if self.setup.title_model is not None:
            self.titler = self.models.models_of((self.setup.title_model,))[0]
        _ = self.models.summariser

    def deps(self, config: SessionConfig) -> Deps:
        """Return the ports of a session. Not a checkpoint."""
        setup = self.setup
        return Deps(
            models=self.models.models_of(config.choices, config.folder_config),
            store=self.store.store,
            approver=setup.approver,
            keeper=setup.keeper,
            clock=setup.clock,
            ids=setup.ids,
            trace=setup.trace,
            locks=self.locks,
            opinion=setup.opinion,
            summariser=self.models.summariser,
            snapshots=setup.snapshots,
        )
