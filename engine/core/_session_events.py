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
        agent: the way of working that was chosen for it, by its name; empty: the usual one.
        forked_from: the session whose history it begins with: a `HistoryReplaced` follows.
    """

    context: SharedContext
    model: str
    parent_id: SessionId | None = None
    parent_call_id: CallId | None = None
    agent: str = ""
    forked_from: SessionId | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionTitled(EventBase):
    """The session has a title from now on; without one it is called by what was asked first.

    Attributes:
        title: empty: the model that was asked for one gave none, and what it has taken is counted all the same.
        by: whose words it is in. A model's never takes the place of a user's.
        model: which model was asked for it; empty: none was.
        usage: what a model's has taken.
        cost: of that.
    """

    title: str
    by: Literal["user", "model"]
    model: str = ""
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputAdmitted(EventBase):
    """Input was taken in durably; it waits for its place in the transcript."""

    input_id: InputId
    mode: InputMode
    message: UserMessage


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputPromoted(EventBase):
    """Input got its place: the message is now the newest of the transcript."""

    input_id: InputId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptBlocked(EventBase):
    """A hook let the user's words not pass: the message is taken back out of the transcript, and the turn ends.

    Attributes:
        source: the hook's name.
        reason: for the user; the model never sees it.
    """

    message_id: MessageId
    source: str
    reason: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NudgeAdded(EventBase):
    """The engine itself put a message to the model into the transcript."""

    message: UserMessage


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptSet(EventBase):
    """Requests begin with these sections from now on, byte for byte, until it comes again.

    Attributes:
        sections: in their order.
        cwd: the folder that they were made for.
        project: the project whose own files may be read for them; empty: none.
        reason: why now: it is the first, the history was compacted, the session works in another folder, or the host
            has given another system prompt.
    """

    sections: tuple[PromptSection, ...]
    cwd: str
    project: str = ""
    reason: Literal["start", "compacted", "moved", "system"] = "start"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptUpdated(EventBase):
    """Something that the prompt says has changed: the model is told in a message, and requests begin as before.

    Attributes:
        message: the newest of the transcript now.
        sections: those that are new or different, as they are now.
        removed: the names of those that hold no longer.
    """

    message: UserMessage
    sections: tuple[PromptSection, ...] = ()
    removed: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelSwitched(EventBase):
    """From the next turn on, the session's model is another one."""

    model: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BackgroundStarted(EventBase):
    """Something works in the background from now on: it goes on when its call, and its turn, are over.

    Attributes:
        work_id: which; of a sub-agent, the id of its session.
        name: what the model calls it: the agent's name, or the job's.
        detail: what a command is.
    """

    work_id: str
    kind: BackgroundKind
    name: str
    detail: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BackgroundEnded(EventBase):
    """What worked in the background works no more, and its session was told."""

    work_id: str
