"""Follows the session: each of its events changes the chat, and may be shown as lines."""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.chat.machine.chat_contents import ChatContents
from engine.cli.chat.machine.message_sender import MessageSender
from engine.core import events as ev
from engine.journal.state import Resync, SessionState

_TURNS_SHOWN: Final = 2
_LINES_SHOWN: Final = 200


def what_happened(state: SessionState) -> list[str]:
    """Return what the user should know of a session that is opened again: how its last turn ended, and what waits."""
    lines: list[str] = []
    result = state.last_result
    if state.turn is None and result is not None and result.stop_reason != "completed":
        reason = result.stop_reason.replace("_", " ")
        # "aborted" says no more than its detail does.
        detail = result.detail if result.stop_reason == "aborted" else ""
        why = detail or ": ".join(filter(None, (reason, result.detail)))
        lines.append(f"The last turn did not end by itself ({why}). Your next message continues.")
    waiting = sum(item.message.origin != "engine" for item in state.inbox)
    if state.turn is None and waiting:
        what = "1 message waits" if waiting == 1 else f"{waiting} messages wait"
        lines.append(f"{what} from then. Enter sends; /queue shows.")
    if state.undone:
        what = "1 turn is undone" if len(state.undone) == 1 else f"{len(state.undone)} turns are undone"
        lines.append(f"{what}. /redo brings it back.")
    return lines


@attrs.define(eq=False)
class SessionFollower:
    """Takes events; returns lines to print."""

    _chat: ChatContents
    _sender: MessageSender
    _is_attached: bool = attrs.field(default=False, init=False)

    def park(self, *, is_parked: bool) -> None:
        """Note whether no engine runs the turn."""
        self._chat.phase = "parked" if is_parked else "running"

    def follow(self, event: ev.Durable | ev.Live | Resync) -> list[str]:
        """Take an event, or all that is true now."""
        if isinstance(event, Resync):
            return self._resync(event)
        chat = self._chat
        chat.facts.feed(event)
        chat.last_call.feed(event)
        settled = chat.questions.feed(event)
        lines = chat.view.feed(event) + chat.sub_agents.feed(event)
        if settled:
            lines.append(chat.noted(settled))
        if len(event.path) <= 1:
            lines += self._own_event(event)
        return lines

    def _own_event(self, event: ev.Durable | ev.Live) -> list[str]:
        """Take an event of the session itself, and not of a sub-agent."""
        chat = self._chat
        match event:
            case ev.TurnStarted() | ev.TurnResumed():
                chat.turn_id, chat.phase = event.turn_id, "running"
            case ev.TurnEnding():
                chat.phase = "cancelling"
            case ev.TurnEnded():
                chat.turn_id, chat.phase = None, "running"
                return self._waiting_lines(event)
            case ev.InputPromoted():
                delivered = chat.outbox.feed(event)
                return [] if delivered is None else chat.view.prompt_lines(delivered.text)
            case ev.InputAdmitted() | ev.InputEdited() | ev.InputRemoved():
                self._sender.put_back(chat.outbox.feed(event))
                return self._queued_lines(event)
            case _:
                pass
        return []

    def _waiting_lines(self, event: ev.TurnEnded) -> list[str]:
        """Return what says that messages still wait, where the list of them is not shown."""
        chat = self._chat
        count = len(chat.outbox.messages)
        # After a turn that completed, they are sent by themselves.
        if event.result.stop_reason == "completed" or self._sender.sends_after(event):
            return []
        if not chat.is_accessible or not count:
            return []
        what = "1 message waits" if count == 1 else f"{count} messages wait"
        return [chat.noted(f"{what}. An empty line sends; /queue shows.")]

    def _queued_lines(self, event: ev.InputAdmitted | ev.InputEdited | ev.InputRemoved) -> list[str]:
        """Return what says that a message waits, where the list of them is not shown."""
        if not self._chat.is_accessible or not isinstance(event, ev.InputAdmitted) or event.message.origin == "engine":
            return []
        places = {"prompt": "", "steer": "Queued for the next step.", "queue": "Queued for after this turn."}
        return [self._chat.noted(places[event.mode])] if places[event.mode] else []

    def _resync(self, resync: Resync) -> list[str]:
        chat, state = self._chat, resync.state
        chat.facts.replace(state)
        chat.last_call.replace(state)
        chat.sub_agents.replace(resync)
        chat.turn_id = None if state.turn is None else state.turn.turn_id
        if state.turn is not None and state.turn.ending is not None:
            chat.phase = "cancelling"
        elif chat.phase == "cancelling":
            chat.phase = "running"
        chat.outbox.replace(state.inbox)
        chat.questions.replace(resync.open_questions)
        lines: list[str] = []
        if not self._is_attached:
            self._is_attached = True
            lines += chat.view.history(state, _TURNS_SHOWN, _LINES_SHOWN)
            lines += chat.view.wrapped(map(chat.noted, what_happened(state)))
        else:
            lines.append(chat.noted("The output above may be incomplete."))
        return lines + chat.view.show_state(resync)
