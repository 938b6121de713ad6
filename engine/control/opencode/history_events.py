"""The messages that a fork begins with, as the events that would have written them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.core import events as ev
from engine.core.events import Durable
from engine.core.ids import InputId
from engine.core.messages import CallPart, Message, ProviderPart, ResultsMessage, TextPart, Usage, UserMessage


def events_of(messages: Iterable[Message]) -> Iterator[Durable]:
    """Yield what would have happened if *messages* had been written in a session."""
    for message in messages:
        if isinstance(message, UserMessage):
            yield ev.InputAdmitted(input_id=InputId(message.id), mode="prompt", message=message)
            yield ev.InputPromoted(input_id=InputId(message.id))
        elif isinstance(message, ResultsMessage):
            for result in message.results:
                yield ev.CallSettled(call_id=result.call_id, settlement=result.settlement)
        else:
            own = message.id
            yield ev.StepStarted(step=0, attempt=1, message_id=own, model=message.model)
            for part in message.parts:
                if isinstance(part, CallPart):
                    yield ev.CallAnnounced(call_id=part.call_id, message_id=own, part_id=part.id, tool=part.tool)
                    yield ev.CallQueued(call_id=part.call_id, tool=part.tool, arguments=part.arguments)
                elif not isinstance(part, ProviderPart):
                    kind: ev.PartKind = "text" if isinstance(part, TextPart) else "reasoning"
                    yield ev.PartStarted(message_id=own, part_id=part.id, kind=kind)
                    yield ev.PartEnded(message_id=own, part=part)
            yield ev.StepEnded(step=0, message_id=own, results_id=own, finish=message.finish, usage=Usage(), cost=0)
