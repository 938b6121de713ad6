"""Rules in layers: the last one in a layer, the layers over one another, what stays denied, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.core.events import Verdict
from engine.core.permission_types import ACTIONS, UNKNOWN, RequiredRight, Rule
from engine.permission.rules import wildcard
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.rules import (
    LAYERS,
    PATH_PERMISSIONS,
    Layer,
    LayerName,
    Ruleset,
    RuleVerdict,
    applies_to,
    strictest,
)

PROJECT = "/home/me/app"
HOME = "/home/me"


def rule(text: str) -> Rule:
    action, permission, pattern = text.split(" ", 2)
    for verdict in ACTIONS:
        if action.removesuffix("!") == verdict:
            return Rule(action=verdict, permission=permission, pattern=pattern, override=action.endswith("!"))
    raise AssertionError(action)


def ruleset(**layers: str) -> Ruleset:
    """Return the rules of layers, each a text with a rule a line."""
    made = [
        Layer(name, tuple(rule(line.strip()) for line in layers[name].strip().splitlines()))
        for name in LAYERS
        if name in layers
    ]
    return Ruleset(made, PROJECT, HOME)


def deciding_rule(rules: Ruleset, permission: str, pattern: str, *spellings: str) -> str:
    """Return the word, and which rule of which layer said it."""
    verdict = rules.judge(permission, pattern, spellings)
    return f"{verdict.verdict}: {verdict.rule} [{verdict.layer}]" if verdict.rule else verdict.verdict


# -- within a layer ---------------------------------------------------------------------


def test_the_last_matching_rule_wins_within_a_layer() -> None:
    rules = ruleset(user="deny bash *\nallow bash git *\nask bash git push *")
    assert deciding_rule(rules, "bash", "git status") == "allow: allow bash git * [user]"
    assert deciding_rule(rules, "bash", "git push x") == "ask: ask bash git push * [user]"
    assert deciding_rule(rules, "bash", "rm x") == "deny: deny bash * [user]"


def test_no_rule_means_ask() -> None:
    verdict = ruleset(user="allow bash git *").judge("bash", "rm x")
    assert verdict == RuleVerdict(verdict="ask", right=RequiredRight("bash", "rm x"))
    assert verdict.is_default
    assert verdict.source == "no rule matches, so it is asked about"


def test_a_decision_names_its_rule_and_layer() -> None:
    deciding = Rule(permission="bash", pattern="rm *", action="deny", origin="config.toml:12")
    rules = Ruleset([Layer("user", (deciding,))], PROJECT, HOME)
    verdict = rules.judge("bash", "rm x", ["rm 'x'"])
    assert verdict == RuleVerdict(
        verdict="deny", right=RequiredRight("bash", "rm x", ("rm 'x'",)), rule=deciding, layer="user", spelling="rm x"
    )
    assert not verdict.is_default
    assert verdict.source == "the rule 'deny bash rm *' of the layer user (config.toml:12)"


def test_a_rule_for_several_permissions() -> None:
    rules = ruleset(user="deny mcp_* *\nallow mcp_docs *\nask * secret\ndeny re* *.pem")
    assert deciding_rule(rules, "mcp_x", "y") == "deny: deny mcp_* * [user]"
    assert deciding_rule(rules, "mcp_docs", "y") == "allow: allow mcp_docs * [user]"
    assert deciding_rule(rules, "bash", "secret") == "ask: ask * secret [user]"
    assert deciding_rule(rules, "edit", "a/secret/b") == "ask: ask * secret [user]"  # as a path pattern
    assert deciding_rule(rules, "bash", "a/secret/b") == "ask"
    assert deciding_rule(rules, "read", "a/b.pem") == "deny: deny re* *.pem [user]"


def test_reading_commands_obey_rules_for_all_commands() -> None:
    rules = ruleset(defaults="ask bash *\nallow bash:read *", user="deny bash rm *\nallow bash make *")
    assert deciding_rule(rules, "bash", "ls") == "ask: ask bash * [defaults]"
    assert deciding_rule(rules, "bash:read", "ls") == "allow: allow bash:read * [defaults]"
    assert deciding_rule(rules, "bash:read", "rm x") == "deny: deny bash rm * [user]"
    assert deciding_rule(rules, "bash:read", "make x") == "allow: allow bash make * [user]"


def test_path_permissions_take_path_patterns() -> None:
    rules = ruleset(user="allow read *\ndeny read *.env\nallow edit src/*.py\nallow bash src/*.py")
    assert deciding_rule(rules, "read", "a/b.env") == "deny: deny read *.env [user]"
    assert deciding_rule(rules, "edit", "src/a.py") == "allow: allow edit src/*.py [user]"
    assert deciding_rule(rules, "edit", "src/a/b.py") == "ask"
    assert deciding_rule(rules, "bash", "src/a/b.py") == "allow: allow bash src/*.py [user]"
    assert deciding_rule(rules, "read", "src/../../x") == "deny: deny read *.env [user]"  # it may be one
    assert deciding_rule(rules, "edit", "src/../../x.py") == "ask"


def test_command_patterns_match_no_paths() -> None:
    rules = ruleset(user="allow * a//b")
    assert deciding_rule(rules, "read", "a/b") == "ask"
    assert deciding_rule(rules, "bash", "a//b") == "allow: allow * a//b [user]"


# -- over the layers --------------------------------------------------------------------


def test_a_later_layer_wins() -> None:
    rules = ruleset(
        defaults="ask bash *", project="allow bash make *", user="ask bash make deploy", agent="allow bash make *"
    )
    assert deciding_rule(rules, "bash", "make") == "allow: allow bash make * [agent]"
    assert deciding_rule(rules, "bash", "rm") == "ask: ask bash * [defaults]"
    assert deciding_rule(ruleset(defaults="allow bash *", host="ask bash *"), "bash", "x") == "ask: ask bash * [host]"


@pytest.mark.parametrize("layer", ["user", "host", "agent"])
def test_a_deny_stays_unless_it_is_overridden(layer: str) -> None:
    below = "deny bash rm *"
    assert (
        deciding_rule(ruleset(defaults=below, **{layer: "allow bash rm *"}), "bash", "rm x")
        == "deny: deny bash rm * [defaults]"
    )
    assert (
        deciding_rule(ruleset(defaults=below, **{layer: "ask bash rm *"}), "bash", "rm x")
        == "deny: deny bash rm * [defaults]"
    )
    lifted = ruleset(defaults=below, **{layer: "allow! bash rm *"})
    assert deciding_rule(lifted, "bash", "rm x") == f"allow: allow! bash rm * [{layer}]"
    asking = ruleset(defaults=below, **{layer: "ask! bash rm *"})
    assert deciding_rule(asking, "bash", "rm x") == f"ask: ask! bash rm * [{layer}]"


def test_a_deny_above_an_override_stands() -> None:
    rules = ruleset(defaults="deny bash *", user="allow! bash *", host="deny bash rm *", agent="allow bash *")
    assert deciding_rule(rules, "bash", "rm x") == "deny: deny bash rm * [host]"
    assert deciding_rule(rules, "bash", "ls") == "allow: allow bash * [agent]"


def test_override_is_needed_only_across_layers() -> None:
    rules = ruleset(project="deny bash rm *", user="deny bash *\nallow! bash make *\nallow bash rm *")
    assert deciding_rule(rules, "bash", "make x") == "allow: allow! bash make * [user]"
    assert deciding_rule(rules, "bash", "rm x") == "deny: deny bash rm * [project]"


def test_repository_overrides_nothing() -> None:
    rules = ruleset(defaults="deny edit *", project="allow! edit *")
    assert deciding_rule(rules, "edit", "a") == "deny: deny edit * [defaults]"


def test_several_layers_of_one_name_follow_one_another() -> None:
    layers = [
        Layer("user", (rule("deny bash rm *"),)),
        Layer("defaults", (rule("ask bash *"),)),
        Layer("user", (rule("allow bash rm x"),)),
    ]
    assert deciding_rule(Ruleset(layers, PROJECT, HOME), "bash", "rm x") == "allow: allow bash rm x [user]"


def test_an_untrusted_layer_only_narrows() -> None:
    layer = Layer("project", (rule("deny bash rm *"), rule("allow bash *"), rule("ask! bash make *")))
    assert layer.untrusted == Layer("project", (rule("deny bash rm *"), rule("ask bash make *")))


# -- what is not known, and other spellings ---------------------------------------------


def test_unknown_word_matches_no_allow() -> None:
    rules = ruleset(user="allow bash git log *\nallow bash cat a.txt")
    assert deciding_rule(rules, "bash", f"git log {UNKNOWN}") == "allow: allow bash git log * [user]"
    assert deciding_rule(rules, "bash", f"cat {UNKNOWN}") == "ask"


def test_unknown_word_matches_a_possible_deny() -> None:
    rules = ruleset(user="allow bash git *\ndeny bash git push --force *")
    assert deciding_rule(rules, "bash", f"git push {UNKNOWN}") == "deny: deny bash git push --force * [user]"
    assert deciding_rule(rules, "bash", f"git pull {UNKNOWN}") == "allow: allow bash git * [user]"


def test_possible_match_hides_no_earlier_rule() -> None:
    assert (
        deciding_rule(ruleset(user="deny bash rm x\nask bash rm -r *"), "bash", f"rm {UNKNOWN}")
        == "deny: deny bash rm x [user]"
    )
    assert (
        deciding_rule(ruleset(user="deny bash rm x\nask bash rm *"), "bash", f"rm {UNKNOWN}")
        == "ask: ask bash rm * [user]"
    )
    rules = ruleset(defaults="deny bash rm *", user="ask! bash rm -r *")
    assert deciding_rule(rules, "bash", f"rm {UNKNOWN}") == "deny: deny bash rm * [defaults]"
    rules = ruleset(defaults="deny bash rm x", user="ask! bash rm *")
    assert deciding_rule(rules, "bash", f"rm {UNKNOWN}") == "ask: ask! bash rm * [user]"


def test_a_deny_is_lifted_only_by_all_candidates() -> None:
    rules = ruleset(defaults="deny bash rm *", user="allow! bash rm *\nask bash rm -r *")
    assert deciding_rule(rules, "bash", "rm x") == "allow: allow! bash rm * [user]"
    assert deciding_rule(rules, "bash", "rm -r x") == "deny: deny bash rm * [defaults]"
    assert deciding_rule(rules, "bash", f"rm {UNKNOWN}") == "deny: deny bash rm * [defaults]"


@pytest.mark.parametrize(
    "pattern", ["git", "git *", "git push --force", "git * --force *", "* --force *", "*.git", "?it push", "git p*h x*"]
)
def test_every_pattern_kind_handles_unknown_words(pattern: str) -> None:
    assert (
        deciding_rule(ruleset(user=f"deny bash {pattern}"), "bash", f"git{UNKNOWN}")
        == f"deny: deny bash {pattern} [user]"
    )
    assert deciding_rule(ruleset(user=f"deny bash {pattern}"), "bash", f"git p{UNKNOWN}") == (
        "ask" if pattern == "git" else f"deny: deny bash {pattern} [user]"
    )


def test_another_spelling_is_denied_as_well() -> None:
    rules = ruleset(user="allow bash *\ndeny bash rm *\nallow bash /bin/*")
    assert deciding_rule(rules, "bash", "/bin/rm x") == "allow: allow bash /bin/* [user]"
    assert deciding_rule(rules, "bash", "/bin/rm x", "rm x") == "deny: deny bash rm * [user]"
    assert rules.judge("bash", "/bin/rm x", ["rm x"]).spelling == "rm x"


def test_a_spelling_does_not_repeat_an_answered_rule() -> None:
    rules = ruleset(defaults="ask bash *", user="allow bash /bin/rm *")
    assert deciding_rule(rules, "bash", "/bin/rm x", "rm x") == "allow: allow bash /bin/rm * [user]"
    assert deciding_rule(rules, "bash", "rm x", "/bin/rm x") == "ask: ask bash * [defaults]"


def test_allow_for_another_spelling_allows_nothing() -> None:
    assert deciding_rule(ruleset(user="allow bash cat *"), "bash", "./cat x", "cat x") == "ask"


def test_a_link_is_denied_by_either_name() -> None:
    rules = ruleset(defaults="allow read *", user="deny read *.env")
    assert deciding_rule(rules, "read", "config/prod.env", "link") == "deny: deny read *.env [user]"
    assert deciding_rule(rules, "read", "config/prod", "link.env") == "deny: deny read *.env [user]"


# -- several rights ---------------------------------------------------------------------


def test_of_several_rights_the_strictest_decides() -> None:
    rules = ruleset(defaults="ask * *", user="allow bash *\ndeny bash rm *\nask bash git *")
    allowed, asking, denied = RequiredRight("bash", "ls"), RequiredRight("bash", "git x"), RequiredRight("bash", "rm x")
    by_default = RequiredRight("web", "x.org")
    assert judge_all(rules, [allowed, asking, denied, by_default]).right == denied
    assert judge_all(rules, [allowed, asking]).right == asking
    assert judge_all(rules, [allowed, allowed]).verdict == "allow"
    # A hook may answer what is asked by default, so the rule that asks is the stricter one.
    assert judge_all(rules, [by_default, asking]).right == asking
    assert not judge_all(rules, [by_default, asking]).is_default


def test_no_rights_means_ask() -> None:
    assert judge_all(ruleset(user="allow * *"), []) == RuleVerdict(verdict="ask")


# -- hiding -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "hidden"),
    [
        ({"user": "deny edit *"}, True),
        ({"user": "deny edit **"}, True),
        ({"user": "deny * *"}, True),
        ({"user": "deny edit *\nallow edit docs/*"}, False),
        ({"user": "allow edit docs/*\ndeny edit *"}, True),
        ({"user": "deny edit *\ndeny edit x"}, True),
        ({"user": "deny edit src"}, False),
        ({"defaults": "deny edit *", "user": "allow edit docs/*"}, True),
        ({"defaults": "deny edit *", "user": "allow! edit docs/*"}, False),
        ({"defaults": "deny edit *", "project": "allow! edit docs/*"}, True),
        ({"defaults": "deny edit *", "user": "allow! edit docs/*", "host": "deny edit *"}, True),
        ({"user": "ask edit *"}, False),
        ({}, False),
    ],
)
def test_tools_denied_for_every_call_are_hidden(layers: dict[str, str], hidden: bool) -> None:
    rules = ruleset(**layers)
    assert rules.hides("edit") == hidden
    if hidden:
        assert rules.judge("edit", "docs/a").verdict == "deny"


# -- bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permission", "pattern", "words"),
    [
        ("", "x", "not the name of a permission"),
        ("a b", "x", "not the name of a permission"),
        ("bash:write", "x", "not the name of a permission"),
        ("bash", " ", "pattern is empty"),
        ("bash", f"a{UNKNOWN}", "matches nothing"),
    ],
)
def test_a_rule_that_makes_no_sense(permission: str, pattern: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        Rule(permission=permission, pattern=pattern, action="allow")
    assert words in str(error.value)


def test_a_deny_needs_no_override() -> None:
    with pytest.raises(ConfigError, match="a deny needs no override"):
        Rule(permission="bash", pattern="x", action="deny", override=True)


def test_an_action_is_one_of_three() -> None:
    action: Verdict = "permit"  # type: ignore[assignment]  # what is tested
    with pytest.raises(ConfigError, match="action is allow, ask or deny, not 'permit'"):
        Rule(permission="bash", pattern="x", action=action)


def test_invalid_patterns_name_their_rule() -> None:
    broken = Rule(permission="read", pattern="a/../b", action="deny", origin="c.toml:3")
    with pytest.raises(ConfigError, match=r"^the rule 'deny read a/\.\./b' \(c\.toml:3\): the path pattern"):
        Ruleset([Layer("user", (broken,))], PROJECT, HOME)


def test_a_layer_has_one_of_the_names() -> None:
    name: LayerName = "nobody"  # type: ignore[assignment]  # what is tested
    with pytest.raises(ConfigError, match="a layer is one of defaults, project"):
        Layer(name)


# -- properties -------------------------------------------------------------------------

WORDS = ["a", "b", "a b", "a b c", "b a", "/a", "ab"]
COMMANDS = ["*", "a *", "a", "a b *", "*b*", "b *", "a ?", "* b", "ab", "/a *"]
PATHS = ["a", "b", "a/b", "b/a", "/a", "/a/b", "/home/me/app/a", ".", "b.env", "a/b.env"]
GLOBS = ["*", "a", "a/b", "*.env", "/a", "./b", "**/b", "a/**", "~", "/home"]
PERMISSIONS = ["bash", "bash:read", "*", "read", "b*", "*:read", "edit"]
SOME_RULE = st.builds(
    lambda permission, command, path, action, override: Rule(
        permission=permission,
        pattern=path if permission in PATH_PERMISSIONS else command,
        action=action,
        override=override and action != "deny",
    ),
    st.sampled_from(PERMISSIONS),
    st.sampled_from(COMMANDS),
    st.sampled_from(GLOBS),
    st.sampled_from(ACTIONS),
    st.booleans(),
)
SOME_LAYERS = st.lists(
    st.builds(Layer, st.sampled_from(LAYERS), st.lists(SOME_RULE, max_size=5).map(tuple)), max_size=5
)
UNSURE = st.sampled_from([*WORDS, UNKNOWN, f"a {UNKNOWN}", f"{UNKNOWN} b", f"a{UNKNOWN}", f"b {UNKNOWN} a"])
SOME_PATH = st.sampled_from([*PATHS, UNKNOWN, f"a/{UNKNOWN}", "a/../b"])
SOME_RIGHT = st.one_of(
    st.builds(
        RequiredRight, st.sampled_from(["bash", "bash:read", "other"]), UNSURE, st.lists(UNSURE, max_size=2).map(tuple)
    ),
    st.builds(RequiredRight, st.sampled_from(["read", "edit"]), SOME_PATH, st.lists(SOME_PATH, max_size=2).map(tuple)),
)


def judge_all(rules: Ruleset, rights: Sequence[RequiredRight]) -> RuleVerdict:
    return strictest(rules.judge(right.permission, right.pattern, right.spellings) for right in rights)


def judge_right(layers: Sequence[Layer], right: RequiredRight) -> RuleVerdict:
    return Ruleset(layers, PROJECT, HOME).judge(right.permission, right.pattern, right.spellings)


def rank(action: Verdict) -> int:
    return ACTIONS.index(action)


def judge_naively(layers: Sequence[Layer], permission: str, text: str) -> Verdict:
    """Return what the rules say of a text without anything unknown, by the words of the issue alone."""
    word: Verdict | None = None
    for name in LAYERS:
        own = [rule for layer in layers if layer.name == name for rule in layer.rules]
        last = next(
            (
                rule
                for rule in reversed(own)
                if applies_to(rule.permission, permission) and fits(rule, permission, text)
            ),
            None,
        )
        if last is not None and (word != "deny" or last.action == "deny" or (last.override and name != "project")):
            word = last.action
    return word or "ask"


def fits(rule: Rule, permission: str, text: str) -> bool:
    if permission not in PATH_PERMISSIONS:
        return wildcard.matches(rule.pattern, text)
    try:
        return PathPattern(rule.pattern, PROJECT, HOME).matches(text)
    except ConfigError:
        return False


@given(SOME_LAYERS, st.sampled_from(["bash", "bash:read", "other"]), st.sampled_from(WORDS))
def test_rules_agree_with_a_naive_model(layers: list[Layer], permission: str, text: str) -> None:
    assert judge_right(layers, RequiredRight(permission, text)).verdict == judge_naively(layers, permission, text)


@given(SOME_LAYERS, st.sampled_from(["read", "edit"]), st.sampled_from(PATHS))
def test_the_same_for_paths(layers: list[Layer], permission: str, path: str) -> None:
    assert judge_right(layers, RequiredRight(permission, path)).verdict == judge_naively(layers, permission, path)


@given(SOME_LAYERS, UNSURE)
def test_unknown_words_are_judged_strictly(layers: list[Layer], text: str) -> None:
    parts = text.split(UNKNOWN)
    for filling in product(["", "a", "b", "a b", " b", "x"], repeat=len(parts) - 1):
        value = "".join(a + b for a, b in zip(parts, [*filling, ""], strict=True))
        assert rank(judge_right(layers, RequiredRight("bash", text)).verdict) >= rank(
            judge_naively(layers, "bash", value)
        )


@given(SOME_LAYERS, SOME_RULE, st.sampled_from(LAYERS), st.integers(0, 5), SOME_RIGHT)
def test_a_deny_more_anywhere_never_allows_more(
    layers: list[Layer], extra: Rule, name: LayerName, at: int, right: RequiredRight
) -> None:
    denial = attrs.evolve(extra, action="deny", override=False)
    before = judge_right(layers, right)
    changed = [
        attrs.evolve(layer, rules=(*layer.rules[:at], denial, *layer.rules[at:]))
        if number == at % len(layers)
        else layer
        for number, layer in enumerate(layers)
    ]
    for more in (changed, [*layers, Layer(name, (denial,))], [Layer(name, (denial,)), *layers]):
        after = judge_right(more, right)
        assert rank(after.verdict) >= rank(before.verdict)
        assert after.strictness >= before.strictness


@given(SOME_LAYERS, SOME_RIGHT, st.one_of(UNSURE, SOME_PATH))
def test_a_spelling_more_never_allows_more(layers: list[Layer], right: RequiredRight, spelling: str) -> None:
    more = attrs.evolve(right, spellings=(*right.spellings, spelling))
    assert judge_right(layers, more).strictness >= judge_right(layers, right).strictness


@given(SOME_LAYERS, st.lists(SOME_RIGHT, min_size=1, max_size=4))
def test_several_rights_get_the_meet(layers: list[Layer], rights: list[RequiredRight]) -> None:
    rules = Ruleset(layers, PROJECT, HOME)
    each = [judge_right(layers, right) for right in rights]
    whole = judge_all(rules, rights)
    assert whole in each
    assert whole.strictness == max(verdict.strictness for verdict in each)
    assert strictest(reversed(each)).strictness == whole.strictness


@given(SOME_LAYERS, SOME_RULE, st.sampled_from(LAYERS[2:]), SOME_RIGHT)
def test_only_an_override_lifts_a_deny(layers: list[Layer], extra: Rule, name: LayerName, right: RequiredRight) -> None:
    below = [layer for layer in layers if LAYERS.index(layer.name) < LAYERS.index(name)]
    above = Layer(name, (attrs.evolve(extra, override=False),))
    if judge_right(below, right).verdict == "deny":
        assert judge_right([*below, above], right).verdict == "deny"


@given(SOME_LAYERS, st.sampled_from(["bash", "bash:read", "read", "edit", "other"]), st.one_of(UNSURE, SOME_PATH))
def test_hidden_tool_is_denied(layers: list[Layer], permission: str, text: str) -> None:
    rules = Ruleset(layers, PROJECT, HOME)
    if rules.hides(permission):
        assert rules.judge(permission, text).verdict == "deny"


@given(SOME_LAYERS, SOME_RIGHT)
def test_an_untrusted_repository_never_allows_more(layers: list[Layer], right: RequiredRight) -> None:
    without = [layer for layer in layers if layer.name != "project"]
    untrusted = [layer.untrusted if layer.name == "project" else layer for layer in layers]
    assert judge_right(untrusted, right).strictness >= judge_right(without, right).strictness
