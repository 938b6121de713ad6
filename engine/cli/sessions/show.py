"""`engine sessions show`: print a session's conversation."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from itertools import zip_longest

import attrs

from engine.cli.sessions.session_command import (
    resolve_session_id,
    run_subcommand,
    with_store,
)
from engine.cli.sessions.table import format_moment
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars, one_line, stdout_width
from engine.core.events import StepEnded
from engine.core.ids import CallId, MessageId
from engine.core.messages import AssistantMessage, CallPart, CallResult, ResultsMessage, TextPart, Usage, UserMessage
from engine.export.format_cost import format_cost
from engine.export.history import History, HistoryEntry, render_history
from engine.store.projection import make_title
from engine.store.store_protocols import FullStore, SpendingQuery
from engine.tools.tool_text import counted

_SHORTEST = 6


def main(arguments: list[str]) -> int:
    """Run the subcommand; return the exit code."""
    return run_subcommand("sessions show", arguments, _show)


def _show(args: argparse.Namespace) -> int:
    async def work(store: FullStore) -> History:
        session_id = await resolve_session_id(store, args.session)
        story = render_history(await store.load(session_id))
        spent = next(iter(await store.spending(SpendingQuery(by="session", of=(session_id,)))), None)
        if spent is None:
            return story
        # Including its sub-agents, as in `engine stats`.
        return attrs.evolve(story, state=attrs.evolve(story.state, usage=spent.usage, cost=spent.cost))

    story = with_store(args, work, only_reads=True)
    return print_text(
        _as_json(story) if args.json else _as_text(story, with_results=args.results, with_usage=args.usage)
    )


def session_title(story: History) -> str:
    """Return a session's title, or the beginning of its first prompt."""
    prompts = (
        make_title(entry.message.text)
        for entry in story.entries
        if isinstance(entry.message, UserMessage) and entry.message.origin in {"user", "steer", "queue"}
    )
    return make_title(story.state.title) or next((title for title in prompts if title), "")


# -- as JSON ---------------------------------------------------------------------------------


def _as_json(story: History) -> str:
    # Imported here: only JSON needs cattrs.
    from engine.journal.codec import encode_message

    state = story.state
    document = {
        "id": state.session_id,
        "title": session_title(story),
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
        "answers": [{"call": call_id, "answer": text} for call_id, texts in story.answers.items() for text in texts],
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
        one_line(session_title(story), 200) or "(empty)",
        " · ".join(escape_control_chars(fact) for fact in facts if fact),
        "",
    ]
    ends = short_ends([entry.message.id for entry in story.entries])
    results = {
        result.call_id: result
        for entry in story.entries
        if isinstance(entry.message, ResultsMessage)
        for result in entry.message.results
    }
    # The usage of a turn comes after its last message, so each entry is compared with the next one.
    for entry, following in zip_longest(story.entries, story.entries[1:]):
        lines += _message(entry, ends[entry.message.id], results, story.answers, with_results=with_results)
        if with_usage:
            is_last = following is None or following.turn_id != entry.turn_id
            lines += _usage(story, entry, ends_turn=is_last)
    if state.turn is not None:
        lines += [
            "(A turn is still open; the rest of it appears here when it ends. `engine sessions` shows whether it is",
            "busy, waiting for you, or interrupted.)",
        ]
    return "\n".join(lines).rstrip("\n") + "\n"


def short_ends(ids: list[MessageId]) -> dict[MessageId, str]:
    """Return the shortest unique endings of *ids*, all of the same length if possible."""
    for size in range(_SHORTEST, max(map(len, ids), default=0)):
        if len({name[-size:] for name in ids}) == len(set(ids)):
            return {name: name[-size:] for name in ids}
    # Ids of imported sessions may end alike.
    return {name: str(name) for name in ids}


def _message(
    entry: HistoryEntry,
    end: str,
    results: Mapping[CallId, CallResult],
    answers: Mapping[CallId, tuple[str, ...]],
    *,
    with_results: bool,
) -> Iterator[str]:
    message = entry.message
    at = f"{format_moment(entry.time, time.time())} · {escape_control_chars(end)}"
    match message:
        case UserMessage():
            # Nudges and summaries are user messages for the model, but the user has not written them.
            who = "you" if message.origin in {"user", "steer", "queue"} else "engine"
            yield _heading(who, at)
            yield escape_control_chars(message.text).strip("\n")
            yield from (
                f"[{escape_control_chars(part.media_type)}]" for part in message.parts if not isinstance(part, TextPart)
            )
            yield ""
        case AssistantMessage():
            yield _heading(one_line(message.model, 60) or "assistant", at)
            if message.text.strip():
                yield escape_control_chars(message.text).strip("\n")
            for call in message.calls:
                yield from _call(call, results.get(call.call_id), with_results=with_results)
                # Whole: which rule asked is at the end.
                yield from (f"    {one_line(answer, len(answer))}" for answer in answers.get(call.call_id, ()))
            yield ""
        case ResultsMessage():
            return


def _usage(story: History, entry: HistoryEntry, *, ends_turn: bool) -> Iterator[str]:
    """Yield the tokens and cost of a message's request and, after the last message of a turn, of the turn."""
    step = story.steps.get(entry.message.id)
    if step is not None:
        yield f"  ({_spent(step.usage, step.cost)})"
        yield ""
    result = story.turns.get(entry.turn_id) if entry.turn_id is not None and ends_turn else None
    if result is not None:
        reason = result.stop_reason.replace("_", " ")
        requests = counted(result.steps, "request")
        yield f"  ({reason}: {requests}, with sub-agents {_spent(result.usage, result.cost)})"
        yield ""


def _spent(usage: Usage, cost: float) -> str:
    cached = f", {usage.cache_share:.0%} of the prompt from the cache" if usage.cache_read else ""
    return f"{counted(usage.total, 'token')}{cached}{f', {format_cost(cost)}' if cost else ''}"


def _heading(who: str, at: str) -> str:
    return f"── {who} {'─' * max(3, min(stdout_width(), 100) - len(who) - len(at) - 6)} {at}"


def _call(call: CallPart, result: CallResult | None, *, with_results: bool) -> Iterator[str]:
    state = "no result" if result is None else "failed" if result.settlement.failed else result.settlement.status
    yield "  " + one_line(f"[{state}] {call.tool} {call.arguments}", min(stdout_width(), 200) - 2)
    if with_results and result is not None:
        yield from (f"    {line}" for line in escape_control_chars(result.settlement.text).split("\n"))
