"""Names of foreign tools: what hosts accept, one for each tool, and the same whatever other tools there are."""

from __future__ import annotations

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from engine.core.events import Verdict
from engine.core.permission_types import Rule
from engine.permission.rules.rules import applies_to
from engine.tools.foreign_names import foreign_name, foreign_right

# Close to one another, so that they collide where that is possible at all.
WORDS = st.one_of(st.text("ab_-.A1é", max_size=6), st.text(max_size=200), st.from_regex(r"[a-z_]{1,4}_[0-9a-f]{8}\Z"))
PAIRS = st.tuples(WORDS, WORDS)


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("github", "create_issue", "github_create_issue"),
        ("brave-search", "webSearch", "brave-search_webSearch"),
        ("my_server", "find", "my_server__find"),
        ("github", "create.issue", "github_create_issue_47cb3f27"),
        ("github", "x" * 70, f"github_{'x' * 48}_"),
        ("1st", "find", "t1st_find_"),
        ("fake", "a__b", "fake_a__b_"),
        ("fake", "a_0123abcd", "fake_a_0123abcd_"),
        ("fake", "", "fake__"),
    ],
)
def test_names_in_examples(server: str, tool: str, name: str) -> None:
    made = foreign_name(server, tool)
    assert made == name or (name.endswith("_") and re.fullmatch(rf"{re.escape(name)}[0-9a-f]{{8}}", made))


@hypothesis.given(pair=PAIRS, limit=st.integers(16, 128), is_taken=st.booleans())
def test_every_name_is_accepted(pair: tuple[str, str], limit: int, is_taken: bool) -> None:
    made = foreign_name(*pair, limit=limit, is_taken=is_taken)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", made)
    assert len(made) <= limit


@hypothesis.given(one=PAIRS, other=PAIRS)
def test_two_tools_have_two_names(one: tuple[str, str], other: tuple[str, str]) -> None:
    hypothesis.assume(one != other)
    assert foreign_name(*one) != foreign_name(*other)
    assert foreign_right("mcp", *one) != foreign_right("mcp", *other)


@hypothesis.given(pair=PAIRS)
def test_taken_name_is_avoided(pair: tuple[str, str]) -> None:
    plain = foreign_name(*pair)
    avoided = foreign_name(*pair, is_taken=True)
    assert avoided == plain if re.search(r"_[0-9a-f]{8}\Z", plain) else avoided != plain


@hypothesis.given(pair=PAIRS)
def test_right_reaches_no_other_rule(pair: tuple[str, str]) -> None:
    right = foreign_right("mcp", *pair)
    assert Rule(action="allow", permission=right, pattern="*").permission == right
    assert applies_to("mcp:*", right)
    assert not any(applies_to(pattern, right) for pattern in ("*:read", "read", "edit", "bash"))


@pytest.mark.parametrize(
    ("permission", "is_valid"),
    [
        ("mcp:github/create_issue", True),
        ("mcp:github/*", True),
        ("mcp:*", True),
        ("mcp:github", False),
        ("bash:run", False),
    ],
)
def test_rules_for_foreign_rights(permission: str, is_valid: bool) -> None:
    action: Verdict = "allow"
    if is_valid:
        Rule(action=action, permission=permission, pattern="*")
    else:
        with pytest.raises(Exception, match="is not the name of a permission"):
            Rule(action=action, permission=permission, pattern="*")
