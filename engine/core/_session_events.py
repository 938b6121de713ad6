"""Events of a session: its creation, title and model, its input, its system prompt, its background work."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.core._event_base import EventBase, SharedContext
from engine.core.ids import CallId, InputId, MessageId, SessionId
from engine.core.messages import Usage, UserMessage
from engine.core.prompt_section import PromptSection

InputMode = Literal["prompt", "steer", "queue"]
BackgroundKind = Literal["agent", "command"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionCreated(EventBase):
    """A session begins; a child names the call that made it.

    Attributes:
        agent: the name of the agent; empty: the default one.
        forked_from: the session that it was forked from. A `HistoryReplaced` with the history of that one follows.
    """

    context: SharedContext
    model: str
    parent_id: SessionId | None = None
    parent_call_id: CallId | None = None
    agent: str = ""
    forked_from: SessionId | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionTitled(EventBase):
    """The session got a title. Without one, lists show the beginning of the first prompt.

    Attributes:
        title: the title; empty: the model returned none, but its tokens still count.
        by: who wrote it. A model's title never replaces a user's.
        model: the model that was asked for it; empty: no model was.
        usage: tokens of that request.
        cost: money for that request.
    """

    title: str
    by: Literal["user", "model"]
    model: str = ""
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputAdmitted(EventBase):
    """Input was accepted and saved. It waits for its place in the transcript.

    Attributes:
        by: who sent it, as its host names its clients; empty: the host itself.
    """

    input_id: InputId
    mode: InputMode
    message: UserMessage
    by: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputPromoted(EventBase):
    """Waiting input became the newest message of the transcript."""

    input_id: InputId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputEdited(EventBase):
    """Waiting input was changed; it keeps its place.

    Attributes:
        message: what it is now.
    """

    input_id: InputId
    message: UserMessage


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputRemoved(EventBase):
    """Waiting input was removed: the model will not read it."""

    input_id: InputId
    message_id: MessageId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptBlocked(EventBase):
    """A hook blocked the user's prompt: its message is removed from the transcript, and the turn ends.

    Attributes:
        source: the hook's name.
        reason: for the user; the model never sees it.
    """

    message_id: MessageId
    source: str
    reason: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NudgeAdded(EventBase):
    """The engine added a message of its own to the transcript, for the model."""

    message: UserMessage


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptSet(EventBase):
    """Requests begin with these sections from now on, byte for byte, until the next `PromptSet`.

    Attributes:
        sections: the sections, in order.
        cwd: the working directory that they were made for.
        project: the project whose instruction files were allowed to be read; empty: none.
        reason: the session starts, its history was compacted, its working directory changed, or the host changed the
            system prompt.
    """

    sections: tuple[PromptSection, ...]
    cwd: str
    project: str = ""
    reason: Literal["start", "compacted", "moved", "system"] = "start"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptUpdated(EventBase):
    """A section of the prompt changed. A message informs the model; the beginning of requests stays, and so does its cache.

    Attributes:
        message: the newest of the transcript now.
        sections: the new and changed ones.
        removed: the names of sections that no longer apply.
    """

    message: UserMessage
    sections: tuple[PromptSection, ...] = ()
    removed: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelSwitched(EventBase):
    """From the next turn on, the session's model is another one.

    Attributes:
        by: who switched it, as its host names its clients; empty: the host itself, or it was opened with another one.
    """

    model: str
    by: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionConfigured(EventBase):
    """A setting that all clients of the session share was changed. It applies at once, and until it is changed again.

    Attributes:
        profile: the permission profile, for calls that no rule matches; empty: the engine's.
        by: who changed it, as its host names its clients; empty: the host itself, or an engine that can't apply it.
    """

    profile: str
    by: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BackgroundStarted(EventBase):
    """Background work started. It continues after its call and its turn have ended.

    Attributes:
        work_id: identifies it; for a sub-agent, the id of its session.
        name: the agent's name, or the job's.
        detail: the command line, for a command.
    """

    work_id: str
    kind: BackgroundKind
    name: str
    detail: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BackgroundEnded(EventBase):
    """Background work ended, and its session was informed."""

    work_id: str
