"""The events of a session, and the values in them."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.events import CONTINUE_REASONS as CONTINUE_REASONS
    from engine.core.events import STOP_REASONS as STOP_REASONS
    from engine.core.events import AnswerKind as AnswerKind
    from engine.core.events import ArgumentsDelta as ArgumentsDelta
    from engine.core.events import BackgroundEnded as BackgroundEnded
    from engine.core.events import BackgroundKind as BackgroundKind
    from engine.core.events import BackgroundStarted as BackgroundStarted
    from engine.core.events import CallAnnounced as CallAnnounced
    from engine.core.events import CallChanged as CallChanged
    from engine.core.events import CallDelivered as CallDelivered
    from engine.core.events import CallHeartbeat as CallHeartbeat
    from engine.core.events import CallJudged as CallJudged
    from engine.core.events import CallProgress as CallProgress
    from engine.core.events import CallQueued as CallQueued
    from engine.core.events import CallSettled as CallSettled
    from engine.core.events import CallStarted as CallStarted
    from engine.core.events import Choice as Choice
    from engine.core.events import CompactionEnded as CompactionEnded
    from engine.core.events import CompactionOutcome as CompactionOutcome
    from engine.core.events import CompactionStarted as CompactionStarted
    from engine.core.events import CompactionTrigger as CompactionTrigger
    from engine.core.events import ContextChanged as ContextChanged
    from engine.core.events import ContinueReason as ContinueReason
    from engine.core.events import Delta as Delta
    from engine.core.events import DoomAction as DoomAction
    from engine.core.events import DoomDetected as DoomDetected
    from engine.core.events import DoomKind as DoomKind
    from engine.core.events import Durable as Durable
    from engine.core.events import During as During
    from engine.core.events import Ending as Ending
    from engine.core.events import EndingCause as EndingCause
    from engine.core.events import EventBase as EventBase
    from engine.core.events import GrantScope as GrantScope
    from engine.core.events import HistoryReplaced as HistoryReplaced
    from engine.core.events import InputAdmitted as InputAdmitted
    from engine.core.events import InputEdited as InputEdited
    from engine.core.events import InputMode as InputMode
    from engine.core.events import InputPromoted as InputPromoted
    from engine.core.events import InputRemoved as InputRemoved
    from engine.core.events import Live as Live
    from engine.core.events import LoopContinued as LoopContinued
    from engine.core.events import ModelSwitched as ModelSwitched
    from engine.core.events import Notice as Notice
    from engine.core.events import NudgeAdded as NudgeAdded
    from engine.core.events import Offer as Offer
    from engine.core.events import PartDiscarded as PartDiscarded
    from engine.core.events import PartEnded as PartEnded
    from engine.core.events import PartKind as PartKind
    from engine.core.events import PartReplaced as PartReplaced
    from engine.core.events import PartStarted as PartStarted
    from engine.core.events import PermissionAnswered as PermissionAnswered
    from engine.core.events import PermissionAsked as PermissionAsked
    from engine.core.events import PromptBlocked as PromptBlocked
    from engine.core.events import PromptSet as PromptSet
    from engine.core.events import PromptUpdated as PromptUpdated
    from engine.core.events import QuestionAnswered as QuestionAnswered
    from engine.core.events import QuestionAsked as QuestionAsked
    from engine.core.events import QuestionOutcome as QuestionOutcome
    from engine.core.events import ReasoningDelta as ReasoningDelta
    from engine.core.events import RecoveryAnswered as RecoveryAnswered
    from engine.core.events import RecoveryAsked as RecoveryAsked
    from engine.core.events import RecoveryKind as RecoveryKind
    from engine.core.events import RetryScheduled as RetryScheduled
    from engine.core.events import Right as Right
    from engine.core.events import SessionConfigured as SessionConfigured
    from engine.core.events import SessionCreated as SessionCreated
    from engine.core.events import SessionTitled as SessionTitled
    from engine.core.events import SharedContext as SharedContext
    from engine.core.events import SnapshotTaken as SnapshotTaken
    from engine.core.events import StepEnded as StepEnded
    from engine.core.events import StepReceived as StepReceived
    from engine.core.events import StepStarted as StepStarted
    from engine.core.events import StopReason as StopReason
    from engine.core.events import TextDelta as TextDelta
    from engine.core.events import TurnEnded as TurnEnded
    from engine.core.events import TurnEnding as TurnEnding
    from engine.core.events import TurnRedone as TurnRedone
    from engine.core.events import TurnResult as TurnResult
    from engine.core.events import TurnResumed as TurnResumed
    from engine.core.events import TurnStarted as TurnStarted
    from engine.core.events import TurnUndone as TurnUndone
    from engine.core.events import Verdict as Verdict
    from engine.core.ids import CallId as CallId
    from engine.core.ids import InputId as InputId
    from engine.core.ids import MessageId as MessageId
    from engine.core.ids import PartId as PartId
    from engine.core.ids import RequestId as RequestId
    from engine.core.ids import SessionId as SessionId
    from engine.core.ids import TurnId as TurnId
    from engine.core.messages import AbortReason as AbortReason
    from engine.core.messages import AssistantMessage as AssistantMessage
    from engine.core.messages import AssistantPart as AssistantPart
    from engine.core.messages import CallPart as CallPart
    from engine.core.messages import CallResult as CallResult
    from engine.core.messages import CallStatus as CallStatus
    from engine.core.messages import Citation as Citation
    from engine.core.messages import FilePart as FilePart
    from engine.core.messages import FinishReason as FinishReason
    from engine.core.messages import ImagePart as ImagePart
    from engine.core.messages import MediaPart as MediaPart
    from engine.core.messages import Message as Message
    from engine.core.messages import Origin as Origin
    from engine.core.messages import ProviderPart as ProviderPart
    from engine.core.messages import ReasoningPart as ReasoningPart
    from engine.core.messages import ResultsMessage as ResultsMessage
    from engine.core.messages import Settlement as Settlement
    from engine.core.messages import TextPart as TextPart
    from engine.core.messages import Transcript as Transcript
    from engine.core.messages import Usage as Usage
    from engine.core.messages import UserMessage as UserMessage
    from engine.core.messages import UserPart as UserPart
    from engine.journal.codec import Unknown as Unknown
    from engine.journal.codec import decode_received as decode_received
    from engine.journal.codec import encode_event as encode_event
    from engine.journal.codec import encode_resync as encode_resync
    from engine.journal.cursors import Cursor as Cursor
    from engine.journal.position import Position as Position
    from engine.journal.position import decode_position as decode_position
    from engine.journal.position import encode_position as encode_position
    from engine.journal.state import Busy as Busy
    from engine.journal.state import Descendant as Descendant
    from engine.journal.state import Idle as Idle
    from engine.journal.state import PendingInput as PendingInput
    from engine.journal.state import Resync as Resync
    from engine.journal.state import Retry as Retry
    from engine.journal.state import SessionState as SessionState
    from engine.journal.state import Status as Status
    from engine.journal.state import Waiting as Waiting
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.events": (
                "AnswerKind ArgumentsDelta BackgroundEnded BackgroundKind BackgroundStarted "
                "CONTINUE_REASONS CallAnnounced CallChanged CallDelivered CallHeartbeat CallJudged "
                "CallProgress CallQueued CallSettled CallStarted Choice CompactionEnded CompactionOutcome "
                "CompactionStarted CompactionTrigger ContextChanged ContinueReason Delta DoomAction "
                "DoomDetected DoomKind Durable During Ending EndingCause EventBase GrantScope HistoryReplaced InputAdmitted "
                "InputEdited InputMode InputPromoted InputRemoved Live LoopContinued ModelSwitched Notice NudgeAdded Offer "
                "PartDiscarded PartEnded PartKind PartReplaced PartStarted PermissionAnswered "
                "PermissionAsked PromptBlocked PromptSet PromptUpdated QuestionAnswered QuestionAsked "
                "QuestionOutcome ReasoningDelta RecoveryAnswered RecoveryAsked RecoveryKind RetryScheduled "
                "Right STOP_REASONS SessionConfigured SessionCreated SessionTitled SharedContext SnapshotTaken StepEnded "
                "StepReceived StepStarted StopReason TextDelta TurnEnded TurnEnding TurnRedone TurnResult TurnResumed "
                "TurnStarted TurnUndone Verdict"
            ),
            "engine.core.ids": "CallId InputId MessageId PartId RequestId SessionId TurnId",
            "engine.core.messages": (
                "AbortReason AssistantMessage AssistantPart CallPart CallResult CallStatus Citation "
                "FilePart FinishReason ImagePart MediaPart Message Origin ProviderPart ReasoningPart "
                "ResultsMessage Settlement TextPart Transcript Usage UserMessage UserPart"
            ),
            "engine.journal.state": "Busy Descendant Idle PendingInput Resync Retry SessionState Status Waiting",
            "engine.journal.codec": "Unknown decode_received encode_event encode_resync",
            "engine.journal.cursors": "Cursor",
            "engine.journal.position": "Position decode_position encode_position",
        },
    )
