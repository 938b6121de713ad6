"""The two simple approvers: what is asked about, and what an "always" covers."""

from __future__ import annotations

import pytest

from engine.events import PermissionAsked, Verdict
from engine.ids import CallId, RequestId, SessionId
from engine.permission.policy import Policy
from engine.permission.simple import AllowAll
from engine.ports import Approver, PermissionQuery

Names = tuple[str, ...]


def query(
    patterns: Names = (),
    offers: Names = (),
    *,
    permission: str = "write",
    session: str = "s",
    read_only: bool = False,
) -> PermissionQuery:
    return PermissionQuery(
        session_id=SessionId(session),
        tool="tool",
        permission=permission,
        read_only=read_only,
        patterns=patterns,
        offers=offers,
    )


def asked(
    patterns: Names = (), offers: Names = (), *, permission: str = "write", session: str = "s"
) -> PermissionAsked:
    return PermissionAsked(
        session_id=SessionId(session),
        request_id=RequestId("r"),
        call_id=CallId("c"),
        tool="tool",
        permission=permission,
        patterns=patterns,
        offers=offers,
    )


def verdict(approver: Approver, wanted: PermissionQuery) -> Verdict:
    return approver.judge(wanted).verdict


def test_reading_is_allowed_and_the_rest_is_asked_about() -> None:
    ask = Policy()
    assert verdict(ask, query(read_only=True)) == "allow"
    assert verdict(ask, query(("a",), read_only=True)) == "allow"
    assert verdict(ask, query()) == "ask"
    assert verdict(ask, query(("a",))) == "ask"


@pytest.mark.parametrize(
    ("always", "wanted", "expected"),
    [
        pytest.param(asked(("a",)), query(("a",)), "allow", id="the same again"),
        pytest.param(asked(("a",)), query(("b",)), "ask", id="another pattern"),
        pytest.param(asked(("a",)), query(("a", "b")), "ask", id="one pattern more"),
        pytest.param(asked(("a", "b")), query(("b",)), "allow", id="one pattern less"),
        pytest.param(asked(("a", "b")), query(("b", "a")), "allow", id="in another order"),
        pytest.param(asked(("a",)), query(("a",), permission="run"), "ask", id="another permission"),
        pytest.param(asked(("a",)), query(("a",), session="t"), "ask", id="another session"),
        pytest.param(asked(("a",)), query(), "ask", id="the permission as a whole"),
        pytest.param(asked(), query(), "allow", id="one without patterns, again"),
        pytest.param(asked(), query(("a",)), "allow", id="a pattern of what was allowed as a whole"),
        pytest.param(asked(), query(permission="run"), "ask", id="another permission as a whole"),
        pytest.param(asked((), ("a *", "*")), query(("a 1",), ("a *", "*")), "allow", id="the narrowest offer"),
        pytest.param(asked(("a 1",), ("a *",)), query(("a 2",), ("a *",)), "allow", id="another that it covers"),
        pytest.param(asked(("a 1",), ("a *",)), query(("b 1",), ("b *",)), "ask", id="another offer"),
        pytest.param(asked(("a 1",), ("a *", "*")), query(("b 1",), ("b *", "*")), "ask", id="not the wider offer"),
        pytest.param(asked(("a 1",), ("a *", "*")), query(("b 1",), ("*",)), "ask", id="never more than was offered"),
        pytest.param(asked(("a",)), query(("A",)), "ask", id="letters are what they are"),
    ],
)
def test_what_an_always_covers(always: PermissionAsked, wanted: PermissionQuery, expected: Verdict) -> None:
    ask = Policy()
    ask.grant(always)
    assert verdict(ask, wanted) == expected


def test_grants_add_up() -> None:
    ask = Policy()
    ask.grant(asked(("a",)))
    ask.grant(asked(("b",)))
    assert verdict(ask, query(("a", "b"))) == "allow"
    assert verdict(ask, query(("a", "b", "c"))) == "ask"


def test_two_approvers_do_not_know_each_other() -> None:
    one, other = Policy(), Policy()
    one.grant(asked(("a",)))
    assert (verdict(one, query(("a",))), verdict(other, query(("a",)))) == ("allow", "ask")


def test_a_judgement_names_its_source() -> None:
    ask = Policy()
    ask.grant(asked(("a",)))
    assert [ask.judge(each).source for each in (query(read_only=True), query(("a",)), query(("b",)))] == [
        "default: reading is allowed",
        "granted for this session",
        "default: what changes something is asked about",
    ]


def test_everything_is_allowed_where_a_host_says_so() -> None:
    allow = AllowAll()
    allow.grant(asked())
    for wanted in (query(), query(("a",)), query(read_only=True)):
        assert verdict(allow, wanted) == "allow"
