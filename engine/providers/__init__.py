"""Model providers, and the facade for writing one.

`resolve` turns a model's name into a model. Folders, from the lowest up: `wire` (what all wire formats share), `hosts`,
`models`, `failures`, `auth`, `http`, one folder for each wire format, `local`.
"""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.llm_types import STREAM_EVENT_TYPES as STREAM_EVENT_TYPES
    from engine.core.llm_types import CacheLifetime as CacheLifetime
    from engine.core.llm_types import Cited as Cited
    from engine.core.llm_types import Effort as Effort
    from engine.core.llm_types import Finished as Finished
    from engine.core.llm_types import LongPrices as LongPrices
    from engine.core.llm_types import ModelInfo as ModelInfo
    from engine.core.llm_types import ModelOptions as ModelOptions
    from engine.core.llm_types import ModelRequest as ModelRequest
    from engine.core.llm_types import Ping as Ping
    from engine.core.llm_types import PrefixBroken as PrefixBroken
    from engine.core.llm_types import ProviderItem as ProviderItem
    from engine.core.llm_types import ReasoningChunk as ReasoningChunk
    from engine.core.llm_types import ReasoningDone as ReasoningDone
    from engine.core.llm_types import ReasoningStarted as ReasoningStarted
    from engine.core.llm_types import StreamEvent as StreamEvent
    from engine.core.llm_types import TextChunk as TextChunk
    from engine.core.llm_types import TextDone as TextDone
    from engine.core.llm_types import TextStarted as TextStarted
    from engine.core.llm_types import ToolCallChunk as ToolCallChunk
    from engine.core.llm_types import ToolCallDone as ToolCallDone
    from engine.core.llm_types import ToolCallStarted as ToolCallStarted
    from engine.core.llm_types import ToolChoice as ToolChoice
    from engine.core.llm_types import ToolSchema as ToolSchema
    from engine.core.llm_types import Unread as Unread
    from engine.core.llm_types import UsageReported as UsageReported
    from engine.core.protocols import Closeable as Closeable
    from engine.core.protocols import Model as Model
    from engine.core.protocols import ModelStream as ModelStream
    from engine.core.protocols import Served as Served
    from engine.providers.registry import ProviderModel as ProviderModel
    from engine.providers.registry import resolve as resolve
    from engine.providers.registry import unusable_reason as unusable_reason
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.llm_types": (
                "CacheLifetime Cited Effort Finished LongPrices ModelInfo ModelOptions ModelRequest Ping "
                "PrefixBroken ProviderItem ReasoningChunk ReasoningDone ReasoningStarted STREAM_EVENT_TYPES "
                "StreamEvent TextChunk TextDone TextStarted ToolCallChunk ToolCallDone ToolCallStarted "
                "ToolChoice ToolSchema Unread UsageReported"
            ),
            "engine.core.protocols": "Closeable Model ModelStream Served",
            "engine.providers.registry": "ProviderModel resolve unusable_reason",
        },
    )
