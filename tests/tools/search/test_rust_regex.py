"""Rust's regular expressions in Python: what is passed on, rewritten and refused. That they match the same is for
test_pure_search.py to say."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.search.rust_reader import PatternError
from engine.tools.search.rust_regex import MAX_DEPTH, translated


def search(pattern: str, text: str, *, ignore_case: bool = False, multiline: bool = False) -> str | None:
    match = re.search(translated(pattern, ignore_case=ignore_case, multiline=multiline).regex, text)
    return match[0] if match else None


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a++", "baaa", "aaa"),
        ("a{2}{2}", "aaaaa", "aaaa"),
        ("(?<n>a)(?P<m>b)", "ab", "ab"),
        ("a(?i)b|c", "xC", "C"),
        ("(a(?i)b)c", "aBC", None),
        ("(?i:a)b", "Ab", "Ab"),
        ("(?U)a+", "aaa", "a"),
        ("(?U)a+?", "aaa", "aaa"),
        ("(?m-i:a)", "a", "a"),
        ("[]a]+", "a]", "a]"),
        ("[^]a]", "]ab", "b"),
        ("[-a]+", "a-", "a-"),
        ("[a-]+", "a-", "a-"),
        ("[[:alpha:][:digit:]_]+", "!a1_", "a1_"),
        ("[[:^digit:]]", "1a", "a"),
        ("[\\d-]+", "1-2", "1-2"),
        ("\\x41\\u0042\\U00000043\\x{44}\\u{45}", "ABCDE", "ABCDE"),
        ("\\<a\\>", "ba a", "a"),
        ("\\b{start}a", "ba a", "a"),
        ("\\Ba", "a ba", "a"),
        ("}]", "}]", "}]"),
        ("\\ \\%\\_", " %_", " %_"),
        ("a$", "a\r\n", "a"),
        ("^b", "a\rb", "b"),
        ("a.b", "a\rb", None),
        ("a\\sb", "a\x1cb", None),
        ("a.b", "a\udcffb", None),
        ("a[^x]b", "a\udcffb", None),
        ("a\\Wb", "a\udcffb", None),
        ("(?i)i", "İı", None),
        ("(?i)[a-z]", "İı", None),
        ("(?i)[^a-h]", "İ", "İ"),
        ("(?i)[İ]", "İ", "İ"),
        ("(?i)k", "\u212a", "\u212a"),
        ("(?i)\\w", "I", "I"),
        ("(?i)é", "É", "É"),
        ("()", "", ""),
        ("|a", "a", ""),
        ("(?i)", "a", ""),
        ("(?-i:a)", "a", "a"),
    ],
)
def test_what_is_rewritten(pattern: str, text: str, found: str | None) -> None:
    assert search(pattern, text) == found


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(", "unclosed group"),
        (")", "unopened group"),
        ("[a", "unclosed character class"),
        ("[z-a]", "invalid character class range"),
        ("[a-\\d]", "invalid character class range"),
        ("*", "repetition operator missing expression"),
        ("a|*", "repetition operator missing expression"),
        ("(?i)*", "repetition operator missing expression"),
        ("{", "repetition operator missing expression"),
        ("a{", "a repetition has the form {2}, {2,} or {2,5}; a plain brace is written \\{"),
        ("a{,2}", "a repetition has the form {2}, {2,} or {2,5}; a plain brace is written \\{"),
        ("a{2,1}", "the counts of a repetition are the wrong way round, or too large"),
        ("a{999999999}", "the counts of a repetition are the wrong way round, or too large"),
        ("(?=a)", "look-ahead and look-behind are not supported"),
        ("(?<!a)", "look-ahead and look-behind are not supported"),
        ("(a)\\1", "backreferences are not supported"),
        ("(?>a)", "unrecognized flag"),
        ("(?#a)", "unrecognized flag"),
        ("(?)", "unrecognized flag"),
        ("(?", "unrecognized flag"),
        ("(?ii)", "duplicate flag"),
        ("(?i-i:a)", "duplicate flag"),
        ("(?<n>a)(?<n>b)", "duplicate capture group name"),
        ("\\q", "unrecognized escape sequence \\q"),
        ("\\é", "unrecognized escape sequence \\é"),
        ("\\Z", "unrecognized escape sequence \\Z"),
        ("\\", "the pattern ends within an escape"),
        ("[\\", "the pattern ends within an escape"),
        ("\\xZZ", "invalid hexadecimal escape"),
        ("\\u{110000}", "invalid hexadecimal escape"),
        ("\\ud800", "invalid hexadecimal escape"),
        ("\\b{middle}", "unrecognized word boundary"),
        ("\\n", "a line end is not allowed here"),
        ("[\\r\\n]", "a line end is not allowed here"),
        ("(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1), "too many groups in one another"),
    ],
)
def test_what_is_wrong_for_ripgrep_too(pattern: str, error: str) -> None:
    with pytest.raises(PatternError) as raised:
        translated(pattern)
    assert str(raised.value).startswith(f"{error} (at character ")


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("\\p{Greek}", "\\p (Unicode classes)"),
        ("\\PL", "\\P (Unicode classes)"),
        ("[\\pL]", "\\p (Unicode classes)"),
        ("\\Aa", "\\A"),
        ("a\\z", "\\z"),
        ("(?x) a", "the flags x"),
        ("(?-u:a)", "the flags -u"),
        ("(?-m)a", "the flags -m"),
        ("[a&&b]", "&&, -- and ~~ in brackets"),
        ("[a--b]", "&&, -- and ~~ in brackets"),
        ("[[a]b]", "classes within classes"),
        ("[a-[b]]", "classes within classes"),
        ("[[:nope:]]", "classes within classes"),
    ],
)
def test_what_only_ripgrep_can_do(pattern: str, what: str) -> None:
    with pytest.raises(PatternError) as raised:
        translated(pattern)
    assert str(raised.value).startswith(f"{what} can't be used here, because ripgrep is not installed")


@pytest.mark.parametrize(
    ("pattern", "spans"),
    [("a", False), ("a\\nb", True), ("a.b", True), ("(?-s:a.b)", False), ("a$", True), ("[^a]", True), ("\\r", False)],
)
def test_whether_a_pattern_has_to_do_with_line_ends(pattern: str, spans: bool) -> None:
    assert translated(pattern, multiline=True).spans_lines is spans
    assert not translated("a", multiline=False).spans_lines


@given(st.text(min_size=1), st.booleans())
def test_a_literal_matches_itself(text: str, ignore_case: bool) -> None:
    translation = translated(text, literal=True, ignore_case=ignore_case, multiline=True)
    assert re.fullmatch(translation.regex, text)


@given(st.text(st.sampled_from("ab()[]{}|*+?.^$\\-&~:,1inxUs<>P=!#dwp \n"), max_size=12), st.booleans())
def test_anything_is_translated_or_refused(pattern: str, multiline: bool) -> None:
    try:
        translation = translated(pattern, multiline=multiline)
    except PatternError:
        return
    re.compile(translation.regex)
