"""What fills the window of a session, from its record alone: it may be at work in another engine meanwhile."""

from __future__ import annotations

from engine.cli.default_tools import offered_tools
from engine.compaction.manager import Keeper
from engine.config.config import Config
from engine.core.context_report import ContextReport
from engine.core.llm_types import ModelInfo
from engine.core.settings import Settings
from engine.core.state import SessionState
from engine.nursery.context_window import view_from
from engine.nursery.transition import LoopState
from engine.tools.registry import Registry


def filling(state: SessionState, config: Config, *, model: str | None = None) -> ContextReport:
    """Return what fills the window, with the tools of `engine run`. It blocks.

    *model*: in whose window; None: the session's, which need not be one that can be asked from here. Raises `ConfigError`.
    """
    view = view_from(
        state,
        _info(model or state.model, config, is_asked=model is not None),
        Registry.of(offered_tools(agents=config.all_agents)),
        loop=LoopState(settings=Settings()),
        hidden=frozenset(),
        system="" if state.prompt is None else state.prompt.text,
        counted=None,
    )
    keeper = Keeper(reserve=config.compaction.reserve)
    return keeper.report(view, () if state.prompt is None else state.prompt.sections)


def _info(name: str, config: Config, *, is_asked: bool) -> ModelInfo:
    """Return the limits of a model. Raises `UnknownModel`."""
    # Imported here: nothing else looks into the catalogue without a provider.
    from engine.providers.hosts.table import BY_NAME
    from engine.providers.models.catalog import info_of
    from engine.providers.registry import split_name

    if name.startswith("local:"):
        return info_of(name, BY_NAME["llamacpp"], config)
    if is_asked:
        split_name(name, config)  # a session's own may be of a host that is gone
    return info_of(name, config=config)
