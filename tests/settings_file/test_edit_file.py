"""Changes to configuration files: what they set, and what they leave alone."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import ConfigError, StoreError
from engine.settings_file.config_keys import Key, parse_key, value_at
from engine.settings_file.edit_file import replace_file, with_value, with_version, without_value

FILE = """\
# My settings.
version = 1

[defaults]
model = "a/b" # for now
agent = "plan"

# The lab.
[hosts.lab]
like = "vllm"   # a copy
headers = { x-team = "a" }

[models."a/b".prices]
input = 1
"""
KEYS = ("defaults.model", "defaults.titles", "hosts.lab.parallel", "hosts.new.like", 'models."a/b".prices.output', 'models."c/d".context', "hosts.lab.headers.x-more", "skills.folders")  # fmt: skip
VALUES = st.one_of(st.booleans(), st.integers(-9, 9), st.text(max_size=9), st.lists(st.text(max_size=3), max_size=3))


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), VALUES)), max_size=6))
@settings(deadline=None)
def test_changes_leave_comments_and_other_keys(changes: list[tuple[str, object]]) -> None:
    text, expected = FILE, tomllib.loads(FILE)
    for name, value in changes:
        key = parse_key(name)
        if value is not None:
            text = with_value(text, key, value)
            put(expected, key, value)
        elif value_at(expected, key) is not None:
            text = without_value(text, key)
            drop(expected, key)
    assert tomllib.loads(text) == expected
    assert all(comment in text for comment in ("# My settings.", "# The lab."))
    assert "# a copy" in text
    order = [text.index(part) for part in ("version", "[defaults]", "[hosts.lab]")]
    assert order == sorted(order)


def put(table: dict[str, object], key: Key, value: object) -> None:
    for part in key[:-1]:
        table = cast("dict[str, object]", table.setdefault(part, {}))
    table[key[-1]] = value


def drop(table: dict[str, object], key: Key) -> None:
    first = next(iter(key))
    inner = table[first]
    if len(key) > 1:
        assert isinstance(inner, dict)
        drop(inner, key[1:])
    if len(key) == 1 or not inner:
        del table[first]


def test_comment_of_a_changed_value_stays() -> None:
    assert 'model = "c/d" # for now' in with_value(FILE, ("defaults", "model"), "c/d")


def test_unset_of_a_missing_key() -> None:
    for name in ("defaults.titles", "hosts.other.like"):
        with pytest.raises(ConfigError, match="is not set in this file"):
            without_value(FILE, parse_key(name))


def test_key_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="model is no table"):
        with_value(FILE, ("defaults", "model", "x"), 1)


def test_version_goes_to_the_top() -> None:
    old = "# mine\n[defaults]\nmodel = 'a/b'\n"
    assert with_version(old) == f"version = 1\n{old}"
    assert with_version(FILE) == FILE


@pytest.mark.os
def test_file_is_replaced_with_its_access_rights(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.toml", tmp_path / "config" / "config.toml"
    replace_file(link, "a = 1\n")
    assert link.stat().st_mode & 0o777 == 0o600
    real.write_text("old")
    real.chmod(0o640)
    link.unlink()
    link.symlink_to(real)
    replace_file(link, "a = 2\n")
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, "a = 2\n", 0o640)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config", "dotfiles.toml"]


@pytest.mark.os
def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(StoreError, match="can't write"):
        replace_file(tmp_path / "config.toml", "a = 1\n")
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]
