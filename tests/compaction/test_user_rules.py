"""What of a user's words survives a summary, measured on rules, on ordinary prompts, and on both in one prompt.

The lists in `prompts/` were written before the detection was tuned on them. A rule that is lost costs more than a line that
need not have been kept, so the bound for ordinary prompts is one of size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import pytest
from trio.testing import MockClock

from engine.compaction.token_estimate import text_tokens
from engine.compaction.user_rules import directives_in
from engine.compaction.verbatim_parts import MOST_STATEMENT_TOKENS, RULES, STATEMENTS, collect_pins, fit_pins
from engine.core.ids import PartId
from engine.core.llm_types import ModelRequest
from engine.core.messages import TextPart
from engine.testing.script import Answer
from tests.support.histories import INFO, saying, says, summary, words
from tests.support.world import said, world

PROMPTS: Final = Path(__file__).parent / "prompts"
RULE_LINES: Final = (PROMPTS / "statements.txt").read_text().splitlines()
ORDINARY: Final = (PROMPTS / "ordinary.txt").read_text().splitlines()
# Written before the detection as well: what programs say, which users paste.
PASTED: Final = (PROMPTS / "pasted.txt").read_text().splitlines()
MIXED: Final = [line.split("|") for line in (PROMPTS / "mixed.txt").read_text().splitlines()]


USELESS: Final = summary(decisions="- none")


def kept(text: str) -> list[str]:
    return [directive.text for directive in directives_in(text)]


def test_rules_in_any_words_are_kept() -> None:
    lost = [line for line in RULE_LINES if kept(f"{line}\nThe page is slow.") != [line]]
    assert len(lost) <= 0.01 * len(RULE_LINES), lost


@pytest.mark.parametrize(("prompt", "rule"), MIXED)
def test_rule_within_prompt_is_kept(prompt: str, rule: str) -> None:
    assert rule in kept(prompt)


def test_ordinary_prompts_are_seldom_rules() -> None:
    rules = [line for line in ORDINARY if any(directive.is_rule for directive in directives_in(line))]
    assert len(rules) <= 0.06 * len(ORDINARY), rules


def test_ordinary_prompts_cost_few_characters() -> None:
    assert len([line for line in ORDINARY if kept(line)]) <= 0.3 * len(ORDINARY)
    assert sum(len(text) for line in ORDINARY for text in kept(line)) <= 10 * len(ORDINARY)


@pytest.mark.parametrize(
    "text",
    [
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    x = f(3)',
        "import os\nx = {'a': 1}\nreturn x;",
        "$ make check\nmake: *** [all] Error 2",
        "2026-01-01 10:00:00 INFO started\n2026-01-01 10:00:01 INFO listening",
    ],
)
def test_pasted_code_and_output_are_not_kept(text: str) -> None:
    assert kept(text) == []


def test_pasted_messages_are_not_kept() -> None:
    found = [line for line in PASTED if kept(f"I get this:\n{line}")]
    assert len(found) <= 0.03 * len(PASTED), found


@pytest.mark.parametrize(
    "rule",
    [
        "Error: messages never contain paths.",
        "Warning: never push to main.",
        "WARNING: the staging database is shared.",
        "git: squash before merging",
        "make: always with tabs",
        "DEBUG stays off in production.",
        "ERROR goes to stderr, INFO to stdout.",
        "ValueError is for bad input only.",
        "app.py stays the only entry point.",
        "db.internal:5432 is the only database.",
        "GET /health stays public.",
        "HTTP/2 only.",
        "RFC3339 for all dates.",
        "timeout = 30s",
        "The CLI exits with code 2 on bad arguments.",
    ],
)
def test_rules_that_look_like_messages_are_kept(rule: str) -> None:
    assert kept(rule) == [rule]


def test_statements_have_a_budget_of_their_own() -> None:
    messages = [says(f"Module {n} belongs to team {n}, which sits in another building.") for n in range(600)]
    pins = fit_pins(collect_pins([says("Never push."), *messages]), 100_000)
    assert pins.rules == ("Never push.",)
    assert 0 < sum(map(text_tokens, pins.statements)) <= MOST_STATEMENT_TOKENS
    assert pins.statements[-1] == "Module 599 belongs to team 599, which sits in another building."
    assert pins.dropped_rule_count == 0


def test_rules_outlive_statements() -> None:
    messages = [says(f"Never touch module {n}. Module {n} is ours.") for n in range(100)]
    pins = fit_pins(collect_pins(messages), 900)
    assert pins.rules
    assert pins.statements == ()


def test_two_hundred_rules_fit() -> None:
    pins = fit_pins(collect_pins([says(line) for line in RULE_LINES[-200:]]), 50_000)
    assert len(pins.rules) + len(pins.statements) >= 195


def test_pasted_document_keeps_few_statements() -> None:
    paste = "\n".join(f"Chapter {n} tells the story of a ship." for n in range(500))
    assert len(collect_pins([says(f"The port stays 7431.\n{paste}\nAnna owns the schema.")]).statements) == 20


def test_statements_carry_over() -> None:
    first = collect_pins([says("The port stays 7431. Never push.")])
    record = says("the record", origin="summary")
    parts = [TextPart(id=PartId("p"), text=text) for text in first.texts()]
    assert [part.text.split("\n")[0] for part in parts] == [RULES, STATEMENTS]
    again = collect_pins([attrs.evolve(record, parts=(*record.parts, *parts)), says("Anna owns the schema.")])
    assert (again.rules, again.statements) == (("Never push.",), ("The port stays 7431.", "Anna owns the schema."))


async def test_rules_survive_a_useless_summary(autojump_clock: MockClock) -> None:
    """The whole way: a session in which the user states a rule per turn, and a summary that mentions none."""

    def answer(request: ModelRequest) -> Answer:
        return saying(USELESS if request.system.startswith("You keep the record") else words(1_500))

    rules = RULE_LINES[-80:]
    async with world(answer, repeat=True, info=attrs.evolve(INFO, context=400_000)) as w:
        await w.play("Write a parser.")
        for rule in rules:
            await w.play(rule)
        await w.play("Go on.")
        assert (await w.session.context.compact()).stop_reason == "completed"
        await w.play("And now?")
        sent = [said(message) for message in w.requests[-1].transcript]
    assert sum(len(text) for text in sent) < 100_000
    assert [rule for rule in rules if not any(rule in text for text in sent)] == []
