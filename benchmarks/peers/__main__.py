"""`python -m benchmarks.peers [agents...]`: this engine and its peers, interleaved, as one table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from benchmarks.peers.agents import AGENTS, Place, install
from benchmarks.peers.scenarios import SCENARIOS, Unmeasurable

Medians = Mapping[str, Mapping[str, float]]

HISTORY: Final = Path(__file__).parents[1] / "history.jsonl"
_BASELINE: Final = "raw loop"
_OURS: Final = ("engine run", "engine (library)")
# By so much a figure may be worse than in the last entry of the same machine, each relative to its run's baseline.
_TOLERANCE: Final = 1.15
# What the baseline has of its own; for the others, none or as many as it likes would be no ratio.
_COMPARED: Final = ("first request ms", "step ms at 20", "step ms at 200", "deltas per s")
_MORE_IS_BETTER: Final = ("deltas per s",)


@attrs.frozen
class Entry:
    """A line of the history."""

    commit: str
    date: str
    machine: str
    versions: Mapping[str, str]
    figures: Medians


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and compare with the last entry of this machine; return the exit code."""
    options = _parser().parse_args(arguments)
    folder: Path = options.into.absolute()
    if options.install:
        for failure in install(folder):
            print(f"not installed, and SKIPPED: {failure}", file=sys.stderr)
    versions = _versions(folder, options.agents or list(AGENTS))
    figures = _measured(versions, options.scenarios or list(SCENARIOS), options.rounds, folder)
    entry = Entry(_commit(), time.strftime("%Y-%m-%d"), _machine(), versions, figures)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{entry.date}, {entry.commit}, {entry.machine}, {options.rounds} rounds, load {load}\n")
    print(table(entry))
    worse = regressions(_last(entry.machine), entry)
    if worse:
        print(f"\n{len(worse)} worse by more than 15 % than in the last entry of this machine: {'; '.join(worse)}")
    if options.json is not None:
        options.json.write_text(json.dumps(attrs.asdict(entry), indent=2) + "\n")
    if options.record:
        with HISTORY.open("a") as file:
            file.write(json.dumps(attrs.asdict(entry)) + "\n")
    return 1 if worse and options.check else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Measure this engine and its peers."
    )
    parser.add_argument("agents", nargs="*", metavar="agent", help=f"some of {', '.join(AGENTS)}; all by default")
    parser.add_argument("--scenario", action="append", dest="scenarios", choices=list(SCENARIOS), help="only these")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measure everything so often (default: 3)")
    parser.add_argument(
        "--into", type=Path, default=Path(".peers"), metavar="DIR", help="where the peers are installed"
    )
    parser.add_argument("--install", action="store_true", help="install or update them first; needs the network")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--record", action="store_true", help="add them to the history")
    parser.add_argument("--check", action="store_true", help="exit with 1 if ours are worse than in the history")
    return parser


def _versions(folder: Path, names: Sequence[str]) -> dict[str, str]:
    place = Place(home=folder / "home", project=folder, url="", installed=folder)
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = AGENTS[name].version_in(place)
        except KeyError:
            print(f"there is no agent {name!r}; there are: {', '.join(AGENTS)}", file=sys.stderr)
        except (OSError, subprocess.SubprocessError, IndexError) as error:
            print(f"{name} can't be started, and is SKIPPED: {error}", file=sys.stderr)
    return found


def _measured(names: Mapping[str, str], scenarios: Sequence[str], rounds: int, folder: Path) -> Medians:
    """Run everything so often, in turns, so that a busy minute hits all alike; return the medians."""
    samples: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in names}
    failed: set[tuple[str, str]] = set()
    for number in range(rounds):
        for scenario in scenarios:
            for name in names:
                if (name, scenario) in failed:
                    continue
                print(f"\r\x1b[Kround {number + 1}: {scenario}, {name}", end="", file=sys.stderr, flush=True)
                try:
                    figures = SCENARIOS[scenario](AGENTS[name], folder)
                except Unmeasurable as error:
                    failed.add((name, scenario))
                    print(f"\r\x1b[K{name}, {scenario}: {error}", file=sys.stderr)
                    continue
                for figure, value in figures.items():
                    samples[name][figure].append(value)
    print("\r\x1b[K", end="", file=sys.stderr)
    return {
        name: {figure: statistics.median(values) for figure, values in found.items()} for name, found in samples.items()
    }


def table(entry: Entry) -> str:
    """Return the figures as a table in Markdown; an empty cell could not be measured."""
    names = list(dict.fromkeys(figure for found in entry.figures.values() for figure in found))
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for agent, found in entry.figures.items():
        cells = [_cell(found[name]) if name in found else "" for name in names]
        title = f"**{agent}**" if agent in _OURS else f"{agent} {entry.versions[agent]}"
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: float) -> str:
    return (
        f"{value:,.0f}"
        if abs(value) >= 100 or value == int(value)
        else f"{value:.2f}"
        if abs(value) < 10
        else f"{value:.1f}"
    )


def regressions(last: Entry | None, now: Entry) -> list[str]:
    """Return which of our figures are worse than they were, relative to the baseline of each run."""
    if last is None:
        return []
    worse: list[str] = []
    for agent in _OURS:
        for figure in _COMPARED:
            before, after = (_ratio(entry.figures, agent, figure) for entry in (last, now))
            if before is not None and after is not None and after > before * _TOLERANCE:
                worse.append(f"{agent}, {figure}: {after:.2f} of the baseline, {before:.2f} in {last.commit}")
    return worse


def _ratio(figures: Medians, agent: str, figure: str) -> float | None:
    """Return by how much a figure is worse than the baseline's, if both were measured."""
    ours, baseline = (figures.get(name, {}).get(figure) for name in (agent, _BASELINE))
    if not ours or not baseline:
        return None
    return baseline / ours if figure in _MORE_IS_BETTER else ours / baseline


def _last(machine: str) -> Entry | None:
    if not HISTORY.exists():
        return None
    entries = [Entry(**json.loads(line)) for line in HISTORY.read_text().splitlines()]
    return next((entry for entry in reversed(entries) if entry.machine == machine), None)


def _commit() -> str:
    command = ["git", "-C", str(HISTORY.parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"


def _machine() -> str:
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
