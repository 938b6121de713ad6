"""What people are told of a decision: the rule that made it, and why the others did not."""

from __future__ import annotations

from engine.core.permission_types import UNKNOWN, RequiredRight, Rule
from engine.permission.rules.explain import explain
from engine.permission.rules.rules import Layer, Ruleset


def rule(pattern: str, action: str, line: int) -> Rule:
    for verdict in ("allow", "ask", "deny"):
        if action.removesuffix("!") == verdict:
            return Rule(
                permission="bash",
                pattern=pattern,
                action=verdict,
                override=action.endswith("!"),
                origin=f"c.toml:{line}",
            )
    raise AssertionError(action)


def explained(right: RequiredRight, *layers: Layer) -> list[str]:
    return explain(Ruleset(layers, "/p", "/h"), right).splitlines()


def test_decision_lists_all_matching_rules() -> None:
    layers = [
        Layer("defaults", (rule("*", "ask", 1),)),
        Layer("project", (rule("git push *", "deny", 2), rule("rm *", "deny", 3))),
        Layer("user", (rule("git *", "ask", 4), rule("git push *", "allow", 5))),
        Layer("agent", (rule("git push origin", "allow!", 6),)),
    ]
    assert explained(RequiredRight("bash", f"git push {UNKNOWN}"), *layers) == [
        "deny: bash git push …",
        "  by the rule 'deny bash git push *' of the layer project (c.toml:2)",
        "  these match as well:",
        "  - 'allow bash git push *' of the layer user (c.toml:5): a deny of a lower layer stays, unless a rule says 'allow!'",
        "  - 'ask bash git *' of the layer user (c.toml:4): 'allow bash git push *' comes after it in the same layer",
        "  - 'ask bash *' of the layer defaults (c.toml:1): the layer project is above it",
    ]
    assert explained(RequiredRight("bash", "git push origin"), *layers)[:2] == [
        "allow: bash git push origin",
        "  by the rule 'allow! bash git push origin' of the layer agent (c.toml:6)",
    ]


def test_no_rule() -> None:
    assert explained(RequiredRight("bash", "a\nb")) == [
        "ask: bash 'a\\nb'",
        "  by no rule matches, so it is asked about",
    ]


def test_another_spelling() -> None:
    layer = Layer("user", (rule("/bin/*", "allow", 1), rule("rm *", "deny", 2), rule("r?? x", "ask", 3)))
    assert explained(RequiredRight("bash", "/bin/rm x", ("rm x", "run x")), layer) == [
        "deny: bash /bin/rm x",
        "  by the rule 'deny bash rm *' of the layer user (c.toml:2), because it is rm x too",
        "  these match as well:",
        "  - 'allow bash /bin/*' of the layer user (c.toml:1): the strictest verdict of all spellings "
        "counts, and this one matches /bin/rm x",
        "  - 'ask bash r?? x' of the layer user (c.toml:3): the strictest verdict of all spellings counts, "
        "and this one matches run x",
    ]


def test_possible_matches_and_ineffective_allows() -> None:
    layers = [
        Layer("defaults", (rule("rm *", "deny", 1),)),
        Layer("project", (rule("rm *", "allow!", 2),)),
        Layer("user", (rule("rm -r *", "ask!", 3),)),
    ]
    assert explained(RequiredRight("bash", f"rm {UNKNOWN}"), *layers)[3:] == [
        "  - 'ask! bash rm -r *' of the layer user (c.toml:3): it may not match, and only a certain match lifts a deny",
        "  - 'allow! bash rm *' of the layer project (c.toml:2): a rule of a repository never lifts a deny of the user",
    ]


def test_an_allow_of_another_spelling() -> None:
    layer = Layer("user", (rule("cat *", "allow", 1), rule("./*", "ask", 2)))
    assert explained(RequiredRight("bash", "./cat x", ("cat x",)), layer)[3:] == [
        "  - 'allow bash cat *' of the layer user (c.toml:1): it matches only cat x, and an allow must match "
        "the right as it stands",
    ]


def test_the_stricter_possible_match_counts() -> None:
    layer = Layer("user", (rule("rm x", "deny", 1), rule("rm y", "ask", 2)))
    assert explained(RequiredRight("bash", f"rm {UNKNOWN}"), layer)[3:] == [
        "  - 'ask bash rm y' of the layer user (c.toml:2): it may match as well, and the stricter verdict counts",
    ]


def test_a_rule_is_named_once() -> None:
    layers = [Layer("defaults", (rule("*", "ask", 1),)), Layer("user", (rule("cat *", "allow", 2),))]
    assert explained(RequiredRight("bash", "cat x", ("cat 'x'",)), *layers) == [
        "allow: bash cat x",
        "  by the rule 'allow bash cat *' of the layer user (c.toml:2)",
        "  these match as well:",
        "  - 'ask bash *' of the layer defaults (c.toml:1): the layer user is above it",
    ]
