"""Events: everything that happens in a session, as a closed union of values.

An event with a `seq` is durable: it is in the journal, in that order, for good.
One without is live: it is for watchers, and a durable event repeats its content
later (`PartEnded` that of deltas, `CallQueued` that of arguments).

The order is a promise, written down in `docs/reference/events.md`.

The classes are in private modules, one for each subject. Import their names from here.
"""

from __future__ import annotations

from typing import get_args

from engine.core._event_base import CONTINUE_REASONS as CONTINUE_REASONS
from engine.core._event_base import ContinueReason as ContinueReason
from engine.core._event_base import EventBase as EventBase
from engine.core._event_base import SharedContext as SharedContext
from engine.core._history_events import CompactionEnded as CompactionEnded
from engine.core._history_events import CompactionOutcome as CompactionOutcome
from engine.core._history_events import CompactionStarted as CompactionStarted
from engine.core._history_events import CompactionTrigger as CompactionTrigger
from engine.core._history_events import HistoryReplaced as HistoryReplaced
from engine.core._history_events import SnapshotTaken as SnapshotTaken
from engine.core._history_events import TurnRedone as TurnRedone
from engine.core._history_events import TurnUndone as TurnUndone
from engine.core._message_events import ArgumentsDelta as ArgumentsDelta
from engine.core._message_events import CallAnnounced as CallAnnounced
from engine.core._message_events import CallChanged as CallChanged
from engine.core._message_events import CallDelivered as CallDelivered
from engine.core._message_events import CallHeartbeat as CallHeartbeat
from engine.core._message_events import CallJudged as CallJudged
from engine.core._message_events import CallProgress as CallProgress
from engine.core._message_events import CallQueued as CallQueued
from engine.core._message_events import CallSettled as CallSettled
from engine.core._message_events import CallStarted as CallStarted
from engine.core._message_events import ContextChanged as ContextChanged
from engine.core._message_events import PartDiscarded as PartDiscarded
from engine.core._message_events import PartEnded as PartEnded
from engine.core._message_events import PartKind as PartKind
from engine.core._message_events import PartReplaced as PartReplaced
from engine.core._message_events import PartStarted as PartStarted
from engine.core._message_events import ReasoningDelta as ReasoningDelta
from engine.core._message_events import TextDelta as TextDelta
from engine.core._message_events import Verdict as Verdict
from engine.core._question_events import APPROVAL as APPROVAL
from engine.core._question_events import AnswerKind as AnswerKind
from engine.core._question_events import Choice as Choice
from engine.core._question_events import GrantScope as GrantScope
from engine.core._question_events import Offer as Offer
from engine.core._question_events import PermissionAnswered as PermissionAnswered
from engine.core._question_events import PermissionAsked as PermissionAsked
from engine.core._question_events import QuestionAnswered as QuestionAnswered
from engine.core._question_events import QuestionAsked as QuestionAsked
from engine.core._question_events import QuestionOutcome as QuestionOutcome
from engine.core._question_events import RecoveryAnswered as RecoveryAnswered
from engine.core._question_events import RecoveryAsked as RecoveryAsked
from engine.core._question_events import RecoveryKind as RecoveryKind
from engine.core._question_events import Right as Right
from engine.core._session_events import BackgroundEnded as BackgroundEnded
from engine.core._session_events import BackgroundKind as BackgroundKind
from engine.core._session_events import BackgroundStarted as BackgroundStarted
from engine.core._session_events import InputAdmitted as InputAdmitted
from engine.core._session_events import InputEdited as InputEdited
from engine.core._session_events import InputMode as InputMode
from engine.core._session_events import InputPromoted as InputPromoted
from engine.core._session_events import InputRemoved as InputRemoved
from engine.core._session_events import ModelSwitched as ModelSwitched
from engine.core._session_events import NudgeAdded as NudgeAdded
from engine.core._session_events import PromptBlocked as PromptBlocked
from engine.core._session_events import PromptSet as PromptSet
from engine.core._session_events import PromptUpdated as PromptUpdated
from engine.core._session_events import SessionConfigured as SessionConfigured
from engine.core._session_events import SessionCreated as SessionCreated
from engine.core._session_events import SessionTitled as SessionTitled
from engine.core._turn_events import STOP_REASONS as STOP_REASONS
from engine.core._turn_events import DoomAction as DoomAction
from engine.core._turn_events import DoomDetected as DoomDetected
from engine.core._turn_events import DoomKind as DoomKind
from engine.core._turn_events import During as During
from engine.core._turn_events import Ending as Ending
from engine.core._turn_events import EndingCause as EndingCause
from engine.core._turn_events import LoopContinued as LoopContinued
from engine.core._turn_events import Notice as Notice
from engine.core._turn_events import RetryScheduled as RetryScheduled
from engine.core._turn_events import StepEnded as StepEnded
from engine.core._turn_events import StepReceived as StepReceived
from engine.core._turn_events import StepStarted as StepStarted
from engine.core._turn_events import StopReason as StopReason
from engine.core._turn_events import TurnEnded as TurnEnded
from engine.core._turn_events import TurnEnding as TurnEnding
from engine.core._turn_events import TurnResult as TurnResult
from engine.core._turn_events import TurnResumed as TurnResumed
from engine.core._turn_events import TurnStarted as TurnStarted

Durable = (
    SessionCreated
    | SessionTitled
    | InputAdmitted
    | InputPromoted
    | InputEdited
    | InputRemoved
    | PromptBlocked
    | NudgeAdded
    | PromptSet
    | PromptUpdated
    | TurnStarted
    | TurnResumed
    | StepStarted
    | StepReceived
    | StepEnded
    | LoopContinued
    | RetryScheduled
    | RecoveryAsked
    | RecoveryAnswered
    | ModelSwitched
    | SessionConfigured
    | TurnEnded
    | PartStarted
    | PartEnded
    | PartReplaced
    | PartDiscarded
    | CallAnnounced
    | CallQueued
    | CallJudged
    | CallChanged
    | CallStarted
    | CallSettled
    | CallDelivered
    | ContextChanged
    | PermissionAsked
    | PermissionAnswered
    | QuestionAsked
    | QuestionAnswered
    | CompactionStarted
    | CompactionEnded
    | HistoryReplaced
    | SnapshotTaken
    | TurnUndone
    | TurnRedone
    | BackgroundStarted
    | BackgroundEnded
    | DoomDetected
    | Notice
)
Delta = TextDelta | ReasoningDelta | ArgumentsDelta
Live = Delta | CallProgress | CallHeartbeat | TurnEnding
DURABLE_TYPES: tuple[type[Durable], ...] = get_args(Durable)
DELTA_TYPES: tuple[type[Delta], ...] = get_args(Delta)
LIVE_TYPES: tuple[type[Live], ...] = get_args(Live)
