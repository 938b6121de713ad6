"""The keys of the chat: what `[keys]` of the configuration may say, and what its errors say."""

import re

import pytest

from engine.config.chat_keys import ACTIONS, DEFAULT_KEYS, bind_keys, normalize_keys
from engine.core.errors import ConfigError
from engine.settings_file.config_file import read_config


def test_default_keys_are_in_the_usual_spelling() -> None:
    assert [normalize_keys(keys) for action in ACTIONS for keys in action.keys] == [
        keys for action in ACTIONS for keys in action.keys
    ]
    assert set(bind_keys({}).actions.values()) == set(DEFAULT_KEYS)


def test_nothing_is_on_the_keys_of_multiplexers() -> None:
    """Ctrl+A and Ctrl+B are prefixes of screen and tmux; Ctrl+S and Ctrl+Q stop and continue a terminal."""
    actions = bind_keys({}).actions
    for key in ("ctrl+a", "ctrl+b", "ctrl+s", "ctrl+q"):
        name = actions.get(key, "")
        assert not name or len(DEFAULT_KEYS[name]) > 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Ctrl+J", "ctrl+j"),
        ("shift+ctrl+left", "ctrl+shift+left"),
        ("ctrl+m", "enter"),
        ("F5", "f5"),
        ("ctrl++", "ctrl++"),
        ("ctrl+x  ctrl+e", "ctrl+x ctrl+e"),
    ],
)
def test_keys_have_one_spelling(text: str, name: str) -> None:
    assert normalize_keys(text) == name


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('snd = "f5"', "keys.toml:2, [keys]: snd is no action of the chat: did you mean send"),
        ('\nsend = "q"', "keys.toml:3, [keys]: send: 'q' is text"),
        ('send = "hyper+q"', "keys.toml:2, [keys]: send: unknown key 'hyper+q'"),
        ("send = 3", "keys.toml:2, [keys]: send must be a key, or a list of keys, not 3"),
        ('send = ""', "keys.toml:2, [keys]: send: a key must not be empty"),
        ('undo = "f1 f2 f3"', "keys.toml:2, [keys]: undo: 'f1 f2 f3' has more than two keys"),
        ('send = "ctrl+j"', "keys.toml:2, [keys]: send: ctrl+j is also a key of newline"),
        ('jobs = "f5"\nundo = "F5"', "keys.toml:2, [keys]: jobs: f5 is also a key of undo"),
        ('jobs = "ctrl+x"', "keys.toml:2, [keys]: jobs: ctrl+x is also a key of external_editor"),
    ],
)
def test_error_names_file_and_line(lines: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_config(f"[keys]\n{lines}\n".encode(), "keys.toml")


def test_keys_replace_the_default_ones() -> None:
    config = read_config(b'[keys]\nsend = "f2"\nnewline = ["enter", "ctrl+j"]\nsuspend = []\n', "keys.toml")
    actions = bind_keys(config.keys).actions
    assert (actions["enter"], actions["f2"]) == ("newline", "send")
    assert "ctrl+z" not in actions
    assert actions["ctrl+c"] == "interrupt"
