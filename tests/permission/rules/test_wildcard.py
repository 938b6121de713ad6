"""Wildcards: what they match, what they might, what they cover, and that none of them takes long."""

from __future__ import annotations

import time
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.core.permission_types import UNKNOWN
from engine.permission.rules.wildcard import MAX_PATTERN_CHARS, MAX_STARS, Wildcard, exact, matches, may_match

PATTERNS = st.one_of(
    st.text("ab *?", max_size=8),
    st.lists(st.sampled_from(["a", "b", " ", "*", "?", " *", "[*]", "[?]", "[", "]", "/", "\n"]), max_size=6).map(
        "".join
    ),
)
TEXTS = st.text("ab /\n*?[]", max_size=8)
UNSURE = st.lists(st.sampled_from(["a", "b", " ", UNKNOWN, "*", "/"]), max_size=6).map("".join)


def naive(pattern: str, text: str) -> bool:
    """Tell the same as `matches`, for texts without an unknown, by trying everything."""
    while "**" in pattern:  # two of them are no more than one
        pattern = pattern.replace("**", "*")
    if pattern.endswith(" *") and naive_part(pattern[:-2], text):
        return True
    return naive_part(pattern, text)


def naive_part(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern.startswith(("[*]", "[?]")):
        return text[:1] == pattern[1] and naive_part(pattern[3:], text[1:])
    if pattern[0] == "*":
        return any(naive_part(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in {"?", text[0]} and naive_part(pattern[1:], text[1:])


def values(text: str) -> list[str]:
    """Return some of the texts that one with unknowns may be."""
    parts = text.split(UNKNOWN)
    fillings = product(["", "a", "b", " ", "ab", "a b", "x", " -x y"], repeat=min(len(parts) - 1, 3))
    return ["".join(a + b for a, b in zip(parts, [*filling, *[""] * len(parts)], strict=False)) for filling in fillings]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("ls *", ["ls", "ls -la", "ls ", "ls a\nb"], ["lsof", "l", "xls", " ls", "LS"]),
        ("ls*", ["ls", "lsof", "ls -la"], ["xls"]),
        ("git push *", ["git push", "git push origin main"], ["git pushx", "git"]),
        ("*", ["", "a", "a/b\nc"], []),
        ("a?c", ["abc", "a\nc", "a/c"], ["ac", "abbc"]),
        ("a.b[c]", ["a.b[c]"], ["axb[c]", "a.bc"]),
        ("a * b *", ["a x bc b", "a x b", "a  b", "a  b c"], ["a b", "a x bc"]),
        ("*a*a*a", ["aaa", "xayaza"], ["aa", "aab"]),
        ("a [*] b", ["a * b"], ["a x b", "a  b"]),
        ("[?]", ["?"], ["a"]),
        ("[[*]]", ["[*]"], ["[a]"]),
        ("a\\*", ["a\\", "a\\b"], ["a*"]),
        ("x*y", ["x\ud800y", "xy"], ["x"]),
    ],
)
def test_matching(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [text for text in yes + no if matches(pattern, text)] == yes
    assert [text for text in yes + no if may_match(pattern, text)] == yes


@pytest.mark.parametrize(
    ("pattern", "text", "surely", "maybe"),
    [
        ("rm *", f"rm {UNKNOWN}", True, True),
        ("rm *", f"rm{UNKNOWN}", False, True),
        ("rm *", f"{UNKNOWN}", False, True),
        ("rm -rf *", f"rm {UNKNOWN} /", False, True),
        ("rm -rf *", f"git {UNKNOWN}", False, False),
        ("*", UNKNOWN, True, True),
        ("?*", f"a{UNKNOWN}", True, True),
        ("? x", f"{UNKNOWN} x", False, True),
        ("a b", f"a {UNKNOWN}", False, True),
        ("a*b", f"a{UNKNOWN}c", False, False),
        ("a*b", f"a{UNKNOWN}cb", True, True),
        ("a?", f"{UNKNOWN}aaa", False, False),
        (f"a{UNKNOWN}", f"a{UNKNOWN}", False, True),
        (f"*{UNKNOWN}", f"a{UNKNOWN}", False, True),
        ("ab", f"a{UNKNOWN}ab", False, False),
        ("* --force *", f"git push {UNKNOWN}", False, True),
    ],
)
def test_unknown_parts(pattern: str, text: str, surely: bool, maybe: bool) -> None:
    assert (matches(pattern, text), may_match(pattern, text)) == (surely, maybe)


@given(PATTERNS, TEXTS)
@example("a * b *", "a x bc b")
def test_matcher_agrees_with_a_naive_one(pattern: str, text: str) -> None:
    assert matches(pattern, text) == may_match(pattern, text) == naive(pattern, text)


@given(PATTERNS, UNSURE)
def test_certain_and_possible_matches_bound_the_truth(pattern: str, text: str) -> None:
    answers = [naive(pattern, value) for value in values(text)]
    if matches(pattern, text):
        assert all(answers)
        assert may_match(pattern, text)
    if any(answers):
        assert may_match(pattern, text)


@given(PATTERNS, UNSURE)
def test_possible_match_has_a_matching_value(pattern: str, text: str) -> None:
    if not may_match(pattern, text):
        return
    shapes = [pattern, pattern.removesuffix(" *")]
    # The unknown may have to hold whatever the pattern wants at that place.
    plain = [shape.replace("[*]", "\0").replace("*", "").replace("\0", "*").replace("[?]", "?") for shape in shapes]
    parts = {shape[a:b] for shape in plain for a in range(len(shape) + 1) for b in range(a, len(shape) + 1)}
    literals = text.split(UNKNOWN)
    if len(literals) > 3:
        return
    fillings = product(parts, repeat=len(literals) - 1)
    assert any(
        naive(pattern, "".join(a + b for a, b in zip(literals, [*filling, ""], strict=True))) for filling in fillings
    )


@given(PATTERNS, PATTERNS, TEXTS)
@example("a *", "a", "a")
@example("a", "a *", "a b")
def test_covering_pattern_matches_everything_covered(pattern: str, other: str, text: str) -> None:
    if Wildcard(pattern).covers(Wildcard(other)) and matches(other, text):
        assert matches(pattern, text)


@given(PATTERNS, PATTERNS, TEXTS)
def test_patterns_matching_the_same_text_overlap(pattern: str, other: str, text: str) -> None:
    if matches(pattern, text) and matches(other, text):
        assert Wildcard(pattern).overlaps(Wildcard(other))


@pytest.mark.parametrize(
    ("pattern", "other", "covers"),
    [
        ("*", "a *", True),
        ("git *", "git push *", True),
        ("git push *", "git *", False),
        ("git *", "git", True),
        ("git*", "git *", True),
        ("git *", "git*", False),
        ("a?", "ab", True),
        ("ab", "a?", False),
        ("a*", "a?", True),
        ("a[*]", "a*", False),
        ("a * *", "a *", False),
        ("a\ufdd0", "a?", False),
    ],
)
def test_covering(pattern: str, other: str, covers: bool) -> None:
    assert Wildcard(pattern).covers(Wildcard(other)) == covers


def test_disjoint_patterns() -> None:
    assert not Wildcard("git *").overlaps(Wildcard("rm *"))
    assert Wildcard("git *").overlaps(Wildcard("* push"))


@given(st.text("ab *?[]\\ \n", max_size=10), st.text("ab *?[]\\ \n", max_size=10))
def test_an_exact_pattern_matches_its_text_alone(text: str, other: str) -> None:
    assert matches(exact(text), text)
    assert matches(exact(text), other) == (text == other)


def test_heads_tails_and_needles_are_in_every_match() -> None:
    pattern = Wildcard("git * push [*] *")
    assert (pattern.head, pattern.tail, pattern.needle) == ("git ", "", " push *")
    assert Wildcard("*.py").tail == ".py"


@given(PATTERNS, TEXTS)
def test_matches_contain_head_tail_and_needle(pattern: str, text: str) -> None:
    ready = Wildcard(pattern)
    if ready.matches(text):
        assert text.startswith(ready.head)
        assert text.endswith(ready.tail)
        assert ready.needle in text[len(ready.head) :]


def test_a_pattern_may_not_be_endless() -> None:
    with pytest.raises(ConfigError, match="characters"):
        Wildcard("a" * (MAX_PATTERN_CHARS + 1))
    with pytest.raises(ConfigError, match="stars"):
        Wildcard("a*" * (MAX_STARS + 1))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*a" * 90 + "b", "a" * 10_000),
        ("*" + "a?" * 50 + "b", "a" * 10_000),
        ("*a" * 90 + "b", ("a" * 100 + UNKNOWN) * 100),
        ("*a*b *", "a" * 10_000),
        ("?" * 1_000 + "*x", "a" * 10_000),
    ],
)
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    began = time.process_time()
    matches(pattern, text)
    may_match(pattern, text)
    assert time.process_time() - began < 5
