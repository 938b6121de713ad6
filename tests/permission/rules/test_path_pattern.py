"""Path patterns: what they match, what they refuse, and what they cover."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.core.permission_types import UNKNOWN
from engine.permission.rules.path_pattern import PathPattern, absolute, exact, is_resolved

PROJECT = "/home/me/app"
HOME = "/home/me"


def made(pattern: str) -> PathPattern:
    return PathPattern(pattern, PROJECT, HOME)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.env", "a/b.env .env x.env/y /etc/.env /a.env/b", "a.env.x a/benv . /"),
        (".env", ".env a/.env a/.env/b /x/.env", "a.env .envrc ./.env"),
        ("build", "build a/build build/x /build/x", "builds rebuild ."),
        ("build/", "build a/build build/x", "builds"),
        ("me", "me a/me /home/me /home/me/x", "a ."),
        ("app", "app/x", "x ."),  # the project's own folder is not what a name means inside of it
        ("src/*.py", "src/a.py src/.py src/a.py/x /home/me/app/src/a.py", "src/b/a.py a/src/a.py a.py /src/a.py"),
        ("./*.py", "a.py", "b/a.py /a.py"),
        (".", ". a a/b /home/me/app /home/me/app/c", "/home/me /home/me/apple"),
        ("./**", "a a/b", ". /home/me"),
        ("src/**", "src/a src/a/b", "src srcs/a ."),
        ("a/**/b", "a/b a/x/b a/x/y/b a/b/c", "ab a a/xb"),
        ("**/x/y", "x/y a/x/y x/y/z /x/y", "x y"),
        ("**/x", "x a/x /x", "ax"),
        ("*", ". a a/b /etc / ../x", ""),
        ("**", ". a a/b /etc /", ""),
        ("**/*", ". a a/b /etc", ""),
        ("/", ". a a/b /etc /", ""),
        ("/**", ". a a/b /etc", "/"),
        ("/etc", "/etc /etc/x", "etc /etcx a/etc"),
        ("/etc/*.conf", "/etc/a.conf /etc/a.conf/b", "/etc/x/a.conf"),
        ("/home/me", "/home/me /home/me/x . a", "/home/mex /home"),
        ("~", "/home/me /home/me/x . a", "/home"),
        ("~/.ssh", "/home/me/.ssh /home/me/.ssh/id", ".ssh /home/you/.ssh"),
        ("$HOME/.ssh/", "/home/me/.ssh /home/me/.ssh/id", ".ssh"),
        ("$x/a", "$x/a", "x/a"),
        ("~lock", "~lock a/~lock", "lock"),
        ("*.{pem,key}", "a.pem b/c.key", "a.pe pem"),
        ("{a,b/c}", "a x/a b/c", "c x/b/c"),
        ("[ab].txt", "a.txt x/b.txt", "c.txt ab.txt"),
        ("[!a].txt", "b.txt", "a.txt .txt"),
        ("\\[id].tsx", "[id].tsx", "i.tsx"),
        ("\\!x", "!x", "x"),
        (".*", ".a a/.b", ". a"),
        ("a?b", "a\nb a\udc80b", "a/b ab"),
        ("A.py", "A.py", "a.py"),
    ],
)
def test_matching(pattern: str, yes: str, no: str) -> None:
    wanted = yes.split(" ")
    paths = [path for path in wanted + no.split(" ") if path]
    assert [path for path in paths if made(pattern).matches(path)] == wanted


def test_unknown_paths_may_match() -> None:
    for path in (f"a/{UNKNOWN}", "a/../b", "..", "./a", "a//b", "a/", ""):
        assert not is_resolved(path)
        assert not made("a").matches(path)
        assert made("zzz").may_match(path)
        assert made("*").matches(path)
    assert is_resolved(".")
    assert not made("zzz").may_match("a")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("a/../b", "matches nothing: paths never contain '..'"),
        ("..", "never contain '..'"),
        ("a/./b", "never contain '.'"),
        ("//", "two slashes"),
        ("a//b", "two slashes"),
        ("!a", "rules have actions"),
        ("{a,..}/b", "never contain '..'"),
        ("{a", "a { without"),
        ("a\\", "escapes nothing"),
        ("[z-a]", "is no range"),
        ("[a/b]", "a class cannot contain a slash"),
        ("[a]x[b/c", "a class cannot contain a slash"),
        ("~you/x", "another user"),
        ("a\0b", "a character that no path contains"),
        ("a" * 5_000, "characters"),
    ],
)
def test_impossible_pattern_is_an_error(pattern: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        made(pattern)
    assert words in str(error.value)


def test_project_and_home_are_absolute() -> None:
    with pytest.raises(ConfigError, match="the project must be an absolute path"):
        PathPattern("a", "x", "/h")
    with pytest.raises(ConfigError, match="the home must be an absolute path"):
        PathPattern("a", "/x", "")


def test_a_project_that_is_the_whole_machine() -> None:
    assert PathPattern("etc/x", "/", "/root").matches("etc/x/y")
    assert PathPattern(".", "/", "/root").matches("etc")
    assert absolute("/", "etc") == "/etc"


def test_project_name_that_looks_like_a_pattern() -> None:
    pattern = PathPattern("src/*", "/p/[a] {b}", "/h")
    assert pattern.matches("src/x")
    assert pattern.matches("/p/[a] {b}/src/x")
    assert not pattern.matches("/p/a {b}/src/x")


NAMES = st.text("ab.*?[]{}\\ !~$-\n\udc80", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})
PATHS = st.builds(
    lambda root, names: root + "/".join(names), st.sampled_from(["", "/"]), st.lists(NAMES, min_size=1, max_size=3)
)
GLOBS = st.lists(
    st.sampled_from(["a", "b", "*", "?", "**", "/", "/", ".", "{a,b}", "[ab]", "/**/", "~/", "./"]),
    min_size=1,
    max_size=6,
).map("".join)
PLAIN = st.builds(
    lambda root, names: (root + "/".join(names)).rstrip("/") or root[:1] or ".",
    st.sampled_from(["", "", "/", "/home/me/", "/home/me/app/"]),
    st.lists(st.sampled_from(["a", "b", "ab", ".a", "home", "app"]), max_size=4),
)


@given(PATHS, PATHS)
def test_exact_patterns_match_their_path_and_below(path: str, other: str) -> None:
    pattern = made(exact(path))
    assert pattern.matches(path)
    assert pattern.matches(f"{path}/x")
    seen = absolute(PROJECT, other)
    whole = absolute(PROJECT, path)
    assert pattern.matches(other) == (seen == whole or seen.startswith(f"{whole}/"))
    assert exact(".") == "./"


def patterns(text: str) -> PathPattern | None:
    try:
        return made(text)
    except ConfigError:
        return None


@given(GLOBS, GLOBS, st.lists(PLAIN, min_size=1, max_size=8))
def test_covering_pattern_matches_everything_covered(one: str, two: str, paths: list[str]) -> None:
    pattern, other = patterns(one), patterns(two)
    if pattern is None or other is None:
        return
    for path in paths:
        if other.matches(path):
            if pattern.covers(other):
                assert pattern.matches(path)
            if pattern.matches(path):
                assert pattern.overlaps(other)
            assert other.matches("a" if path == "." else f"{path.rstrip('/')}/a")


@given(GLOBS, PLAIN)
def test_shapes_hold_for_every_match(text: str, path: str) -> None:
    pattern = patterns(text)
    if pattern is None or not pattern.matches(path):
        return
    whole = absolute(PROJECT, path)
    assert any(all(needle in whole for needle in shape.needles) for shape in pattern.shapes)
    plain = [shape.plain for shape in pattern.shapes]
    if None not in plain:
        assert any(f"/{text.strip('/')}/" in f"{whole}/" for text in plain if text is not None)


@pytest.mark.parametrize(
    ("pattern", "other", "covers"),
    [
        ("*", "/etc", True),
        ("src", "src/a.py", True),
        ("src/a.py", "src", False),
        ("src/**", "src/a/*.py", True),
        ("src/**", "./src", False),
        ("/*/b", "/**/b", False),
        ("/**/b", "/*/b", True),
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", True),
        ("*.py", "/etc/a.py", True),
        ("*.py", "/home/**/a.py", False),
        ("app", "/home/me/app", False),
        ("~/.ssh", "~/.ssh/id_rsa", True),
        (".ssh", "~/.ssh/id_rsa", True),
        ("/", "*", True),
        ("*.{pem,key}", "a.pem", True),
        ("a.pem", "*.{pem,key}", False),
        ("[ab]", "a", False),  # in doubt
        ("a*", "a[bc]", True),
        ("a *", "a", False),
    ],
)
def test_covering(pattern: str, other: str, covers: bool) -> None:
    assert made(pattern).covers(made(other)) == covers


def test_disjoint_patterns() -> None:
    assert not made("src/a").overlaps(made("docs/*"))
    assert not made("/etc").overlaps(made("./x"))
    assert made("/home").overlaps(made("./x"))
    assert made("*.py").overlaps(made("/etc"))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 40 + "b", "a" * 4_000),
        ("**/a" * 40 + "/b", "a/" * 2_000 + "c"),
        ("/" + "**/*a*/" * 20 + "b", "/" + "aa/" * 1_300 + "c"),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    ready = made(pattern)
    began = time.process_time()
    assert not ready.matches(path)
    assert time.process_time() - began < 5
