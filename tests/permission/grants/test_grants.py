"""What "always" gives: to whom, for how long, and nothing more."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.core.events import GrantScope
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.permission_types import ACTIONS, UNKNOWN, PermissionScope, RequiredRight, Rule
from engine.permission.grants.grants import GRANT_SCOPES, Grant, GrantOrigin, Grants
from engine.permission.rules.path_pattern import exact as exact_path
from engine.permission.rules.rules import Layer, Ruleset
from engine.permission.rules.wildcard import exact
from tests.permission.rules.test_rules import HOME, PROJECT, SOME_LAYERS, SOME_RIGHT, SOME_RULE

ROOT, CHILD, OTHER = SessionId("root"), SessionId("child"), SessionId("other")
TURN, BELOW, NEXT = TurnId("turn"), TurnId("below"), TurnId("next")
ORIGIN = GrantOrigin(session_id=ROOT, call_id=CallId("call"), tool="bash", granted=100.0, by="keyboard")
ASKER = (PermissionScope(session_id=ROOT, turn_id=TURN),)
IN_CHILD = (*ASKER, PermissionScope(session_id=CHILD, turn_id=BELOW))
LATER = (PermissionScope(session_id=ROOT, turn_id=NEXT),)
ELSEWHERE = (PermissionScope(session_id=OTHER, turn_id=TurnId("t")),)


def grant(
    scope: GrantScope = "session", pattern: str = "git *", *, permission: str = "bash", name: str = "g1"
) -> Grant:
    return Grant(
        id=name,
        permission=permission,
        pattern=pattern,
        scope=scope,
        project=PROJECT,
        session_id=None if scope == "project" else ROOT,
        turn_id=TURN if scope == "turn" else None,
        origin=ORIGIN,
    )


def book(*grants: Grant) -> Grants:
    made = Grants(HOME)
    for each in grants:
        made.add(each)
    return made


PUSH = RequiredRight("bash", "git push")


@pytest.mark.parametrize(
    ("scope", "holding"),
    [
        ("turn", [ASKER, IN_CHILD]),
        ("session", [ASKER, IN_CHILD, LATER]),
        ("project", [ASKER, IN_CHILD, LATER, ELSEWHERE]),
    ],
)
def test_a_grant_holds_in_its_scope_and_below(scope: GrantScope, holding: list[tuple[PermissionScope, ...]]) -> None:
    session_grant = grant(scope)
    grants = book(session_grant)
    for chain in (ASKER, IN_CHILD, LATER, ELSEWHERE):
        assert grants.find(PUSH, chain, PROJECT, 200.0) == (session_grant if chain in holding else None)
        assert grants.find(PUSH, chain, "/other", 200.0) is None


def test_a_childs_grant_does_not_cover_its_parent() -> None:
    grants = book(attrs.evolve(grant(), session_id=CHILD))
    assert grants.find(PUSH, IN_CHILD, PROJECT, 200.0) is not None
    assert grants.find(PUSH, ASKER, PROJECT, 200.0) is None


def test_a_grant_covers_what_it_surely_matches() -> None:
    grants = book(grant(pattern="git push *"), grant(pattern=exact("ls *.py"), name="g2"))
    assert grants.find(RequiredRight("bash", "git push origin"), ASKER, PROJECT, 0) is not None
    assert grants.find(RequiredRight("bash:read", "git push origin"), ASKER, PROJECT, 0) is not None
    assert grants.find(RequiredRight("bash", f"git push {UNKNOWN}"), ASKER, PROJECT, 0) is not None
    assert grants.find(RequiredRight("bash", f"git {UNKNOWN}"), ASKER, PROJECT, 0) is None
    assert grants.find(RequiredRight("bash", "git pull", ("git push x",)), ASKER, PROJECT, 0) is None
    assert grants.find(RequiredRight("bash", "ls *.py"), ASKER, PROJECT, 0) is not None
    assert grants.find(RequiredRight("bash", "ls x.py"), ASKER, PROJECT, 0) is None
    assert grants.find(RequiredRight("opaque", "git push origin"), ASKER, PROJECT, 0) is None


def test_grants_for_reading_cover_no_other_commands() -> None:
    assert book(grant(permission="bash:read")).find(PUSH, ASKER, PROJECT, 0) is None


def test_a_name_with_a_star_is_no_wildcard() -> None:
    assert book(grant(permission="*")).find(PUSH, ASKER, PROJECT, 0) is None


def test_a_grant_for_a_path() -> None:
    grants = book(grant(pattern=exact_path("src/[id].py"), permission="edit"))
    assert grants.find(RequiredRight("edit", "src/[id].py"), ASKER, PROJECT, 0) is not None
    for path in ("src/i.py", "a/src/[id].py", "/src/[id].py", f"src/{UNKNOWN}", "src/../src/[id].py"):
        assert grants.find(RequiredRight("edit", path), ASKER, PROJECT, 0) is None


def test_a_grant_ends_at_its_time() -> None:
    limited = attrs.evolve(grant(), until=500.0)
    grants = book(limited)
    assert grants.find(PUSH, ASKER, PROJECT, 499.9) == limited
    assert grants.find(PUSH, ASKER, PROJECT, 500.0) is None
    assert (grants.current(499.9), grants.current(500.0)) == ((limited,), ())
    grants.drop_expired(500.0)
    assert grants.current(0) == ()


def test_scopes_end() -> None:
    grants = book(
        *(grant(scope, name=scope) for scope in GRANT_SCOPES), attrs.evolve(grant(name="x"), session_id=OTHER)
    )
    grants.end_turn(TURN)
    assert [each.id for each in grants.current(0)] == ["session", "project", "x"]
    grants.end_turn(NEXT)
    grants.end_session(ROOT)
    assert [each.id for each in grants.current(0)] == ["project", "x"]


def test_ending_a_session_drops_its_turn_grants() -> None:
    grants = book(grant("turn"))
    grants.end_session(ROOT)
    assert grants.current(0) == ()


def test_grants_are_listed_and_revoked() -> None:
    late, early = grant(), attrs.evolve(grant(name="g0"), origin=attrs.evolve(ORIGIN, granted=50.0))
    grants = book(late, early)
    assert grants.current(0) == (early, late)
    assert str(late) == "bash git * (for this session)"
    assert grants.revoke("g1") == late
    assert grants.current(0) == (early,)
    with pytest.raises(ConfigError, match="there is no grant 'g1': it was revoked"):
        grants.revoke("g1")


def test_grants_of_a_session() -> None:
    of_session, of_project = (
        grant(),
        attrs.evolve(grant("project", name="g2"), origin=attrs.evolve(ORIGIN, granted=200.0)),
    )
    elsewhere = attrs.evolve(grant("project", name="g3"), project="/elsewhere")
    grants = book(of_project, of_session, elsewhere)
    assert grants.of_session((ROOT, CHILD), PROJECT, 0) == (of_session, of_project)
    assert grants.of_session((OTHER,), PROJECT, 0) == (of_project,)
    assert grants.of_session((OTHER,), "/nowhere", 0) == ()


def test_id_is_used_once() -> None:
    with pytest.raises(ConfigError, match="there is a grant g1 already"):
        book(grant(), grant())


def test_kept_grants_take_the_place_of_kept_grants() -> None:
    grants = book(grant(name="a"), grant("project", name="b"))
    grants.replace_project_grants([grant("project", name="c")])
    assert {each.id for each in grants.current(0)} == {"a", "c"}
    with pytest.raises(ConfigError, match="only grants for a project"):
        grants.replace_project_grants([grant(name="d")])
    with pytest.raises(ConfigError, match="two slashes"):
        grants.replace_project_grants([grant("project", "a//b", permission="read")])
    assert {each.id for each in grants.current(0)} == {"a", "c"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scope": "ever"}, "scope is turn, session or project"),
        ({"id": ""}, "has an id"),
        ({"pattern": " "}, "and a pattern"),
        ({"pattern": f"a{UNKNOWN}"}, "a part of it is unknown"),
        ({"project": "app"}, "absolute path"),
        ({"session_id": None}, "a grant for a session names its session"),
        ({"scope": "project"}, "a grant for a project names no session"),
        ({"scope": "turn"}, "a grant for a turn names its turn"),
        ({"turn_id": TURN}, "a grant for a session names no turn"),
        ({"until": float("nan")}, "ends at a time"),
        ({"until": float("inf")}, "ends at a time"),
    ],
)
def test_a_grant_that_makes_no_sense(change: dict[str, object], words: str) -> None:
    values: dict[str, object] = {**attrs.asdict(grant(), recurse=False), **change}
    with pytest.raises(ConfigError) as error:
        Grant(**values)  # type: ignore[arg-type]  # what is tested
    assert words in str(error.value)


SOME_GRANTS = st.lists(
    st.tuples(st.sampled_from(GRANT_SCOPES), SOME_RULE, st.one_of(st.none(), st.sampled_from([5.0, 15.0]))), max_size=5
)


@given(SOME_LAYERS, SOME_GRANTS, st.lists(SOME_RIGHT, min_size=1, max_size=3))
def test_no_grants_widen_a_deny(
    layers: list[Layer], session_grants: list[tuple[GrantScope, Rule, float | None]], rights: list[RequiredRight]
) -> None:
    """What is asked may be answered by grants, one right after another; what is denied is denied."""
    rules, grants = Ruleset(layers, PROJECT, HOME), Grants(HOME)
    for number, (scope, rule, until) in enumerate(session_grants):
        grants.add(attrs.evolve(grant(scope, rule.pattern, permission=rule.permission, name=str(number)), until=until))
    for chain, now in ((ASKER, 0.0), (IN_CHILD, 10.0), (ELSEWHERE, 20.0)):
        each = [rules.judge(right.permission, right.pattern, right.spellings).verdict for right in rights]
        with_grants = [
            "allow" if action == "ask" and grants.find(right, chain, PROJECT, now) else action
            for action, right in zip(each, rights, strict=True)
        ]
        assert max(map(ACTIONS.index, with_grants)) == ACTIONS.index("deny") or "deny" not in each


@given(SOME_RULE, SOME_RIGHT)
def test_grants_allow_no_more_than_rules(rule: Rule, right: RequiredRight) -> None:
    grants = book(grant(pattern=rule.pattern, permission=rule.permission))
    if grants.find(right, ASKER, PROJECT, 0):
        allowing = attrs.evolve(rule, action="allow", override=False)
        assert (
            Ruleset([Layer("user", (allowing,))], PROJECT, HOME).judge(right.permission, right.pattern).verdict
            == "allow"
        )
