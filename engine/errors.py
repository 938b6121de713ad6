"""The exceptions that the engine raises; each is an `EngineError`."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.errors import AlreadyAnswered as AlreadyAnswered
    from engine.core.errors import AuthFailed as AuthFailed
    from engine.core.errors import CallNotFound as CallNotFound
    from engine.core.errors import ConfigError as ConfigError
    from engine.core.errors import ConnectionBroken as ConnectionBroken
    from engine.core.errors import ContentFiltered as ContentFiltered
    from engine.core.errors import ContextOverflow as ContextOverflow
    from engine.core.errors import CursorInUse as CursorInUse
    from engine.core.errors import Draining as Draining
    from engine.core.errors import EngineClosed as EngineClosed
    from engine.core.errors import EngineError as EngineError
    from engine.core.errors import ErrorCode as ErrorCode
    from engine.core.errors import ErrorInfo as ErrorInfo
    from engine.core.errors import InputConflict as InputConflict
    from engine.core.errors import InputNotFound as InputNotFound
    from engine.core.errors import InvalidArguments as InvalidArguments
    from engine.core.errors import InvalidRequest as InvalidRequest
    from engine.core.errors import JournalCorrupt as JournalCorrupt
    from engine.core.errors import MediaTooLarge as MediaTooLarge
    from engine.core.errors import MessageNotFound as MessageNotFound
    from engine.core.errors import MissingKey as MissingKey
    from engine.core.errors import ModelNotFound as ModelNotFound
    from engine.core.errors import NothingParked as NothingParked
    from engine.core.errors import NothingToUndo as NothingToUndo
    from engine.core.errors import Overloaded as Overloaded
    from engine.core.errors import ProviderError as ProviderError
    from engine.core.errors import ProviderProtocolError as ProviderProtocolError
    from engine.core.errors import QuotaExhausted as QuotaExhausted
    from engine.core.errors import RateLimited as RateLimited
    from engine.core.errors import RequestNotFound as RequestNotFound
    from engine.core.errors import ServerOffline as ServerOffline
    from engine.core.errors import SessionBusy as SessionBusy
    from engine.core.errors import SessionElsewhere as SessionElsewhere
    from engine.core.errors import SessionError as SessionError
    from engine.core.errors import SessionLost as SessionLost
    from engine.core.errors import SessionNotFound as SessionNotFound
    from engine.core.errors import SignatureRejected as SignatureRejected
    from engine.core.errors import SnapshotError as SnapshotError
    from engine.core.errors import StoreCorrupt as StoreCorrupt
    from engine.core.errors import StoreError as StoreError
    from engine.core.errors import StoreMismatch as StoreMismatch
    from engine.core.errors import StreamTimeout as StreamTimeout
    from engine.core.errors import SubAgentRefused as SubAgentRefused
    from engine.core.errors import ToolError as ToolError
    from engine.core.errors import TurnNotEnded as TurnNotEnded
    from engine.core.errors import TurnOver as TurnOver
    from engine.core.errors import TurnParked as TurnParked
    from engine.core.errors import Unauthorized as Unauthorized
    from engine.core.errors import UndoConflict as UndoConflict
    from engine.core.errors import UndoIncomplete as UndoIncomplete
    from engine.core.errors import UnknownModel as UnknownModel
    from engine.core.errors import WrongTask as WrongTask
    from engine.core.errors import WrongThread as WrongThread
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.errors": (
                "AlreadyAnswered AuthFailed CallNotFound ConfigError ConnectionBroken ContentFiltered "
                "ContextOverflow CursorInUse Draining EngineClosed EngineError ErrorCode ErrorInfo InputConflict InputNotFound "
                "InvalidArguments InvalidRequest JournalCorrupt MediaTooLarge MessageNotFound MissingKey ModelNotFound "
                "NothingParked NothingToUndo Overloaded ProviderError ProviderProtocolError QuotaExhausted "
                "RateLimited RequestNotFound ServerOffline SessionBusy SessionElsewhere SessionError SessionLost "
                "SessionNotFound SignatureRejected SnapshotError StoreCorrupt StoreError StoreMismatch "
                "StreamTimeout SubAgentRefused ToolError TurnNotEnded TurnOver TurnParked Unauthorized "
                "UndoConflict UndoIncomplete UnknownModel WrongTask WrongThread"
            ),
        },
    )
