"""engine: a coding-agent engine for Trio. You may cancel it at any instant.

The names here are all that a host needs; they are loaded at first use, so that
`import engine` costs next to nothing.
"""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.errors import EngineError as EngineError
    from engine.core.events import CallSettled as CallSettled
    from engine.core.events import CallStarted as CallStarted
    from engine.core.events import Notice as Notice
    from engine.core.events import PermissionAsked as PermissionAsked
    from engine.core.events import RecoveryAsked as RecoveryAsked
    from engine.core.events import TextDelta as TextDelta
    from engine.core.events import TurnEnded as TurnEnded
    from engine.core.events import TurnResult as TurnResult
    from engine.core.hooks import Hooks as Hooks
    from engine.core.schema import doc as doc
    from engine.core.settings import Limits as Limits
    from engine.core.settings import Settings as Settings
    from engine.core.version import __version__ as __version__
    from engine.session.answer_types import Always as Always
    from engine.session.answer_types import Once as Once
    from engine.session.answer_types import Reject as Reject
    from engine.session.attachments import attach as attach
    from engine.session.engine import Engine as Engine
    from engine.session.engine import open_engine as open_engine
    from engine.session.session import Session as Session
    from engine.session.turn import Turn as Turn
    from engine.tools.call_values import ToolOutput as ToolOutput
    from engine.tools.tool import tool as tool
    from engine.tools.tool_context import ToolContext as ToolContext
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.errors": "EngineError",
            "engine.core.events": (
                "CallSettled CallStarted Notice PermissionAsked RecoveryAsked TextDelta TurnEnded TurnResult"
            ),
            "engine.core.hooks": "Hooks",
            "engine.core.schema": "doc",
            "engine.core.settings": "Limits Settings",
            "engine.core.version": "__version__",
            "engine.session.answer_types": "Always Once Reject",
            "engine.session.attachments": "attach",
            "engine.session.engine": "Engine open_engine",
            "engine.session.session": "Session",
            "engine.session.turn": "Turn",
            "engine.tools.call_values": "ToolOutput",
            "engine.tools.tool": "tool",
            "engine.tools.tool_context": "ToolContext",
        },
    )
