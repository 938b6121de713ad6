"""The rules of one ignore file. test_walk.py compares a walk with ripgrep."""

import time

import pytest

from engine.tools.search.gitignore import MAX_RULE_BYTES, Rules


def verdict(rules: bytes, path: str, *, is_folder: bool = False) -> bool | None:
    parsed = Rules.parse(rules)
    assert parsed is not None
    raw = path.encode()
    return parsed.verdict(raw, raw.rpartition(b"/")[2], is_folder=is_folder)


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        (b"a", "a", True),
        (b"a", "x/a", True),
        (b"a", "ab", None),
        (b"/a", "a", True),
        (b"/a", "x/a", None),
        (b"x/a", "x/a", True),
        (b"x/a", "y/x/a", None),
        (b"a/", "a", None),
        (b"*.py", "x/a.py", True),
        (b"*.py\n!a.py", "x/a.py", False),
        (b"!a.py\n*.py", "a.py", True),
        (b"a\n!/x/a", "x/a", False),
        (b"!/x/a\na", "x/a", True),
        (b"x/**", "x/a", True),
        (b"x/**", "x", None),
        (b"**/a", "x/y/a", True),
        (b"\\!a", "!a", True),
        (b"\\#a", "#a", True),
        (b"#a", "#a", "nothing"),
        (b"\n  \n", "a", "nothing"),
        (b"a  ", "a", True),
        (b"a\\ ", "a ", True),
        (b"a\r\n", "a", True),
        (b"\xef\xbb\xbfa", "a", True),
        (b"{a\nb", "b", True),
        (b"b\n\xff\na", "a", None),
        (b"b\n\xff\na", "b", True),
        (b"?", "é", None),
        (b"??", "é", True),
        ("é".encode(), "é", True),
        (b"x" * (MAX_RULE_BYTES + 1) + b"\na", "a", True),
        (b"!", "a", False),
    ],
)
def test_gitignore_rules(rules: bytes, path: str, expected: object) -> None:
    if expected == "nothing":
        assert Rules.parse(rules) is None
    else:
        assert verdict(rules, path) is expected


def test_a_rule_for_folders() -> None:
    assert verdict(b"a/", "x/a", is_folder=True) is True
    assert verdict(b"a\n!a/", "a", is_folder=True) is False
    assert verdict(b"a\n!a/", "a") is True


def test_many_or_hostile_rules_are_fast() -> None:
    rules = b"\n".join([b"*a" * 100 + b"b", *(b"name%d*" % n for n in range(5_000)), b"**/a/" * 50 + b"b"])
    began = time.process_time()
    parsed = Rules.parse(rules)
    assert parsed is not None
    for _ in range(20):
        assert parsed.verdict(b"a/" * 50 + b"a" * 255, b"a" * 255, is_folder=False) is None
    assert time.process_time() - began < 5


@pytest.mark.slow
def test_a_hostile_file_is_bounded() -> None:
    """Ten bytes in braces stand for a thousand patterns; and rules may be many: those that are too much don't count."""
    rules = b"\n".join([b"a", b"{" + b"," * 999 + b"}" + b"?" * 2_900, b"*b", *(b"*c%d" % n for n in range(200_000))])
    began = time.process_time()
    parsed = Rules.parse(rules)
    assert parsed is not None
    assert time.process_time() - began < 10
    names = (b"a", b"ab", b"xc0", b"xc199999", b"z")
    assert [parsed.verdict(name, name, is_folder=False) for name in names] == [True, True, True, None, None]
