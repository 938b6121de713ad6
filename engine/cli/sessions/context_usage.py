"""Report what fills a session's context window, from its record alone: another process may have the session open."""

from __future__ import annotations

from engine.cli.default_tools import default_tools
from engine.compaction.compaction_policy import Keeper
from engine.config.config import Config
from engine.core.context_report import ContextReport
from engine.core.llm_types import ModelInfo
from engine.core.settings import Settings
from engine.journal.state import SessionState
from engine.nursery.apply_compaction import view_from
from engine.nursery.loop_state import LoopState
from engine.tools.registry import Registry


def context_report(state: SessionState, config: Config, *, model: str | None = None) -> ContextReport:
    """Return what fills the window, with the tools of `engine run`. It blocks. Raises `ConfigError`.

    *model* is the model whose window counts; None: the session's own, even if it can't be used here.
    """
    view = view_from(
        state,
        _info(model or state.model, config, is_explicit=model is not None),
        Registry.of(default_tools(agents=config.all_agents)),
        loop=LoopState(settings=Settings()),
        hidden=frozenset(),
        system="" if state.prompt is None else state.prompt.text,
        counted=None,
    )
    keeper = Keeper(reserve=config.compaction.reserve)
    return keeper.report(view, () if state.prompt is None else state.prompt.sections)


def _info(name: str, config: Config, *, is_explicit: bool) -> ModelInfo:
    """Return the limits of a model. Raises `UnknownModel`."""
    # Imported here: the catalogue of models is large.
    from engine.providers.hosts.host_table import BY_NAME
    from engine.providers.models.catalog import info_of
    from engine.providers.registry import split_name

    if name.startswith("local:"):
        return info_of(name, BY_NAME["llamacpp"], config)
    if is_explicit:
        split_name(name, config)  # not for the session's own model: its host may no longer be configured
    return info_of(name, config=config)
