"""Compaction: keep the history within the model's context window, by clearing old results and by summaries."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.compaction.compaction_policy import Keeper as Keeper
    from engine.compaction.compaction_policy import NoKeeper as NoKeeper
    from engine.compaction.summary_prompt import SECTIONS as SECTIONS
    from engine.core.compaction_types import Compaction as Compaction
    from engine.core.compaction_types import CompactionRequest as CompactionRequest
    from engine.core.compaction_types import ModelReply as ModelReply
    from engine.core.compaction_types import NotCompacted as NotCompacted
    from engine.core.compaction_types import Summariser as Summariser
    from engine.core.context_report import ContextReport as ContextReport
    from engine.core.context_report import Share as Share
    from engine.core.protocols import ContextKeeper as ContextKeeper
    from engine.core.protocols import ContextView as ContextView
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.compaction.compaction_policy": "Keeper NoKeeper",
            "engine.compaction.summary_prompt": "SECTIONS",
            "engine.core.compaction_types": "Compaction CompactionRequest ModelReply NotCompacted Summariser",
            "engine.core.context_report": "ContextReport Share",
            "engine.core.protocols": "ContextKeeper ContextView",
        },
    )
