"""What is told of changes, and of the mode that a session works in."""

from __future__ import annotations

import pytest

from engine.core.events import SharedContext
from engine.core.prompt_section import PromptSection
from engine.prompt.reminders import PromptChanges, diff_sections, mode_section, reminder_text

CWD = SharedContext(cwd="/x")


def section(name: str, text: str = "as it was") -> PromptSection:
    return PromptSection(name=name, text=text)


def by_name(*sections: PromptSection) -> dict[str, PromptSection]:
    return {one.name: one for one in sections}


def test_new_changed_and_removed_sections() -> None:
    told = by_name(section("base"), section("date"), section("skills"), section("git"))
    now = [section("base", "of another family"), section("date", "tomorrow"), section("git"), section("extra:x")]
    found = diff_sections(told, now, frozen=["base"])
    assert found == PromptChanges(sections=(section("date", "tomorrow"), section("extra:x")), removed=("skills",))
    assert reminder_text(found, told) == (
        "<reminder>\nThis comes from the program that runs you, not from the user. It applies from here on.\n\nThere are no skills any "
        "more.\n\nThis has changed and replaces the former text:\ntomorrow\n\nas it was\n</reminder>"
    )


def test_unchanged_sections() -> None:
    told = by_name(section("base"), section("date"))
    assert not diff_sections(told, list(told.values()))
    # Where it is from, and how often it may change, is nothing to tell.
    assert not diff_sections(
        told, [PromptSection(name=n, text="as it was", source="x", stability="step") for n in told]
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "instructions:/p/AGENTS.md",
            "The instructions from /p/AGENTS.md no longer apply.",
        ),
        ("instructions:https://e.org/a", "The instructions from https://e.org/a no longer apply"),
        ("extra:mcp", "The section about mcp no longer applies."),
        ("git", "The section about git no longer applies."),
        ("mode", "Plan mode is over: the user has approved the plan."),
    ],
)
def test_removed_sections_are_named(name: str, said: str) -> None:
    assert said in reminder_text(PromptChanges(removed=(name,)), by_name(section(name)))


@pytest.mark.parametrize(
    ("agent", "value", "is_bound", "said"),
    [
        ("", None, False, None),
        ("build", None, False, None),
        ("plan", None, True, "You are in plan mode"),
        ("plan", '"build"', False, None),
        ("", '"plan"', False, "You are in plan mode"),
        ("", '"build"', False, None),
        ("", "{", False, None),
        ("", "[1]", False, None),
        ("careful", None, True, "You plan first"),
        # One of that name whose rules bound nothing is like any other.
        ("plan", None, False, None),
    ],
)
def test_mode_follows_the_rights(agent: str, value: str | None, is_bound: bool, said: str | None) -> None:
    context = CWD if value is None else CWD.with_value("mode", value)
    found = mode_section(agent, context, is_bound=is_bound)
    assert (found and found.text.startswith(said or "")) is (None if said is None else True)
