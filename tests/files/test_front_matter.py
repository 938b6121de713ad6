"""Front matter: which YAML is read, and as what."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.front_matter import FrontMatterError, parse_document


@pytest.mark.parametrize(
    ("matter", "fields"),
    [
        ("", {}),
        ("name: x", {"name": "x"}),
        ("name:   x  # a comment\n# another\n\ndescription: a#b", {"name": "x", "description": "a#b"}),
        ("description: Use it: when needed", {"description": "Use it: when needed"}),
        ("a: 'it''s: # x' # y\nb: \"q \\\" \\n \\u00e9\"", {"a": "it's: # x", "b": 'q " \n é'}),
        ("a: one\n  two\n  three # no\nb: x", {"a": "one two three", "b": "x"}),
        ("a: 'one\n  two'\nb: x", {"a": "one two", "b": "x"}),
        ("a: >\n  one\n  two\n\n  three\nb: x", {"a": "one two\nthree", "b": "x"}),
        ("a: |-\n  one\n    two\n\n  three\n", {"a": "one\n  two\n\nthree"}),
        ("a: >- # comment\n one", {"a": "one"}),
        ("a:\n  b: c\n  d: e\nf: x", {"f": "x"}),
        ("a:\n- b\n- c\nf: x", {"f": "x"}),
        ("a: [x, y]\nb: {c: d}\ne: *f\ng: x", {"g": "x"}),
        ("a:\nb: # nothing", {"a": "", "b": ""}),
        ("a: Bash(git:*), Read", {"a": "Bash(git:*), Read"}),
        (
            "a: yes\nb: 1.0\nc: on\nd: no # not\ne: 2026-01-01",
            {"a": "yes", "b": "1.0", "c": "on", "d": "no", "e": "2026-01-01"},
        ),
        ("a: **/*.ts\nb: '*'\nc: *.py, b # d", {"a": "**/*.ts", "b": "*", "c": "*.py, b"}),
        (
            "a: Use it: when needed # now\nb: one: two\n  three: four",
            {"a": "Use it: when needed", "b": "one: two three: four"},
        ),
    ],
)
def test_fields(matter: str, fields: dict[str, str]) -> None:
    document = parse_document(f"---\n{matter}\n---\n\nThe body.\n---\nx\n")
    assert (document.fields, document.body) == (fields, "The body.\n---\nx")
    assert parse_document(f"\ufeff---\r\n{matter.replace(chr(10), chr(13) + chr(10))}\r\n...\r\n").fields == fields


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not begin with"),
        ("name: x", "does not begin with"),
        (" ---\n---", "does not begin with"),
        ("---\nname: x", "has no end"),
        ("---\nname x\n---", "line 2 of its front matter is not of the form"),
        ("---\na: x\nname:x\n---", "line 3"),
        ("---\n name: x\n---", "line 2"),
        ("---\n- x\n---", "line 2"),
        ("---\na: x\na: y\n---", "line 3 of its front matter names a again"),
        ("---\na: 'x\n---", "line 2 of its front matter can't be read: found unexpected end of stream"),
        ('---\na: "x" y\n---', "line 2 of its front matter can't be read: expected <block end>"),
        ('---\na: "\\x"\n---', "line 2 of its front matter can't be read: expected escape sequence"),
    ],
)
def test_invalid_values_are_refused(text: str, reason: str) -> None:
    with pytest.raises(FrontMatterError) as raised:
        parse_document(text)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("matter", "reason"),
    [
        ("a: *it", "an alias is more YAML than can be read here"),
        ("a: [*it, *it]", "an alias"),
        ("a: &it x", "an anchor"),
        ("a: [&it x]", "an anchor"),
        ("a: !!str x", "a tag"),
        ("a: {b: !!python/object:os.system x}", "a tag"),
        ("a:\n  ? b\n  : c", "a key with a question mark"),
        ("a:\n  b: x\n  b: y", "it names 'b' again"),
        ("a: {[b]: c}", "a key must be a text"),
        ("a: " + "[" * 5_000, "nested too deeply"),
        ("a:" + "".join(f"\n{'  ' * n}  k:" for n in range(20)), "nested too deeply"),
        ("a: [" + "b, " * 30_000 + "]", "longer than 65,536 characters"),
        ("a: [\x01]", "characters that YAML does not allow"),
    ],
)
def test_values_that_are_refused(matter: str, reason: str) -> None:
    document = parse_document(f"---\n{matter}\n---\n")
    with pytest.raises(FrontMatterError, match=reason):
        document.others["a"].parse()


@given(st.text(alphabet=st.sampled_from("-\n ab:'\"|>#[\\\t"), max_size=60))
def test_anything_is_a_document_or_refused(text: str) -> None:
    try:
        document = parse_document("---\n" + text)
    except FrontMatterError:
        return
    assert all(document.fields)
    for source in document.others.values():
        with contextlib.suppress(FrontMatterError):
            source.parse()
