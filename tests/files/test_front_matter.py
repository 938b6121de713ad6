"""Front matter: the subset of YAML that is read, and what is refused of the rest."""

from __future__ import annotations

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
        ("a: one\n  two # no\n  three\nb: x", {"a": "one two three", "b": "x"}),
        ("a: 'one\n  two'\nb: x", {"a": "one two", "b": "x"}),
        ("a: >\n  one\n  two\n\n  three\nb: x", {"a": "one two\nthree", "b": "x"}),
        ("a: |-\n  one\n    two\n\n  three\n", {"a": "one\n  two\n\nthree"}),
        ("a: >- # comment\n one", {"a": "one"}),
        ("a:\n  b: c\n  d: e\nf: x", {"f": "x"}),
        ("a:\n- b\n- c\nf: x", {"f": "x"}),
        ("a: [x, y]\nb: {c: d}\ne: *f\ng: x", {"g": "x"}),
        ("a:\nb: # nothing", {"a": "", "b": ""}),
        ("a: Bash(git:*), Read", {"a": "Bash(git:*), Read"}),
        ("a: yes\nb: 1.0", {"a": "yes", "b": "1.0"}),
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
        ("---\na: 'x\n---", "line 2 of its front matter has a ' that does not enclose"),
        ('---\na: "x" y\n---', 'line 2 of its front matter has a " that'),
        ('---\na: "\\x"\n---', "an escape that is not known"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FrontMatterError) as raised:
        parse_document(text)
    assert reason in str(raised.value)


@given(st.text(alphabet=st.sampled_from("-\n ab:'\"|>#[\\\t"), max_size=60))
def test_anything_is_a_document_or_refused(text: str) -> None:
    try:
        document = parse_document("---\n" + text)
    except FrontMatterError:
        return
    assert all(document.fields)
