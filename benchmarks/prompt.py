"""Figure `prompt`: reading all that a session's prompt is made of, from files that are in the cache of the machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import trio

from benchmarks.report import Figure, Row, interleaved, median
from engine.prompt.layers import PromptInputs, PromptLayers
from engine.prompt.reminders import diff_sections

SKILLS = 20
ROUNDS = 40
LIMIT_MS = 5.0
NAMES = ("AGENTS.md", "pkg/AGENTS.md", "pkg/deep/CLAUDE.md")
TEXT = "- Write tests first, and name them for what they hold.\n" * 100


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        project = _project(Path(folder))
        layers = PromptLayers(home=folder, is_trusted=lambda _: True)
        cwd = str(project / "pkg/deep")
        first = PromptInputs(cwd=cwd, system="", family="claude", model="anthropic/claude-sonnet-4-5", now=time.time())
        reading = trio.run(layers.read, first)
        assert len(reading.skills.available) == SKILLS
        assert len(reading.sections) == 4 + len(NAMES)
        told = {section.name: section for section in reading.sections}
        again = PromptInputs(
            cwd=cwd, system="", family="claude", model=first.model, now=first.now, current=told, is_new=False
        )
        assert not diff_sections(told, reading.sections)
        files = sorted(path for path in project.rglob("*.md"))
        taken = interleaved(ROUNDS, _reading(layers, first), _reading(layers, again), lambda: _plain(files))
    new, step, base = (median(samples) * 1e3 for samples in taken)
    return [
        _row(f"prompt: a new baseline of {len(NAMES)} files and {SKILLS} skills", new, base),
        _row("prompt: the look before each request whether something has changed", step, base),
    ]


def _project(folder: Path) -> Path:
    project = folder / "project"
    for name in NAMES:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n{TEXT}")
    for number in range(SKILLS):
        skill = project / f".claude/skills/skill-{number}"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(f"---\nname: skill-{number}\ndescription: {'How to do it. ' * 10}\n---\n{TEXT}")
    (project / ".git").mkdir()
    (project / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return project


def _reading(layers: PromptLayers, wanted: PromptInputs) -> Callable[[], float]:
    async def timed() -> float:
        began = time.perf_counter()
        await layers.read(wanted)
        return time.perf_counter() - began

    return lambda: trio.run(timed)


def _plain(files: list[Path]) -> float:
    began = time.perf_counter()
    for file in files:
        file.read_text()
    return time.perf_counter() - began


def _row(name: str, took: float, base: float) -> Row:
    return Row(
        name=name,
        measured=f"{took:.2f} ms",
        baseline=f"reading the same files {base:.2f} ms",
        ratio=took / base,
        target=f"≤ {LIMIT_MS:g} ms",
        ok=took <= LIMIT_MS,
    )


FIGURE = Figure(name="prompt", about="the prompt of a session from its files", measure=measure)
