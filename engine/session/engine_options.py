"""The grouped arguments of `open_engine`: permissions, context, files and ports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from engine.core.errors import ConfigError
from engine.core.permission_types import Approver, Opinion
from engine.core.protocols import ContextKeeper, IdSource, Model, Snapshots, Trace, WallClock
from engine.core.value_base import Value
from engine.journal.span_port import Telemetry

if TYPE_CHECKING:
    from engine.config.config import Config
    from engine.nursery.budget import SpendingLimit
    from engine.pace.pace_port import Pace
    from engine.prompt.layers import PromptLayers
    from engine.tools.edit.formatters import Diagnose
    from engine.tools.tool import Tool
    from engine.tools.tool_context import EditDiagnostics
    from engine.tools.tool_source import ToolSource


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionOptions(Value):
    """What tools may do without asking.

    Attributes:
        profile: the verdict where no rule matches: `"ask"` (read the project freely, ask for everything else),
            `"auto-edit"`, `"read-only"` or `"full"`. None: the configured one.
        rules: the host's rules, such as `"deny bash git push *"`; they come after the configured ones.
        approver: decides instead of the profile and the rules.
        opinion: asked before the user: it may answer in the user's place, but overrules no rule.
    """

    profile: str | None = None
    rules: Iterable[str] = ()
    approver: Approver | None = None
    opinion: Opinion | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ContextOptions(Value):
    """What requests contain besides the conversation, and what happens when the conversation outgrows the window.

    Attributes:
        prompt: the layers at the start of each request: a prompt for the model's family, the environment, instruction
            files, skills. None: only `settings.system`.
        keeper: keeps the transcript within the window; by default old results are cleared first, then old messages are
            summarised (`engine.compaction.Keeper`).
        titles: a small model that gives each session a title after its first step. None: the configured one, if there
            is one.
    """

    prompt: PromptLayers | None = None
    keeper: ContextKeeper | None = None
    titles: str | Model | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FileOptions(Value):
    """What the engine does with files, apart from the tools' own work.

    Attributes:
        snapshots: records the project's files before and after a turn's changes, so that `session.files.undo` can
            restore them: `engine.snapshots.ProjectSnapshots()`. None: only the conversation can be undone.
        spill: the folder for outputs that are too long for the model; by default one in the user's cache. `os.devnull`:
            they are not kept.
        diagnostics: called for each file that a tool has changed, after the configured checkers; what it returns goes
            to the model with the result. Or an object that works while the engine is open, and checks all files of an
            edit at once: `engine.language_servers.LanguageServers`.
    """

    snapshots: Snapshots | None = None
    spill: str | os.PathLike[str] | None = None
    diagnostics: Diagnose | EditDiagnostics | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FolderSetup(Value):
    """What sessions of one folder have instead of the engine's own: the settings of a project, say.

    Sub-agents have what their session has.

    Attributes:
        config: its agents, formatters, checkers and further names of models (`same_as`) count, and its sandbox confines
            formatters and checkers; hosts, hooks, defaults and MCP servers stay the engine's.
        tools: what the model may call; None: the engine's.
        prompt: the layers at the start of each request; None: the engine's.
        profile: the permission profile, which a session may replace as it may replace the engine's; None: the engine's.
    """

    config: Config
    tools: Iterable[Tool] | None = None
    prompt: PromptLayers | None = None
    profile: str | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Ports(Value):
    """An engine's connections to the outside world, replaced mostly in tests.

    Attributes:
        clock: the wall clock.
        ids: makes identifiers.
        trace: called at internal trace points.
        jitter: random fractions for retry delays.
        sources: of tools that come and go while the engine runs, for all sessions.
        configure: called with the folder of each session that is created, opened or forked, in a thread; what it raises,
            that call raises. None, or where it returns None: the session has what the engine has.
        telemetry: makes spans and metrics of what sessions do: `engine.telemetry.telemetry(…)`. None: nothing is made.
        pace: lets requests go to model hosts as they can take them: `engine.pace.LocalPace()`. None: they go at once.
        spending: a limit for all turns together, which engines may share. None: each turn has only its own.
    """

    clock: WallClock | None = None
    ids: IdSource | None = None
    trace: Trace | None = None
    jitter: Callable[[], float] | None = None
    sources: Iterable[ToolSource] = ()
    configure: Callable[[str], FolderSetup | None] | None = None
    telemetry: Telemetry | None = None
    pace: Pace | None = None
    spending: SpendingLimit | None = None

    def __attrs_post_init__(self) -> None:
        if self.pace is not None and (not hasattr(self.pace, "acquire") or isinstance(self.pace, type)):
            raise ConfigError(
                f"pace must be an object with acquire, such as engine.pace.LocalPace(), not {self.pace!r}"
            )
        if self.spending is not None and not hasattr(self.spending, "total_cost"):
            raise ConfigError(f"spending must be a SpendingLimit, not {self.spending!r}")
