"""Figure `judging`: what the rules say of one right, with 500 rules in four layers."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.report import Figure, Row, interleaved, median
from engine.core.permission_types import UNKNOWN, Rule
from engine.permission.rules.profiles import defaults
from engine.permission.rules.rules import Layer, LayerName, Ruleset, RuleVerdict

RULES = 500
CALLS = 2_000
ROUNDS = 5
LIMIT = 20
PROJECT, HOME = "/home/dev/project", "/home/dev"
COMMANDS = tuple(f"tool{number} {word}" for number in range(60) for word in ("*", "run *", "* --force *"))
OPEN = ("*/secret *", "* --no-verify *", "*.pem", "git *", "git push *", "npm run *", "rm -rf *", "python3 -m pytest *")
PATHS = ("src/part{}/**", "*.kind{}", "name{}", "/srv/data{}/*.db", "docs/{}/*.md")
LAYERS: tuple[LayerName, ...] = ("project", "user", "host")

# What is asked, and how the rules decide it.
RIGHTS = {
    "a command of a rule": ("bash", "git push origin main", "allow"),
    "a command of no rule": ("bash", "make -C build check VERBOSE=1", "ask"),
    "a command with unknown words": ("bash", f"git push {UNKNOWN} {UNKNOWN}", "ask"),
    "a file that may be read": ("read", "engine/permission/rules.py", "allow"),
    "a file to be edited, of no rule": ("edit", "engine/permission/rules.py", "ask"),
    "a secret outside": ("read", "/home/dev/.aws/credentials", "ask"),
}


def measure() -> list[Row]:
    rules = ruleset()
    taken = interleaved(ROUNDS, *(_judging(rules, *right) for right in RIGHTS.values()), _bare)
    *each, base = (median(samples) * 1e6 for samples in taken)
    return [_row(what, took, base) for what, took in zip(RIGHTS, each, strict=True)]


def ruleset() -> Ruleset:
    """Return the profile `ask`, and as many rules of commands and paths as make 500."""
    made: list[Rule] = [Rule(permission="bash", pattern=pattern, action="allow") for pattern in (*COMMANDS, *OPEN)]
    # Those that a command with unknown words may always be.
    made = [
        Rule(permission="bash", pattern=rule.pattern, action="ask") if rule.pattern.startswith("*") else rule
        for rule in made
    ]
    wanted = RULES - len(defaults().rules) - len(made)
    made += [
        Rule(permission="edit" if number % 2 else "read", pattern=PATHS[number % 5].format(number), action="ask")
        for number in range(wanted)
    ]
    layers = [Layer(name, tuple(made[at :: len(LAYERS)])) for at, name in enumerate(LAYERS)]
    rules = Ruleset([defaults(), *layers], PROJECT, HOME)
    assert sum(len(layer.rules) for layer in rules.layers) == RULES
    return rules


def _judging(rules: Ruleset, permission: str, pattern: str, action: str) -> Callable[[], float]:
    assert rules.judge(permission, pattern).verdict == action
    return lambda: _each(lambda: rules.judge(permission, pattern))


def _bare() -> float:
    patterns = [command[:-1] for command in (*COMMANDS, *OPEN)]
    return _each(lambda: [pattern for pattern in patterns if "git push origin main".startswith(pattern)])


def _each(work: Callable[[], list[str] | RuleVerdict]) -> float:
    """Return the seconds that one run takes, of many."""
    began = time.perf_counter()
    for _ in range(CALLS):
        work()
    return (time.perf_counter() - began) / CALLS


def _row(what: str, took: float, base: float) -> Row:
    return Row(
        name=f"judging: {RULES} rules, {what}",
        measured=f"{took:.1f} µs",
        baseline=f"startswith of 188 {base:.1f} µs",
        ratio=took / base,
        target=f"≤ {LIMIT} µs",
        ok=took <= LIMIT,
    )


def _workload() -> None:
    rules = ruleset()
    for permission, pattern, action in RIGHTS.values():
        _judging(rules, permission, pattern, action)()


FIGURE = Figure(
    name="judging",
    about="rights by 500 rules in four layers",
    measure=measure,
    workload=_workload,
)
