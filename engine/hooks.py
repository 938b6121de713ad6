"""Hooks: the points at which the engine calls functions of the host, their inputs and their decisions."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.hooks import Compacted as Compacted
    from engine.core.hooks import CompactedHook as CompactedHook
    from engine.core.hooks import Compacting as Compacting
    from engine.core.hooks import CompactingHook as CompactingHook
    from engine.core.hooks import CompactionDecision as CompactionDecision
    from engine.core.hooks import Context as Context
    from engine.core.hooks import Hooks as Hooks
    from engine.core.hooks import IdleHook as IdleHook
    from engine.core.hooks import Idling as Idling
    from engine.core.hooks import NotificationHook as NotificationHook
    from engine.core.hooks import Notified as Notified
    from engine.core.hooks import PermissionDecision as PermissionDecision
    from engine.core.hooks import PermissionHook as PermissionHook
    from engine.core.hooks import PermissionRequested as PermissionRequested
    from engine.core.hooks import PromptDecision as PromptDecision
    from engine.core.hooks import Prompted as Prompted
    from engine.core.hooks import PromptHook as PromptHook
    from engine.core.hooks import Remark as Remark
    from engine.core.hooks import RequestDecision as RequestDecision
    from engine.core.hooks import RequestHook as RequestHook
    from engine.core.hooks import Requesting as Requesting
    from engine.core.hooks import SessionEndHook as SessionEndHook
    from engine.core.hooks import SessionEnding as SessionEnding
    from engine.core.hooks import SessionStartHook as SessionStartHook
    from engine.core.hooks import SessionStarting as SessionStarting
    from engine.core.hooks import StopDecision as StopDecision
    from engine.core.hooks import StopHook as StopHook
    from engine.core.hooks import Stopping as Stopping
    from engine.core.hooks import Subject as Subject
    from engine.core.hooks import ToolDecision as ToolDecision
    from engine.core.hooks import ToolHook as ToolHook
    from engine.core.hooks import ToolUse as ToolUse
    from engine.tools.claude_hooks.load import load_hooks as load_hooks
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.hooks": (
                "Compacted CompactedHook Compacting CompactingHook CompactionDecision Context Hooks "
                "IdleHook Idling NotificationHook Notified PermissionDecision PermissionHook "
                "PermissionRequested PromptDecision PromptHook Prompted Remark RequestDecision RequestHook "
                "Requesting SessionEndHook SessionEnding SessionStartHook SessionStarting StopDecision "
                "StopHook Stopping Subject ToolDecision ToolHook ToolUse"
            ),
            "engine.tools.claude_hooks.load": "load_hooks",
        },
    )
