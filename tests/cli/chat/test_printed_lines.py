"""What is printed is not kept: neither by the chat's machine nor by the live region (cli C26)."""

import gc
import sys

from engine.cli.chat.display.live_region import LiveRegion
from engine.cli.chat.layout import Size, draw
from engine.core import events as ev
from engine.core.ids import CallId, MessageId, PartId, TurnId
from engine.core.messages import Settlement, TextPart
from tests.cli.chat.chat_machine import Chat

TURN, MESSAGE = TurnId("turn_1"), MessageId("msg_1")
LINES_IN_A_TURN = 50


def play_turn(chat: Chat, region: LiveRegion, number: int) -> int:
    """Print an answer, a call's line and a turn's end; return how many lines were printed."""
    chat.event(ev.TurnStarted(turn_id=TURN))
    part, call = PartId(f"part_{number}"), CallId(f"call_{number}")
    lines = [f"line {number} {line} of the answer\n" for line in range(LINES_IN_A_TURN)]
    for at, line in enumerate(lines):
        chat.event(ev.TextDelta(turn_id=TURN, message_id=MESSAGE, part_id=part, offset=at, after=1, text=line))
        region.draw(chat.printed, draw(chat.machine, Size(80, 24), 0.0))
    chat.event(ev.PartEnded(message_id=MESSAGE, part=TextPart(id=part, text="".join(lines))))
    chat.event(ev.CallAnnounced(message_id=MESSAGE, part_id=part, call_id=call, tool="bash"))
    chat.event(ev.CallQueued(call_id=call, tool="bash", arguments=f"{{{number}}}"))
    chat.event(ev.CallSettled(call_id=call, settlement=Settlement(status="completed", text="done")))
    chat.event(ev.TurnEnded(turn_id=TURN, result=ev.TurnResult(stop_reason="completed")))
    count = len(chat.printed)
    chat.printed.clear()
    return count


def test_printed_lines_leave_no_objects() -> None:
    chat, region = Chat(), LiveRegion(80)
    for number in range(20):
        play_turn(chat, region, number)
    gc.collect()
    before = sys.getallocatedblocks()
    count = sum(play_turn(chat, region, number) for number in range(20, 220))
    gc.collect()
    kept = sys.getallocatedblocks() - before
    assert count >= 200 * LINES_IN_A_TURN
    assert kept < count / 50, f"{kept} objects are kept of {count} lines"
