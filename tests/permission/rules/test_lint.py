"""What is odd about rules: each kind of finding, and nothing where nothing is odd."""

from __future__ import annotations

import time

import attrs
import pytest
from hypothesis import given

from engine.core.permission_types import UNKNOWN, RequiredRight, Rule
from engine.permission.rules.lint import lint
from engine.permission.rules.path_pattern import is_resolved
from engine.permission.rules.profiles import PROFILES, defaults
from engine.permission.rules.rule_file import parse_rule
from engine.permission.rules.rules import LAYERS, Layer, LayerName, Ruleset
from tests.permission.rules.test_rules import HOME, PROJECT, SOME_LAYERS, SOME_RIGHT


def layer(name: LayerName, text: str) -> Layer:
    lines = [line.strip() for line in text.strip().splitlines()]
    return Layer(name, tuple(parse_rule(line, f"c:{number}") for number, line in enumerate(lines, 1)))


def lint_messages(**layers: str) -> list[str]:
    made = [layer(name, layers[name]) for name in LAYERS if name in layers]
    return [str(finding) for finding in lint(made, PROJECT, HOME)]


def test_ordinary_rules_are_fine() -> None:
    assert (
        lint_messages(
            defaults="ask * *\nallow read *\ndeny edit *.pem",
            project="allow bash npm run *\nask edit docs/**",
            user="deny bash git push *\nallow bash git push origin main\nallow! edit test.pem\nallow mcp_docs* *\n"
            "deny bash rm*\nallow bash python3 -m pytest *\nask bash sudo *\nallow bash sudo apt update",
        )
        == []
    )


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            "allow bash git status\nask bash git *",
            "warning: 'allow bash git status' of the layer user (c:1): it has no effect: 'ask bash git *' "
            "(c:2) comes later and matches everything it matches; write general rules first",
        ),
        (
            "deny read src/a.py\nallow read src",
            "warning: 'deny read src/a.py' of the layer user (c:1): it has no effect: 'allow read src' (c:2) "
            "comes later and matches everything it matches; write general rules first",
        ),
        (
            "deny bash:read ls *\nallow bash ls *",
            "warning: 'deny bash:read ls *' of the layer user (c:1): it has no effect: 'allow bash ls *' "
            "(c:2) comes later and matches everything it matches; write general rules first",
        ),
        (
            "deny read a\ndeny bash b\ndeny read a",
            "warning: 'deny read a' of the layer user (c:1): it is written twice: 'deny read a' (c:3) has "
            "the same pattern, and the last one wins",
        ),
        (
            "deny read a\nask read a",
            "warning: 'deny read a' of the layer user (c:1): it has no effect: 'ask read a' (c:2) has the "
            "same pattern, and the last one wins",
        ),
        (
            "allow! bash make *",
            "warning: 'allow! bash make *' of the layer user (c:1): it lifts nothing, because no lower layer "
            "denies any of it: write 'allow'",
        ),
        (
            "deny reads *.pem",
            "hint: 'deny reads *.pem' of the layer user (c:1): no built-in tool needs the permission "
            "'reads': did you mean read?",
        ),
        (
            "allow outside src",
            "",
        ),
        (
            "allow outside ./src",
            "warning: 'allow outside ./src' of the layer user (c:1): it matches nothing: outside is only "
            "about paths outside of the project",
        ),
        (
            "deny bash cd * && rm *",
            "warning: 'deny bash cd * && rm *' of the layer user (c:1): it hardly ever matches: rules are "
            "matched against each command of a script separately, without '&&', '|' and ';'",
        ),
        (
            "allow * *",
            "warning: 'allow * *' of the layer user (c:1): it allows everything: use the profile 'full' to say so",
        ),
        (
            "allow opaque *",
            "warning: 'allow opaque *' of the layer user (c:1): it allows scripts whose effects cannot be determined",
        ),
        (
            "allow outside *",
            "hint: 'allow outside *' of the layer user (c:1): it allows the whole machine, wherever 'read' "
            "and 'edit' are allowed",
        ),
        (
            "allow bash *",
            "warning: 'allow bash *' of the layer user (c:1): it allows every command, 'rm -rf' among them",
        ),
        (
            "allow bash * --help",
            "warning: 'allow bash * --help' of the layer user (c:1): it begins with a wildcard, so it "
            "matches any program with such arguments",
        ),
        (
            "allow bash sudo *",
            "warning: 'allow bash sudo *' of the layer user (c:1): 'sudo' runs other programs: name the one "
            "it may run, 'sudo PROGRAM *'",
        ),
        (
            "allow bash /usr/bin/python3 -c *",
            "warning: 'allow bash /usr/bin/python3 -c *' of the layer user (c:1): '/usr/bin/python3 -c' runs "
            "other programs: name the one it may run, '/usr/bin/python3 -c PROGRAM *'",
        ),
        (
            "allow bash ls*",
            "hint: 'allow bash ls*' of the layer user (c:1): it matches 'lsx' too: write 'ls *' for 'ls' and its arguments",
        ),
        (
            "allow bash git push*",
            "hint: 'allow bash git push*' of the layer user (c:1): it matches 'pushx' too: write 'git push *' for 'push' "
            "and its arguments",
        ),
    ],
)
def test_suspicious_rules_in_a_layer(rules: str, message: str) -> None:
    assert lint_messages(user=rules) == ([message] if message else [])


def test_a_deny_below_makes_an_allow_useless() -> None:
    assert lint_messages(defaults="deny edit *", user="allow edit docs/**", project="allow edit src") == [
        "warning: 'allow edit src' of the layer project (c:1): it allows nothing: 'deny edit *' (c:1) of the layer defaults "
        "denies all of it, and a deny stays",
        "warning: 'allow edit docs/**' of the layer user (c:1): it allows nothing: 'deny edit *' (c:1) of the layer defaults "
        "denies all of it, and a deny stays; 'allow!' would lift it",
    ]


def test_overridden_deny_is_ineffective() -> None:
    assert lint_messages(defaults="deny edit *\nask edit docs", user="allow edit docs/a") == []
    assert lint_messages(defaults="deny edit *", user="allow! edit docs", host="allow edit docs/a") == []


def test_an_override_of_a_repository() -> None:
    assert lint_messages(defaults="deny edit *", project="allow! edit src") == [
        "warning: 'allow! edit src' of the layer project (c:1): a repository cannot lift a deny: it counts as 'allow'"
    ]


def test_pattern_that_matches_nothing() -> None:
    broken = Rule(permission="read", pattern="a/../b", action="deny", origin="c:1")
    assert [str(finding) for finding in lint([Layer("user", (broken,))], PROJECT, HOME)] == [
        "error: 'deny read a/../b' of the layer user (c:1): the path pattern 'a/../b' matches nothing: paths "
        "never contain '..'"
    ]


def test_host_permissions_can_be_declared() -> None:
    rules = [layer("user", "deny deploy *")]
    assert lint(rules, PROJECT, HOME, permissions=["deploy"]) == ()
    assert len(lint(rules, PROJECT, HOME)) == 1


@pytest.mark.parametrize("profile", PROFILES)
def test_the_profiles_are_in_order(profile: str) -> None:
    """As a user's rules they would be fine, but for what they allow on purpose."""
    rules = Layer("user", defaults(profile).rules)
    odd = [finding for finding in lint([rules], PROJECT, HOME) if finding.severity != "hint"]
    assert [str(finding.rule) for finding in odd] == (["allow * *"] if profile == "full" else [])


@given(SOME_LAYERS, SOME_RIGHT)
def test_reported_rules_have_no_effect(layers: list[Layer], right: RequiredRight) -> None:
    if UNKNOWN in right.pattern or not is_resolved(right.pattern) or right.spellings:
        return
    # Each rule an object of its own: two that are equal are told apart.
    layers = [Layer(layer.name, tuple(attrs.evolve(rule) for rule in layer.rules)) for layer in layers]
    for finding in lint(layers, PROJECT, HOME):
        before = Ruleset(layers, PROJECT, HOME).judge(right.permission, right.pattern)
        if "no effect" in finding.message or "twice" in finding.message:
            without = _without(layers, finding.layer, id(finding.rule))
            after = Ruleset(without, PROJECT, HOME).judge(right.permission, right.pattern)
            assert before.verdict == after.verdict
        if "nothing: 'deny" in finding.message:
            assert before.rule is not finding.rule


def _without(layers: list[Layer], name: LayerName, rule: int) -> list[Layer]:
    """Return the layers without this one rule."""
    return [
        Layer(layer.name, tuple(each for each in layer.rules if id(each) != rule)) if layer.name == name else layer
        for layer in layers
    ]


def test_500_rules_are_read_in_no_time() -> None:
    text = "\n".join(f"allow bash tool{number} *\ndeny read src/part{number}/*.py" for number in range(250))
    began = time.process_time()
    assert lint_messages(defaults="ask * *", user=text) == []
    assert time.process_time() - began < 10
