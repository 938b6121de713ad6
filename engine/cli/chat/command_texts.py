"""What slash commands print: /help, /keys and /cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from engine.cli.chat.machine.slash_commands import SlashCommand
from engine.config.chat_keys import ACTIONS, KeyBindings
from engine.core.events import CompactionEnded, Durable, StepEnded, StepStarted, TurnEnded
from engine.core.messages import Usage
from engine.export.format_cost import format_cost

# The terminal itself turns these into a signal and into the end of the input.
_KEYS_OF_LINES: Final = (
    ("Tab, then Enter", "complete the path or command at the end of the line"),
    ("Ctrl+C", "cancel the turn; else clear the draft; twice: quit"),
    ("Ctrl+D", "quit"),
)

# Less is a rounding error of sums.
_LEAST_COST: Final = 1e-9


def help_rows(commands: Iterable[SlashCommand], keys: KeyBindings, *, is_linear: bool) -> tuple[tuple[str, str], ...]:
    """Return the commands and the most important keys, each with what it does."""
    rows = [(f"/{command.name} {command.usage}".rstrip(), command.summary) for command in commands]
    rows += [("@path", "add a file to the message"), ("!command", "run a command of your own")]
    if is_linear:
        return (*rows, *_KEYS_OF_LINES)
    return (*rows, *((", ".join(keys.keys_of(each.name)), each.summary) for each in ACTIONS if not each.is_edit))


def key_rows(keys: KeyBindings) -> tuple[tuple[str, str], ...]:
    """Return all actions, each with its keys and summary."""
    return tuple((each.name, f"{', '.join(keys.keys_of(each.name)) or '-'}: {each.summary}") for each in ACTIONS)


def cost_lines(events: Sequence[Durable]) -> list[str]:
    """Return what was spent: by model, by sub-agents, and in all. It may take long."""
    spent = _spent_by_model(events)
    own = sum(cost for _, cost in spent.values())
    total = max(own, sum(event.result.cost for event in events if isinstance(event, TurnEnded)))
    lines = [f"  {name}: {_usage_text(usage)}, {_price(cost)}" for name, (usage, cost) in spent.items() if usage.total]
    if total - own > _LEAST_COST:
        lines.append(f"  sub-agents: {format_cost(total - own)}")
    return [*lines, f"  in all: {_price(total) if lines else 'nothing'}"]


def _spent_by_model(events: Iterable[Durable]) -> dict[str, tuple[Usage, float]]:
    spent: dict[str, tuple[Usage, float]] = {}
    model = ""
    for event in events:
        if isinstance(event, StepStarted):
            model = event.model
        elif isinstance(event, (StepEnded, CompactionEnded)):
            name = model if isinstance(event, StepEnded) else f"{event.model or model} (summaries)"
            usage, cost = spent.get(name, (Usage(), 0.0))
            spent[name] = (usage + event.usage, cost + event.cost)
    return spent


def _usage_text(usage: Usage) -> str:
    share = f" ({usage.cache_share:.0%} from a cache)" if usage.cache_read else ""
    written = f", {usage.cache_write:,} into the cache" if usage.cache_write else ""
    return f"{usage.prompt:,} tokens in{share}{written}, {usage.output:,} out"


def _price(cost: float) -> str:
    return format_cost(cost) or "unknown price"
