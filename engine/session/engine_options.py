"""What `open_engine` takes in groups: permissions, context, files and ports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from engine.core.permission_types import Approver, Opinion
from engine.core.protocols import ContextKeeper, IdSource, Model, Snapshots, Trace, WallClock

if TYPE_CHECKING:
    from engine.prompt.layers import PromptLayers
    from engine.tools.edit.formatters import Diagnose


@attrs.frozen(kw_only=True)
class PermissionOptions:
    """What tools may do without asking.

    Attributes:
        profile: what may be done where no rule says otherwise: `"ask"` (reading the project is free, all else is asked
            about), `"auto-edit"`, `"read-only"` or `"full"`. None: the one that the configuration picks.
        rules: of the host's own, such as `"deny bash git push *"`; they come after those of the configuration.
        approver: judges instead of profile and rules.
        opinion: asked before the user is: it may answer in the user's place, and overrules no rule.
    """

    profile: str | None = None
    rules: Iterable[str] = ()
    approver: Approver | None = None
    opinion: Opinion | None = None


@attrs.frozen(kw_only=True)
class ContextOptions:
    """What requests hold besides the conversation, and what happens when that outgrows the window.

    Attributes:
        prompt: the layers that requests begin with: a prompt for the model's family, the environment, instruction files,
            skills. None: they begin with `settings.system`, and nothing else.
        keeper: keeps the transcript inside the window; by default old results are cleared, then what is old is summarised
            (`engine.compaction.manager.Keeper`).
        titles: a small model that gives each session a title, once its first step is over. None: the one that the
            configuration names, if it names one.
    """

    prompt: PromptLayers | None = None
    keeper: ContextKeeper | None = None
    titles: str | Model | None = None


@attrs.frozen(kw_only=True)
class FileOptions:
    """What the engine does with files besides the tools' own work.

    Attributes:
        snapshots: records a project's files around what a turn changes, so that `session.files.undo` can restore them:
            `engine.snapshots.project_snapshots.ProjectSnapshots()`. None: only the conversation can be undone.
        spill: the folder for outputs that are too long to be shown; by default one in the user's cache.
            `os.devnull`: they are not kept.
        diagnostics: asked about each file that a tool has changed, after the checkers of the configuration;
            what it returns goes to the model with the result. A language server's diagnostics, say.
    """

    snapshots: Snapshots | None = None
    spill: str | os.PathLike[str] | None = None
    diagnostics: Diagnose | None = None


@attrs.frozen(kw_only=True)
class Ports:
    """The world of an engine, mostly for tests.

    Attributes:
        clock: the time that people read.
        ids: makes identifiers.
        trace: sees inner points.
        jitter: random fractions for retry delays.
    """

    clock: WallClock | None = None
    ids: IdSource | None = None
    trace: Trace | None = None
    jitter: Callable[[], float] | None = None
