"""engine: a coding-agent engine for Trio. You may cancel it at any instant.

The names here are all that a host needs; they are loaded at first use, so that
`import engine` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.version import __version__

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
    from engine.session.answers import Always as Always
    from engine.session.answers import Once as Once
    from engine.session.answers import Reject as Reject
    from engine.session.attachments import attach as attach
    from engine.session.engine import Engine as Engine
    from engine.session.engine import open_engine as open_engine
    from engine.session.session import Session as Session
    from engine.session.turn import Turn as Turn
    from engine.tools.call_values import ToolOutput as ToolOutput
    from engine.tools.context import ToolContext as ToolContext
    from engine.tools.tool import tool as tool

_HOMES = {
    "Always": "engine.session.answers",
    "CallSettled": "engine.core.events",
    "CallStarted": "engine.core.events",
    "Engine": "engine.session.engine",
    "EngineError": "engine.core.errors",
    "Hooks": "engine.core.hooks",
    "Limits": "engine.core.settings",
    "Notice": "engine.core.events",
    "Once": "engine.session.answers",
    "PermissionAsked": "engine.core.events",
    "RecoveryAsked": "engine.core.events",
    "Reject": "engine.session.answers",
    "Session": "engine.session.session",
    "Settings": "engine.core.settings",
    "TextDelta": "engine.core.events",
    "ToolContext": "engine.tools.context",
    "ToolOutput": "engine.tools.call_values",
    "Turn": "engine.session.turn",
    "TurnEnded": "engine.core.events",
    "TurnResult": "engine.core.events",
    "attach": "engine.session.attachments",
    "doc": "engine.core.schema",
    "open_engine": "engine.session.engine",
    "tool": "engine.tools.tool",
}

__all__ = [
    "Always",
    "CallSettled",
    "CallStarted",
    "Engine",
    "EngineError",
    "Hooks",
    "Limits",
    "Notice",
    "Once",
    "PermissionAsked",
    "RecoveryAsked",
    "Reject",
    "Session",
    "Settings",
    "TextDelta",
    "ToolContext",
    "ToolOutput",
    "Turn",
    "TurnEnded",
    "TurnResult",
    "__version__",
    "attach",
    "doc",
    "open_engine",
    "tool",
]


def __getattr__(name: str) -> object:
    """Load a public name at its first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
