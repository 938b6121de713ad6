"""`engine sessions show`: all that was said in one, for a terminal."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from itertools import zip_longest

import attrs

from engine.cli.sessions.common import (
    add_session_argument,
    command,
    find_id,
    parser_for,
    tell,
    when,
    width,
    with_store,
)
from engine.cli.terminal_text import one_line, visible
from engine.core.events import StepEnded
from engine.core.ids import CallId, MessageId
from engine.core.messages import AssistantMessage, CallPart, CallResult, ResultsMessage, TextPart, Usage, UserMessage
from engine.export.format_cost import format_cost
from engine.export.history import History, HistoryEntry, render_history
from engine.store.projection import make_title
from engine.store.protocols import FullStore, SpendingQuery
from engine.tools.tool_text import counted

_SHORTEST = 6


def main(arguments: list[str]) -> int:
    """Run the subcommand; return the exit code."""
    parser = parser_for(
        "show",
        "Show all that was said in a session. At the end of each heading stands the end of the message's id: "
        "`engine sessions fork ID --at` takes it.",
        has_json=True,
    )
    add_session_argument(parser)
    parser.add_argument("--usage", action="store_true", help="what each request and each turn took, too")
    parser.add_argument("--results", action="store_true", help="what the calls of tools have answered, too")
    return command("sessions show", parser, arguments, _show)


def _show(given: argparse.Namespace) -> int:
    async def work(store: FullStore) -> History:
        session_id = await find_id(store, given.session)
        story = render_history(await store.load(session_id))
        spent = next(iter(await store.spending(SpendingQuery(by="session", of=(session_id,)))), None)
        if spent is None:
            return story
        # With what its sub-agents have spent, as `engine stats` counts.
        return attrs.evolve(story, state=attrs.evolve(story.state, usage=spent.usage, cost=spent.cost))

    story = with_store(given, work)
    return tell(_as_json(story) if given.json else _as_text(story, with_results=given.results, with_usage=given.usage))


def called(story: History) -> str:
    """Return what a session is called: its title, or the beginning of what was asked first."""
    asked = (
        make_title(entry.message.text)
        for entry in story.entries
        if isinstance(entry.message, UserMessage) and entry.message.origin in {"user", "steer", "queue"}
    )
    return make_title(story.state.title) or next((title for title in asked if title), "")


# -- as JSON ---------------------------------------------------------------------------------


def _as_json(story: History) -> str:
    # Imported here: cattrs is needed for JSON only.
    from engine.core.codec import encode_message

    state = story.state
    document = {
        "id": state.session_id,
        "title": called(story),
        "folder": state.context.cwd,
        "model": state.model,
        "created": story.created,
        "parent": state.parent_id,
        "forked_from": state.forked_from,
        "usage": attrs.asdict(state.usage),
        "cost": state.cost,
        "messages": [
            {
                "time": entry.time,
                "turn": entry.turn_id,
                **_step_facts(story.steps.get(entry.message.id)),
                "message": json.loads(encode_message(entry.message)),
            }
            for entry in story.entries
        ],
        "turns": [
            {
                "turn": turn_id,
                "stop_reason": result.stop_reason,
                "detail": result.detail,
                "steps": result.steps,
                "usage": attrs.asdict(result.usage),
                "cost": result.cost,
            }
            for turn_id, result in story.turns.items()
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _step_facts(step: StepEnded | None) -> dict[str, object]:
    return {} if step is None else {"usage": attrs.asdict(step.usage), "cost": step.cost}


# -- for people ------------------------------------------------------------------------------


def _as_text(story: History, *, with_results: bool, with_usage: bool) -> str:
    state = story.state
    facts = [state.session_id, state.context.cwd, state.model, format_cost(state.cost)]
    lines = [
        one_line(called(story), 200) or "(nothing was said)",
        " · ".join(visible(fact) for fact in facts if fact),
        "",
    ]
    ends = short_ends([entry.message.id for entry in story.entries])
    results = {
        result.call_id: result
        for entry in story.entries
        if isinstance(entry.message, ResultsMessage)
        for result in entry.message.results
    }
    for entry, following in zip_longest(story.entries, story.entries[1:]):
        lines += _message(entry, ends[entry.message.id], results, with_results=with_results)
        if with_usage:
            is_last = following is None or following.turn_id != entry.turn_id
            lines += _usage(story, entry, ends_turn=is_last)
    if state.turn is not None:
        lines += [
            "(a turn is open: what it has not finished stands here once it has. `engine sessions` says whether it is at",
            "work, waits for you, or was interrupted.)",
        ]
    return "\n".join(lines).rstrip("\n") + "\n"


def short_ends(ids: list[MessageId]) -> dict[MessageId, str]:
    """Return the shortest endings that tell *ids* apart, all of the same length if they can."""
    for size in range(_SHORTEST, max(map(len, ids), default=0)):
        if len({name[-size:] for name in ids}) == len(set(ids)):
            return {name: name[-size:] for name in ids}
    return {name: str(name) for name in ids}


def _message(
    entry: HistoryEntry, end: str, results: Mapping[CallId, CallResult], *, with_results: bool
) -> Iterator[str]:
    message = entry.message
    at = f"{when(entry.time, time.time())} · {visible(end)}"
    match message:
        case UserMessage():
            who = "you" if message.origin in {"user", "steer", "queue"} else "engine"
            yield _ruled(who, at)
            yield visible(message.text).strip("\n")
            yield from (f"[{visible(part.media_type)}]" for part in message.parts if not isinstance(part, TextPart))
            yield ""
        case AssistantMessage():
            yield _ruled(one_line(message.model, 60) or "assistant", at)
            if message.text.strip():
                yield visible(message.text).strip("\n")
            for call in message.calls:
                yield from _call(call, results.get(call.call_id), with_results=with_results)
            yield ""
        case ResultsMessage():
            return


def _usage(story: History, entry: HistoryEntry, *, ends_turn: bool) -> Iterator[str]:
    """Yield what the request of a message took, and what its turn took behind the last one of that."""
    step = story.steps.get(entry.message.id)
    if step is not None:
        yield f"  ({_taken(step.usage, step.cost)})"
        yield ""
    result = story.turns.get(entry.turn_id) if entry.turn_id is not None and ends_turn else None
    if result is not None:
        reason = result.stop_reason.replace("_", " ")
        steps = counted(result.steps, "step")
        yield f"  ({reason}: {steps}, with sub-agents {_taken(result.usage, result.cost)})"
        yield ""


def _taken(usage: Usage, cost: float) -> str:
    cached = f", {usage.cache_share:.0%} of the prompt from the cache" if usage.cache_read else ""
    return f"{counted(usage.total, 'token')}{cached}{f', {format_cost(cost)}' if cost else ''}"


def _ruled(who: str, at: str) -> str:
    return f"── {who} {'─' * max(3, min(width(), 100) - len(who) - len(at) - 6)} {at}"


def _call(call: CallPart, result: CallResult | None, *, with_results: bool) -> Iterator[str]:
    state = "no result" if result is None else "failed" if result.settlement.failed else result.settlement.status
    yield "  " + one_line(f"[{state}] {call.tool} {call.arguments}", min(width(), 200) - 2)
    if with_results and result is not None:
        yield from (f"    {line}" for line in visible(result.settlement.text).split("\n"))
