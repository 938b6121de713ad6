"""The approver as a whole: layers, chains of sessions, grants; what holds for all of them, and what each promise means.

Nothing here touches a file but the last part, which keeps grants in a real one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.rule_layers import RuleLayers
from engine.core.errors import ConfigError, EngineError
from engine.core.events import GrantScope, Offer, Right
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.permission_types import (
    ACTIONS,
    UNKNOWN,
    Allowance,
    HidingApprover,
    Judgement,
    PermissionQuery,
    PermissionScope,
    PersistentApprover,
    RequiredRight,
    Rule,
)
from engine.permission.grants.grant_file import GrantFile
from engine.permission.policy import Policy
from engine.permission.rules import path_pattern, wildcard
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.profiles import PROFILES
from engine.permission.rules.rule_file import parse_rule
from engine.permission.rules.rules import PATH_PERMISSIONS
from engine.permission.rules.wildcard import Wildcard

# No such folder is there, so it is a project of its own.
PROJECT, HOME = "/nowhere/app", "/nowhere/home"
GRANT_SCOPES: tuple[GrantScope, ...] = get_args(GrantScope)


def rules(*texts: str) -> tuple[Rule, ...]:
    return tuple(parse_rule(text, "test") for text in texts)


def policy(
    *user: str,
    project: Iterable[Rule] = (),
    host: Iterable[Rule] = (),
    profile: str = "ask",
    file: GrantFile | None = None,
    now: float = 0.0,
) -> Policy:
    brought = tuple(project)
    return Policy(
        profile=profile,
        user=rules(*user),
        host=tuple(host),
        home=HOME,
        load_project_rules=lambda *_: brought,
        file=file,
        now=lambda: now,
    )


def link(name: str = "root", *own: str, turn: str = "1") -> PermissionScope:
    return PermissionScope(session_id=SessionId(name), turn_id=TurnId(f"{name}-{turn}"), rules=rules(*own))


def needed(
    permission: str, pattern: str, *spellings: str, reads: bool = False, follows: tuple[str, ...] = ()
) -> RequiredRight:
    return RequiredRight(permission=permission, pattern=pattern, spellings=spellings, reads_only=reads, follows=follows)


def query(
    *rights: RequiredRight,
    chain: Iterable[PermissionScope] = (),
    offers: Iterable[Offer] | None = None,
    cwd: str = PROJECT,
    opaque: str = "",
    sandboxed: bool = False,
    read_only: bool = False,
) -> PermissionQuery:
    return PermissionQuery(
        chain=tuple(chain) or (link(),),
        call_id=CallId("call"),
        cwd=cwd,
        tool="tool",
        read_only=read_only,
        permission=rights[0].permission if rights else "none",
        rights=rights,
        offers=(exactly(*rights),) if offers is None else tuple(offers),
        opaque=opaque,
        sandboxed=sandboxed,
        detail="the whole text",
    )


def exactly(*rights: RequiredRight) -> Offer:
    return Offer(rights=tuple(Right(permission=one.permission, pattern=_exact(one)) for one in rights))


def _exact(one: RequiredRight) -> str:
    if one.permission in PATH_PERMISSIONS:
        return path_pattern.exact(one.pattern)
    return wildcard.exact(one.pattern)


def offer(*texts: str) -> Offer:
    rights = (text.partition(" ") for text in texts)
    return Offer(rights=tuple(Right(permission=name, pattern=pattern) for name, _, pattern in rights))


def allowed(one: Offer, scope: GrantScope = "session", seconds: float | None = None) -> Allowance:
    return Allowance(rights=one.rights, scope=scope, seconds=seconds)


def weight(judgement: Judgement) -> tuple[int, bool]:
    """How strict it is: what is asked by default, a hook may allow."""
    return ACTIONS.index(judgement.verdict), judgement.verdict == "ask" and not judgement.is_default


# -- whatever the rules are ----------------------------------------------------------------------

COMMANDS = (
    "ls",
    "ls -la",
    "rm x",
    "git push origin",
    "git log",
    f"rm {UNKNOWN}",
    UNKNOWN,
    f"git {UNKNOWN}",
    "npm run x",
)
PATHS = (
    "a.txt",
    "src/b.py",
    ".env",
    "SECRET.md",
    "/etc/hosts",
    "/nowhere/home/.ssh/id",
    "../beside",
    UNKNOWN,
    ".",
    "*",
)
COMMAND_PATTERNS = ("*", "ls *", "rm *", "git *", "git push *", "git push origin", "npm*", "* x")
PATH_PATTERNS = ("*", "*.env", "src/**", "/etc/**", "./a.txt", "SECRET.md", "~/.ssh", "/nowhere/beside")
NAMES = ("bash", "bash:read", "web", "*", "*:read", "opaque", "sandboxed")


@st.composite
def some_rule(draw: st.DrawFn, *actions: str) -> Rule:
    action = draw(st.sampled_from(actions or ACTIONS))
    is_path = draw(st.booleans())
    permission = draw(st.sampled_from([*sorted(PATH_PERMISSIONS), "*"] if is_path else NAMES))
    pattern = draw(st.sampled_from(PATH_PATTERNS if is_path else COMMAND_PATTERNS))
    lifts = action != "deny" and draw(st.integers(0, 3)) == 0
    return parse_rule(f"{action}{'!' if lifts else ''} {permission} {pattern}", "test")


some_rules = st.lists(some_rule(), max_size=4).map(tuple)
DENY = some_rule("deny")


@st.composite
def some_needed(draw: st.DrawFn) -> RequiredRight:
    if draw(st.booleans()):
        spellings = draw(st.lists(st.sampled_from(COMMANDS), max_size=2))
        return needed(
            draw(st.sampled_from(["bash", "web"])),
            draw(st.sampled_from(COMMANDS)),
            *spellings,
            reads=draw(st.booleans()),
        )
    spellings = draw(st.lists(st.sampled_from(PATHS), max_size=2))
    follows = draw(st.lists(st.sampled_from(COMMANDS), max_size=2))
    return needed(
        draw(st.sampled_from(sorted(PATH_PERMISSIONS))),
        draw(st.sampled_from(PATHS)),
        *spellings,
        follows=tuple(follows),
    )


some_offers = st.lists(
    st.builds(
        lambda names, paths: offer(*(f"bash {one}" for one in names), *(f"edit {one}" for one in paths)),
        st.lists(st.sampled_from(COMMAND_PATTERNS), max_size=2),
        st.lists(st.sampled_from(PATH_PATTERNS), max_size=2),
    ),
    max_size=2,
)


@st.composite
def some_chain(draw: st.DrawFn) -> tuple[PermissionScope, ...]:
    length = draw(st.integers(1, 3))
    return tuple(
        PermissionScope(session_id=SessionId(f"s{n}"), turn_id=TurnId(f"t{n}"), rules=draw(some_rules))
        for n in range(length)
    )


@st.composite
def some_query(draw: st.DrawFn) -> PermissionQuery:
    rights = draw(st.lists(some_needed(), min_size=1, max_size=3))
    sure = [one for one in rights if UNKNOWN not in one.pattern]
    return query(
        *rights,
        chain=draw(some_chain()),
        offers=[exactly(*sure), *draw(some_offers)],
        cwd=draw(st.sampled_from([PROJECT, f"{PROJECT}/src", "/"])),
        opaque=draw(st.sampled_from(["", "", "nobody knows"])),
        sandboxed=draw(st.booleans()),
        read_only=draw(st.booleans()),
    )


@attrs.frozen(kw_only=True)
class Rules:
    """The rules of all layers but those of agents."""

    profile: str
    project: tuple[Rule, ...]
    user: tuple[Rule, ...]
    host: tuple[Rule, ...]

    def policy(self) -> Policy:
        return attrs.evolve(policy(project=self.project, host=self.host, profile=self.profile), user=self.user)


some_layers = st.builds(Rules, profile=st.sampled_from(PROFILES), project=some_rules, user=some_rules, host=some_rules)
some_allowance = st.builds(
    allowed,
    st.builds(
        lambda names, paths: offer(*(f"{n} *" for n in names), *(f"{n} *" for n in paths)),
        st.lists(st.sampled_from(["bash", "bash:read", "web", "opaque", "sandboxed"]), max_size=3),
        st.lists(st.sampled_from(sorted(PATH_PERMISSIONS)), min_size=1, max_size=3),
    ),
    st.sampled_from(GRANT_SCOPES),
)


@pytest.mark.slow
@given(some_layers, some_query(), DENY, st.data())
@settings(max_examples=3 * settings().max_examples // 2)
def test_a_deny_more_never_allows_more(layers: Rules, call: PermissionQuery, deny: Rule, data: st.DataObject) -> None:
    where = data.draw(st.sampled_from(["project", "user", "host", "agent"]))
    before = weight(layers.policy().judge(call))
    if where == "agent":
        at = data.draw(st.integers(0, len(call.chain) - 1))
        chain = list(call.chain)
        chain[at] = attrs.evolve(chain[at], rules=_with(chain[at].rules, deny, data))
        call = attrs.evolve(call, chain=tuple(chain))
    elif where == "project":
        layers = attrs.evolve(layers, project=_with(layers.project, deny, data))
    elif where == "user":
        layers = attrs.evolve(layers, user=_with(layers.user, deny, data))
    else:
        layers = attrs.evolve(layers, host=_with(layers.host, deny, data))
    assert weight(layers.policy().judge(call)) >= before


def _with(rules_before: tuple[Rule, ...], deny: Rule, data: st.DataObject) -> tuple[Rule, ...]:
    at = data.draw(st.integers(0, len(rules_before)))
    return (*rules_before[:at], deny, *rules_before[at:])


@pytest.mark.slow
@given(some_layers, some_query(), st.lists(st.tuples(some_query(), some_allowance), max_size=4))
@settings(max_examples=3 * settings().max_examples // 2)
def test_no_allow_lifts_a_deny(
    layers: Rules, call: PermissionQuery, answers: list[tuple[PermissionQuery, Allowance]]
) -> None:
    rules_at_work = layers.policy()
    before = rules_at_work.judge(call)
    for question, answer in answers:
        try:
            # By the same sessions, so that it does hold for them.
            rules_at_work.grant(attrs.evolve(question, chain=call.chain), answer)
        except ConfigError:  # no project there
            assert (answer.scope, question.cwd) == ("project", "/")
    after = rules_at_work.judge(call)
    assert weight(after) <= weight(before)
    if before.verdict == "deny":
        assert after.verdict == "deny"


@pytest.mark.slow
@given(some_layers, some_query(), some_rules)
@settings(max_examples=3 * settings().max_examples // 2)
def test_sub_agents_get_the_intersection_of_permissions(
    layers: Rules, call: PermissionQuery, own: tuple[Rule, ...]
) -> None:
    rules_at_work = layers.policy()
    child = PermissionScope(session_id=SessionId("child"), turn_id=TurnId("below"), rules=own)
    nested = attrs.evolve(call, chain=(*call.chain, child))
    assert weight(rules_at_work.judge(nested)) >= weight(rules_at_work.judge(call))
    alone = [rules_at_work.judge(attrs.evolve(call, chain=(one,))) for one in nested.chain]
    assert weight(rules_at_work.judge(nested)) == max(map(weight, alone))


@pytest.mark.slow
@given(some_layers, some_query(), st.sampled_from(GRANT_SCOPES), st.data())
@settings(max_examples=3 * settings().max_examples // 2)
def test_an_offer_that_is_made_answers_the_question(
    layers: Rules, call: PermissionQuery, scope: GrantScope, data: st.DataObject
) -> None:
    rules_at_work = layers.policy()
    judgement = rules_at_work.judge(call)
    if judgement.verdict != "ask":
        assert (judgement.missing_rights, judgement.offers) == ((), None)
        return
    assert judgement.missing_rights
    assert judgement.offers is not None
    if not judgement.offers or (scope == "project" and call.cwd == "/"):
        return
    offered_one = data.draw(st.sampled_from(judgement.offers))
    other = attrs.evolve(call, chain=(link("other"),))
    elsewhere = rules_at_work.judge(other)
    rules_at_work.grant(call, allowed(offered_one, scope))
    assert rules_at_work.judge(call).verdict == "allow"
    if scope != "project":
        assert rules_at_work.judge(other) == elsewhere


@pytest.mark.slow
@given(some_layers, some_query(), some_query())
@settings(max_examples=3 * settings().max_examples // 2)
def test_grants_cover_only_what_was_offered(layers: Rules, call: PermissionQuery, later: PermissionQuery) -> None:
    rules_at_work = layers.policy()
    call = attrs.evolve(call, cwd=PROJECT)
    # What follows of a command is another matter: see below.
    bare = tuple(attrs.evolve(one, follows=()) for one in later.rights)
    later = attrs.evolve(later, chain=call.chain, rights=bare, cwd=PROJECT)
    before = rules_at_work.judge(later)
    offered = rules_at_work.judge(call).offers or ()
    for one in offered:
        rules_at_work.grant(call, allowed(one))
    if before.verdict == "ask" and rules_at_work.judge(later).verdict == "allow":
        given_rights = [right for one in offered for right in one.rights]
        assert all(any(_covers(one, right) for one in given_rights) for right in before.missing_rights)


def _covers(granted: Right, right: Right) -> bool:
    name, pattern = granted.permission, granted.pattern
    if name not in PATH_PERMISSIONS:
        return name == right.permission.removesuffix(":read") and Wildcard(pattern).matches(right.pattern)
    goes_out = right.permission == "outside" and pattern.startswith(("/", "~/"))
    return (name == right.permission or goes_out) and PathPattern(pattern, PROJECT, HOME).matches(right.pattern)


# -- what is said of a call -------------------------------------------------------------------------------


def test_policy_implements_all_approver_protocols() -> None:
    assert isinstance(policy(), PersistentApprover)
    assert isinstance(policy(), HidingApprover)


def test_verdict_names_rule_and_layer() -> None:
    judgement = policy("deny bash rm *").judge(query(needed("bash", "rm x")))
    assert judgement == Judgement(verdict="deny", source="the rule 'deny bash rm *' of the layer user (test)")


def test_deny_beats_ask_in_one_call() -> None:
    judgement = policy("deny bash rm *").judge(query(needed("bash", "npm x"), needed("bash", "rm x")))
    assert (judgement.verdict, judgement.missing_rights, judgement.offers) == ("deny", (), None)


def test_only_missing_rights_are_asked_and_offered() -> None:
    rights = (needed("bash", "ls", reads=True), needed("bash", "rm x"), needed("read", "a"), needed("edit", "/etc/x"))
    judgement = policy().judge(query(*rights))
    assert judgement.missing_rights == (
        Right(permission="bash", pattern="rm x"),
        Right(permission="edit", pattern="/etc/x"),
        Right(permission="outside", pattern="/etc/x"),
    )
    assert judgement.offers == (offer("bash rm x", "edit /etc/x"),)


def test_insufficient_offers_are_dropped() -> None:
    rights = (needed("bash", "rm x"), needed("edit", "b"))
    judgement = policy().judge(query(*rights, offers=[offer("bash rm *"), offer("bash rm *", "edit ./b")]))
    assert judgement.offers == (offer("bash rm *", "edit ./b"),)


def test_opaque_scripts_are_asked_about_each_time() -> None:
    call = query(needed("bash", "x"), offers=[offer("bash *", "opaque *")], opaque="it is dark")
    judgement = policy().judge(call)
    assert (judgement.verdict, judgement.offers) == ("ask", ())
    assert judgement.missing_rights[-1] == Right(permission="opaque", pattern="the whole text")
    held = policy()
    held.grant(call, allowed(offer("bash *", "opaque *")))
    assert held.judge(call).verdict == "ask"


@pytest.mark.parametrize("profile", ["ask", "auto-edit"])
@pytest.mark.parametrize(
    ("path", "offered"),
    [
        (".mcp.json", 0),
        ("sub/.mcp.json", 0),
        (".engine/config.toml", 0),
        (".claude/settings.local.json", 0),
        (f"{HOME}/.config/engine/config.toml", 0),
        (f"{HOME}/.claude.json", 0),
        ("/elsewhere/state/trust.json", 0),
        ("/elsewhere/own.toml", 0),
        (".git/hooks/pre-commit", 1),
        ("/elsewhere/other.toml", 1),
    ],
)
def test_leave_to_change_the_configuration_is_never_kept(profile: str, path: str, offered: int) -> None:
    judge = policy(profile=profile)
    judge.layers = RuleLayers(own_places=("/elsewhere/state", "/elsewhere/own.toml"))
    alone = query(needed("edit", path))
    both = query(needed("bash", f"cp x {path}"), needed("edit", path))
    for call in (alone, both):
        judgement = judge.judge(call)
        assert (judgement.verdict, len(judgement.offers or ())) == ("ask", offered)


@pytest.mark.parametrize(
    ("profile", "user", "verdict"),
    [
        ("ask", (), "ask"),
        ("ask", ("allow opaque *", "allow bash *"), "allow"),
        ("ask", ("allow opaque *", "allow bash *", "deny read *.pem"), "ask"),
        ("ask", ("allow opaque *", "allow bash *", "ask edit docs"), "ask"),
        ("full", (), "allow"),
        ("full", ("deny bash git push *",), "ask"),
        ("full", ("deny web *",), "allow"),  # no script needs that right
        ("full", ("deny opaque *",), "deny"),
        ("read-only", (), "deny"),
    ],
)
def test_opaque_scripts_are_allowed_only_without_restrictions(
    profile: str, user: tuple[str, ...], verdict: str
) -> None:
    judgement = policy(*user, profile=profile).judge(query(needed("bash", "x"), opaque="it is dark"))
    assert judgement.verdict == verdict


@pytest.mark.parametrize(
    ("profile", "user", "verdict", "is_default"),
    [
        ("ask", (), "ask", True),
        ("auto-edit", (), "allow", True),
        ("ask", ("allow sandboxed *",), "allow", False),
        ("auto-edit", ("ask bash npm *",), "ask", False),
        ("auto-edit", ("deny bash npm *",), "deny", False),
        ("auto-edit", ("ask sandboxed *",), "ask", True),
    ],
)
def test_sandbox_answers_default_questions(
    profile: str, user: tuple[str, ...], verdict: str, *, is_default: bool
) -> None:
    judgement = policy(*user, profile=profile).judge(query(needed("bash", "npm x"), sandboxed=True))
    assert (judgement.verdict, judgement.is_default) == (verdict, is_default)


def test_other_spellings_are_denied_too_and_never_allow() -> None:
    spelled = needed("bash", "/bin/rm x", "rm x")
    assert policy("deny bash rm *").judge(query(spelled)).verdict == "deny"
    assert policy("allow bash rm *").judge(query(spelled)).verdict == "ask"
    linked = needed("read", "real.txt", "link.txt")
    assert policy("deny read link.txt").judge(query(linked)).verdict == "deny"


@pytest.mark.parametrize("path", ["../beside", "src/../../x", f"{PROJECT}/../x", UNKNOWN])
def test_a_path_that_may_lead_out_is_outside(path: str) -> None:
    """What a tool of a host's own may tell: the rules follow no links, so `..` may lead anywhere."""
    judgement = policy("allow edit *").judge(query(needed("edit", path)))
    assert judgement.verdict == "ask"
    assert "outside" in {right.permission for right in judgement.missing_rights}
    assert policy("allow edit *", "deny edit a/b").judge(query(needed("edit", path))).verdict == "deny"


@pytest.mark.parametrize("path", [".", "./", "a.txt", "./a.txt", "src//x", f"{PROJECT}/a.txt"])
def test_paths_inside_the_project_in_any_spelling(path: str) -> None:
    judgement = policy("allow edit *").judge(query(needed("edit", path), cwd=f"{PROJECT}"))
    assert judgement.verdict == "allow"


def test_paths_are_relative_to_the_project() -> None:
    inner = policy("deny edit src/a.py")
    inner._projects[f"{PROJECT}/src"] = inner._project_at(PROJECT)  # as in a repository, which this one is not
    assert inner.judge(query(needed("edit", "a.py"), cwd=f"{PROJECT}/src")).verdict == "deny"
    call = query(needed("edit", "b.py"), cwd=f"{PROJECT}/src")
    inner.grant(call, allowed(call.offers[0]))
    assert inner.judge(call).verdict == "allow"
    assert inner.judge(query(needed("edit", "src/b.py"))).verdict == "allow"
    assert inner.judge(query(needed("edit", "b.py"))).verdict == "ask"


def test_without_a_project_everything_is_outside() -> None:
    nowhere = policy()
    call = query(needed("read", "etc/hosts"), cwd="/", offers=[offer("read /etc/hosts")])
    assert nowhere.judge(call).missing_rights == (Right(permission="outside", pattern="/etc/hosts"),)
    with pytest.raises(ConfigError, match="/ belongs to no project: allow it for this session, or once"):
        nowhere.grant(call, allowed(offer("read /etc/hosts"), "project"))
    assert nowhere.grants.current(0) == ()
    nowhere.grant(call, allowed(offer("read /etc/hosts")))
    assert nowhere.judge(call).verdict == "allow"


def test_a_file_named_star_is_one_file() -> None:
    """What a model may write for a click: the grant must not be for all files."""
    from engine.tools.call_values import Need

    need = Need(permission="edit", patterns=("*",))
    assert need.offered == (offer("edit ./\\*"),)
    held = policy()
    call = query(*need.needed, offers=need.offered)
    held.grant(call, allowed(call.offers[0]))
    assert held.judge(call).verdict == "allow"
    assert held.judge(query(needed("edit", "a.txt"))).verdict == "ask"


def test_unnamed_files_may_be_any() -> None:
    from engine.tools.call_values import Need

    need = Need(permission="edit")
    assert need.offered == ()
    assert policy("allow edit *", "allow outside *", "deny edit a").judge(query(*need.needed)).verdict == "deny"
    assert policy("allow edit src").judge(query(*need.needed)).verdict == "ask"


@pytest.mark.parametrize("cwd", [PROJECT, "/"])
def test_empty_query_is_asked(cwd: str) -> None:
    assert policy(profile="full").judge(query(cwd=cwd, offers=())).verdict == "ask"


def test_unreadable_project_rules_deny_calls() -> None:
    def broken(_: str, root: str) -> tuple[Rule, ...]:
        raise ConfigError(f"{root}/.engine/config.toml is no valid TOML")

    held = attrs.evolve(policy(), load_project_rules=broken)
    judgement = held.judge(query(needed("read", "a")))
    assert (judgement.verdict, judgement.source) == (
        "deny",
        f"the rules here, which can't be read: {PROJECT}/.engine/config.toml is no valid TOML",
    )


# -- what follows of a command ---------------------------------------------------------------------------

COPY = (needed("bash", "cp a b"), needed("edit", "b", follows=("cp a b",)))


def copy_to(path: str) -> PermissionQuery:
    line = f"cp a {path}"
    return query(
        needed("bash", line), needed("edit", path, follows=(line,)), offers=[offer("bash cp *", f"edit ./{path}")]
    )


def test_command_grants_cover_the_project_files_it_touches() -> None:
    held = policy()
    held.grant(copy_to("b"), allowed(copy_to("b").offers[0]))
    assert held.judge(copy_to("c")).verdict == "allow"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", f"{HOME}/.ssh/authorized_keys", ".env", ".git/hooks/pre-commit", "../x"]
)
@pytest.mark.parametrize("profile", ["ask", "auto-edit"])
def test_command_grants_exclude_outside_and_named_files(path: str, profile: str) -> None:
    held = policy(profile=profile)
    held.grant(copy_to("b"), allowed(copy_to("b").offers[0]))
    assert held.judge(copy_to(path)).verdict == "ask"
    assert policy("allow bash cp *", profile=profile).judge(copy_to(path)).verdict == "ask", "nor does a rule"


def test_command_rules_cover_consequences_but_no_other_rules() -> None:
    assert policy("allow bash cp *").judge(query(*COPY)).verdict == "allow"
    assert policy("allow bash cp *", "ask edit b").judge(query(*COPY)).verdict == "ask"
    assert policy("allow bash cp *", "deny edit b").judge(query(*COPY)).verdict == "deny"
    assert policy(profile="ask").judge(query(*COPY)).verdict == "ask"


# -- scopes -----------------------------------------------------------------------------------------------------

PUSH = needed("bash", "git push")


def pushed_in(*chain: PermissionScope, cwd: str = PROJECT) -> PermissionQuery:
    return query(PUSH, chain=chain, cwd=cwd)


@pytest.mark.parametrize(
    ("scope", "holding"),
    [
        ("turn", {"same", "child"}),
        ("session", {"same", "child", "later"}),
        ("project", {"same", "child", "later", "other"}),
    ],
)
def test_how_far_an_always_reaches(scope: GrantScope, holding: set[str]) -> None:
    """It is given to the root, also where a sub-agent asked for it."""
    root = link("root")
    askers = {
        "same": pushed_in(root),
        "child": pushed_in(root, link("child")),
        "later": pushed_in(link("root", turn="2")),
        "other": pushed_in(link("other")),
        "elsewhere": pushed_in(root, cwd="/nowhere/else"),
    }
    held = policy()
    held.grant(askers["child"], allowed(offer("bash git push *"), scope))
    assert {name for name, call in askers.items() if held.judge(call).verdict == "allow"} == holding


def test_expired_grants_are_dropped() -> None:
    clock = [100.0]
    held = Policy(home=HOME, load_project_rules=lambda *_: (), now=lambda: clock[0])
    call = pushed_in(link())
    held.grant(call, allowed(offer("bash git push *"), seconds=60))
    for clock[0], verdict in ((159.9, "allow"), (160.0, "ask"), (1e9, "ask")):
        assert held.judge(call).verdict == verdict
    held.grant(call, allowed(offer("bash x")))
    assert [grant.pattern for grant in held.grants.current(0)] == ["x"]


def test_turn_grants_are_dropped_with_the_next_turn() -> None:
    held = policy()
    held.grant(pushed_in(link("root", turn="1")), allowed(offer("bash one"), "turn"))
    held.grant(pushed_in(link("root", turn="2")), allowed(offer("bash two"), "turn"))
    held.grant(pushed_in(link("other", turn="1")), allowed(offer("bash three"), "turn"))
    assert [grant.pattern for grant in held.grants.current(0)] == ["two", "three"]


def test_grants_have_an_origin_and_can_be_revoked() -> None:
    held = policy(now=7.0)
    call = pushed_in(link("root"), link("child"))
    held.grant(call, allowed(offer("bash git push *")))
    (grant,) = held.grants.current(7.0)
    origin = grant.origin
    assert (origin.session_id, origin.call_id, origin.tool, origin.granted) == ("child", "call", "tool", 7.0)
    assert held.judge(call).source == "the user, who allowed bash git push * (for this session)"
    held.grants.revoke(grant.id)
    assert held.judge(call).verdict == "ask"


def test_invalid_grants_are_all_or_nothing() -> None:
    held = policy()
    with pytest.raises(ConfigError):
        held.grant(pushed_in(link()), allowed(offer("bash fine", f"bash {UNKNOWN}")))
    assert held.grants.current(0) == ()


def test_deny_secret_always_on_all_still_denied() -> None:
    """T25: an "always" on `*` opens all but what is denied."""
    held = policy("deny edit SECRET.md")
    held.grant(query(needed("edit", "a")), allowed(offer("edit *"), "project"))
    assert held.judge(query(needed("edit", "b"))).verdict == "allow"
    assert held.judge(query(needed("edit", "docs/SECRET.md"))).verdict == "deny"


def test_judging_with_thousands_of_grants_is_cheap() -> None:
    """Counted, not timed: how many patterns are looked at."""
    held = policy()
    for number in range(2_000):
        held.grant(pushed_in(link()), allowed(offer(f"bash make {number}", f"edit ./f{number}")))
    call = query(needed("bash", "make 7"), needed("edit", "f7"))
    assert held.judge(call).verdict == "allow"
    books = held.grants._grant_lists
    assert len(books[PROJECT, "bash"].index.candidates("make 7")) == 1
    assert len(books[PROJECT, "edit"].index.candidates("f7")) == 1


# -- tools that need not be offered ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "user", "hidden"),
    [
        ("ask", (), set[str]()),
        ("full", (), set[str]()),
        ("read-only", (), {"edit"}),
        ("read-only", ("allow! edit notes.md",), set[str]()),
        ("ask", ("deny bash *",), {"bash"}),
        ("ask", ("deny bash rm *",), set[str]()),
        ("ask", ("deny bash *", "allow bash ls *"), set[str]()),
        ("ask", ("deny bash:read *",), set[str]()),
        ("ask", ("deny *:read *", "deny bash *"), {"bash"}),
        ("ask", ("deny * *",), {"bash", "edit", "read", "web"}),
    ],
)
def test_unobtainable_rights(profile: str, user: tuple[str, ...], hidden: set[str]) -> None:
    held = policy(*user, profile=profile)
    names = ("bash", "edit", "read", "web")
    assert {name for name in names if held.hides([link()], PROJECT, name)} == hidden


def test_hidden_tools_stay_hidden_from_sub_agents() -> None:
    chain = [link("root", "deny edit *"), link("child", "allow! edit *")]
    assert policy().hides(chain, PROJECT, "edit")
    assert not policy().hides(chain[1:], PROJECT, "edit")


@pytest.mark.slow
@given(some_layers, some_query(), st.sampled_from(["bash", "edit", "read"]))
def test_hidden_permissions_are_denied(layers: Rules, call: PermissionQuery, name: str) -> None:
    rules_at_work = layers.policy()
    if rules_at_work.hides(call.chain, call.cwd, name) and any(one.permission == name for one in call.rights):
        assert rules_at_work.judge(call).verdict == "deny"


# -- in a real file -----------------------------------------------------------------------------------------------


def kept(file: GrantFile) -> list[str]:
    return [f"{grant.permission} {grant.pattern}" for grant in file.load()]


@pytest.mark.os
async def test_only_project_grants_survive_a_restart(tmp_path: Path) -> None:
    file = GrantFile(tmp_path / "state" / "grants.json")
    first = policy(file=file)
    await first.prepare(PROJECT)
    for scope in GRANT_SCOPES:
        first.grant(pushed_in(link()), allowed(offer(f"bash {scope}"), scope))
    await first.save()
    assert kept(file) == ["bash project"]
    second = policy(file=file)
    await second.prepare(PROJECT)
    for scope in GRANT_SCOPES:
        call = query(needed("bash", scope), chain=[link()])
        assert second.judge(call).verdict == ("allow" if scope == "project" else "ask")


@pytest.mark.os
async def test_unsaved_grants_survive_reloading_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.write_text("no folder")
    held = policy(file=GrantFile(folder / "grants.json"))
    call = pushed_in(link())
    held.grant(call, allowed(offer("bash git push *"), "project"))
    with pytest.raises(EngineError):
        await held.save()
    folder.unlink()
    await held.prepare(PROJECT)
    assert held.judge(call).verdict == "allow"
    await held.save()  # it was told once that it is not kept
    assert kept(GrantFile(folder / "grants.json")) == []


@pytest.mark.os
async def test_a_cancelled_save_is_repeated(tmp_path: Path) -> None:
    file = GrantFile(tmp_path / "grants.json")
    held = policy(file=file)
    held.grant(pushed_in(link()), allowed(offer("bash git push *"), "project"))
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        await held.save()
    assert kept(file) == []
    await held.save()
    assert kept(file) == ["bash git push *"]


@pytest.mark.os
async def test_grants_added_while_reading_the_file_survive(tmp_path: Path) -> None:
    file = GrantFile(tmp_path / "grants.json")
    held = policy(file=file)
    call = pushed_in(link())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.prepare, PROJECT)
        await trio.lowlevel.checkpoint()
        held.grant(call, allowed(offer("bash git push *"), "project"))
    assert held.judge(call).verdict == "allow"


@pytest.mark.os
async def test_grants_revoked_elsewhere_end_on_reload(tmp_path: Path) -> None:
    file = GrantFile(tmp_path / "grants.json")
    held = policy(file=file)
    call = pushed_in(link())
    held.grant(call, allowed(offer("bash git push *"), "project"))
    await held.save()
    file.revoke(file.load()[0].id)
    await held.prepare(PROJECT)
    assert held.judge(call).verdict == "ask"


@pytest.mark.os
async def test_broken_file_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    file = GrantFile(tmp_path / "grants.json")
    held = policy(file=file)
    call = pushed_in(link())
    held.grant(call, allowed(offer("bash git push *"), "project"))
    await held.save()
    file.path.write_text('{"version": 1, "grants": [7]}')
    with pytest.raises(ConfigError, match=r"grants\.json"):
        await held.prepare(PROJECT)
    assert held.judge(call).verdict == "allow"
