"""engine: a coding-agent engine for Trio. You may cancel it at any instant.

The names here are all that a host needs; they are loaded at first use, so that
`import engine` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine._version import __version__

if TYPE_CHECKING:
    from engine.answers import Always as Always
    from engine.answers import Once as Once
    from engine.answers import Reject as Reject
    from engine.attachments import attach as attach
    from engine.errors import EngineError as EngineError
    from engine.events import CallSettled as CallSettled
    from engine.events import CallStarted as CallStarted
    from engine.events import Notice as Notice
    from engine.events import PermissionAsked as PermissionAsked
    from engine.events import RecoveryAsked as RecoveryAsked
    from engine.events import TextDelta as TextDelta
    from engine.events import TurnEnded as TurnEnded
    from engine.events import TurnResult as TurnResult
    from engine.hooks import Hooks as Hooks
    from engine.service import Engine as Engine
    from engine.service import open_engine as open_engine
    from engine.session import Session as Session
    from engine.settings import Limits as Limits
    from engine.settings import Settings as Settings
    from engine.tools.context import ToolContext as ToolContext
    from engine.tools.schema import doc as doc
    from engine.tools.spec import ToolOutput as ToolOutput
    from engine.tools.spec import tool as tool
    from engine.turn import Turn as Turn

_HOMES = {
    "Always": "engine.answers",
    "CallSettled": "engine.events",
    "CallStarted": "engine.events",
    "Engine": "engine.service",
    "EngineError": "engine.errors",
    "Hooks": "engine.hooks",
    "Limits": "engine.settings",
    "Notice": "engine.events",
    "Once": "engine.answers",
    "PermissionAsked": "engine.events",
    "RecoveryAsked": "engine.events",
    "Reject": "engine.answers",
    "Session": "engine.session",
    "Settings": "engine.settings",
    "TextDelta": "engine.events",
    "ToolContext": "engine.tools.context",
    "ToolOutput": "engine.tools.spec",
    "Turn": "engine.turn",
    "TurnEnded": "engine.events",
    "TurnResult": "engine.events",
    "attach": "engine.attachments",
    "doc": "engine.tools.schema",
    "open_engine": "engine.service",
    "tool": "engine.tools.spec",
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
