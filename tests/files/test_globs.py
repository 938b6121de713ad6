"""Glob patterns: what they match, what they refuse, and that none of them takes long."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.globs import MAX_ALTERNATIVES, MAX_CHARS, GlobError, alternatives, escaped, glob_regex, is_magic


def matches(pattern: str, path: str) -> bool:
    return re.match(glob_regex(pattern), path, re.DOTALL) is not None


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a.py", "a.py", "a.pyc xa.py a/a.py aXpy"),
        ("*.py", "a.py .py é.py", "a/b.py a.pyc"),
        ("a?c", "abc a.c", "ac a/c abbc"),
        ("a*b*c", "abc aXbYc abbcc", "ab acb a/bc"),
        ("*a*a*a", "aaa xayaza", "aa aab"),
        ("**", "a a/b a/b/c", ""),
        ("**/a", "a b/a b/c/a", "ba a/b"),
        ("a/**", "a/b a/b/c", "a b/a"),
        ("a/**/b", "a/b a/x/b a/x/y/b", "a/xb ab a/b/c"),
        ("**/a/**/b", "a/b x/a/b x/a/y/b", "b a"),
        ("**/a/b/**/c*d", "a/b/cd a/x/a/b/c/cXd x/a/b/y/z/cd", "a/x/b/cd a/b/c"),
        ("a/**/**/b", "a/b a/x/b", "ab"),
        ("a**b", "ab aXb", "a/b"),
        ("***", "a", "a/b"),
        ("**/*.{ts,tsx}", "a.ts x/a.tsx", "a.js"),
        ("{a,b/c}/d", "a/d b/c/d", "b/d"),
        ("{a,b{1,2}}", "a b1 b2", "b b12"),
        ("a{,.txt}", "a a.txt", "a."),
        ("a,b", "a,b", "a b"),
        ("[ab]c", "ac bc", "cc c"),
        ("[!ab]c", "cc é" + "c", "ac bc /c"),
        ("[^a]", "b", "a /"),
        ("[a-c]", "a b c", "d -"),
        ("[]a]", "] a", "b"),
        ("[!]a]", "b", "] a"),
        ("[a-]", "a -", "b"),
        ("[--/]", "- .", "/"),
        ("[\\]", "\\", "a"),
        ("a[", "a[", "a"),
        ("[a", "[a", "a"),
        ("\\*", "*", "a \\*"),
        ("\\a", "a", "\\a"),
        ("[{]", "{", "["),
        ("a\\{b", "a{b", "a"),
        ("(a|b)+.$", "(a|b)+.$", "a"),
    ],
)
def test_pattern_matches(pattern: str, yes: str, no: str) -> None:
    assert [path for path in yes.split() if not matches(pattern, path)] == []
    assert [path for path in no.split() if matches(pattern, path)] == []


def test_names_may_hold_line_ends() -> None:
    assert matches("a*b", "a\nb")
    assert not matches("a", "a\n")


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("{a", "there is a { without a } after it"),
        ("a}", "there is a } without a { before it"),
        ("a\\", "it ends with a backslash that escapes nothing"),
        ("[c-a]", "c-a is no range"),
        ("{a,b}" * 10, f"its braces stand for more than {MAX_ALTERNATIVES:,} patterns"),
        ("{" * 1_000, "there is a { without a } after it"),
        ("{" + "," * 999 + "}" + "?" * 2_900, f"its braces stand for patterns of more than {MAX_CHARS:,} characters"),
        ("{a," + "b" * 30_000 + "}{c,d}", f"its braces stand for patterns of more than {MAX_CHARS:,} characters"),
    ],
)
def test_invalid_patterns(pattern: str, error: str) -> None:
    with pytest.raises(GlobError) as raised:
        glob_regex(pattern)
    assert str(raised.value) == error


def test_braces_stand_for_alternatives() -> None:
    assert alternatives("a{b,c{d,e}}[{,}]\\{,f") == ["ab[{,}]\\{,f", "acd[{,}]\\{,f", "ace[{,}]\\{,f"]


@given(st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=20))
def test_an_escaped_name_matches_itself_alone(name: str) -> None:
    assert matches(escaped(name), name)
    assert not matches(escaped(name), name + "x")
    assert is_magic(escaped("*"))
    assert not is_magic("a-b.c!")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 100 + "b", "a" * 255),
        ("**/a/" * 100 + "b", "a/" * 2_000),
        ("**/*a*/" * 50 + "*b*", "aaaa/" * 800),
        ("a*" * 200, "a" * 255 + "b/"),
        ("{" + ",".join("*a" * 20 + str(n) for n in range(100)) + "}", "a" * 255),
        ("**/" + "?" * 200 + "*b", ("a" * 254 + "/") * 16),
    ],
    ids=["stars", "folders", "both", "many", "alternatives", "questions"],
)
def test_a_hostile_pattern_takes_no_long_time(pattern: str, path: str) -> None:
    expression = re.compile(glob_regex(pattern), re.DOTALL)
    began = time.process_time()
    assert expression.match(path) is None
    assert time.process_time() - began < 5


_pieces = st.sampled_from(["a", "b", "*", "?", "/", "**", "/**/", "**/", "[ab]", "[!a]", "{a,b}", "{*,?b}"])


def slow(pattern: str, path: str) -> bool:
    """Match as one would without any thought of time."""
    if "{" in pattern:
        return any(slow(one, path) for one in alternatives(pattern))
    names, parts = pattern.split("/"), path.split("/")

    def name(glob: str, text: str) -> bool:
        if not glob:
            return not text
        if glob[0] == "*":
            return any(name(glob[1:], text[at:]) for at in range(len(text) + 1))
        if glob[0] == "[":
            end = glob.index("]", 1) + 1
            is_in = bool(text) and text[0] in glob[1:end]
            return bool(text) and is_in is (glob[1] != "!") and name(glob[end:], text[1:])
        return bool(text) and glob[0] in {"?", text[0]} and name(glob[1:], text[1:])

    def rest(globs: list[str], texts: list[str]) -> bool:
        if not globs:
            return not texts
        if globs[0] == "**":
            if len(globs) == 1:
                return bool(texts)
            return any(rest(globs[1:], texts[at:]) for at in range(len(texts) + 1))
        return bool(texts) and name(globs[0], texts[0]) and rest(globs[1:], texts[1:])

    return rest(names, parts)


@given(
    st.lists(_pieces, min_size=1, max_size=7).map("".join),
    st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=4),
)
def test_greedy_matching_misses_nothing(pattern: str, names: list[str]) -> None:
    path = "/".join(names)
    assert matches(pattern, path) is slow(pattern, path)
