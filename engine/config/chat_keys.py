"""The keys of the chat: its actions, their default keys, and what `[keys]` of the configuration makes of them.

A key is written as its name after `ctrl+`, `alt+` and `shift+`, in that order: `ctrl+j`, `alt+enter`, `shift+tab`. Two
keys with a blank between them are pressed one after the other: `ctrl+x ctrl+e`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

import attrs

from engine.config.config import suggest_names
from engine.core.errors import ConfigError


@attrs.frozen
class ChatAction:
    """What a key can do.

    Attributes:
        name: its name in the configuration.
        keys: its default keys.
        summary: what it does.
        is_edit: it changes text or moves in it, and so works in every line that is typed.
    """

    name: str
    keys: tuple[str, ...]
    summary: str
    is_edit: bool = False


def _edit(name: str, keys: str, summary: str) -> ChatAction:
    return ChatAction(name, tuple(keys.split()), summary, is_edit=True)


ACTIONS: Final = (
    ChatAction("send", ("enter",), "send; while the agent works, it reads the message before its next step"),
    ChatAction("send_later", ("alt+enter",), "send after this turn"),
    ChatAction("newline", ("ctrl+j", "shift+enter", "ctrl+enter"), "new line; so is \\ before Enter"),
    ChatAction("cancel", ("escape",), "cancel the turn; twice, at an empty prompt: rewind"),
    ChatAction("interrupt", ("ctrl+c",), "cancel the turn; else clear the draft; twice: quit"),
    ChatAction("quit", ("ctrl+d",), "quit, if the draft is empty; else delete forward"),
    ChatAction("suspend", ("ctrl+z",), "suspend; fg continues"),
    ChatAction("redraw", ("ctrl+l",), "draw the prompt again"),
    ChatAction("search_history", ("ctrl+r",), "search the history"),
    ChatAction("external_editor", ("ctrl+g", "ctrl+x ctrl+e"), "write the draft in $EDITOR"),
    ChatAction("call_details", ("ctrl+o",), "show the last tool call in full"),
    ChatAction("jobs", ("ctrl+t",), "list background commands"),
    ChatAction("next_profile", ("shift+tab",), "next permission profile: ask, auto-edit, read-only"),
    ChatAction("paste_image", ("ctrl+v",), "attach the image in the clipboard"),
    ChatAction("complete", ("tab",), "complete a command, its argument or an @path; or answer a question"),
    ChatAction("up", ("up", "ctrl+p"), "row above; then the history; on an empty draft, take back the last message"),
    ChatAction("down", ("down", "ctrl+n"), "row below; then the history"),
    _edit("left", "left ctrl+b", "character to the left"),
    _edit("right", "right ctrl+f", "character to the right"),
    _edit("word_left", "alt+b ctrl+left alt+left", "beginning of the word"),
    _edit("word_right", "alt+f ctrl+right alt+right", "end of the word"),
    _edit("line_start", "home ctrl+a", "beginning of the line"),
    _edit("line_end", "end ctrl+e", "end of the line"),
    _edit("delete_back", "backspace shift+backspace", "delete the character before the cursor"),
    _edit("delete_forward", "delete", "delete the character after the cursor"),
    _edit("kill_line_end", "ctrl+k", "cut to the end of the line"),
    _edit("kill_line_start", "ctrl+u", "cut to the beginning of the line"),
    _edit("kill_blank_word", "ctrl+w", "cut the word before the cursor, up to a blank"),
    _edit("kill_word_back", "alt+backspace ctrl+backspace", "cut the word before the cursor"),
    _edit("kill_word", "alt+d ctrl+delete", "cut the word after the cursor"),
    _edit("yank", "ctrl+y", "insert what was cut last"),
    _edit("yank_earlier", "alt+y", "after that: what was cut before"),
    _edit("undo", "ctrl+_ ctrl+/ ctrl+7", "undo"),
    _edit("swap", "alt+t", "swap the characters around the cursor"),
    _edit("upper_case", "alt+u", "the word in upper case"),
    _edit("lower_case", "alt+l", "the word in lower case"),
    _edit("capitalize", "alt+c", "the word with a capital letter"),
)
DEFAULT_KEYS: Final[Mapping[str, tuple[str, ...]]] = {action.name: action.keys for action in ACTIONS}

_NAMES: Final = frozenset(
    {"enter", "tab", "escape", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"}
    | {"up", "down", "left", "right"}
    | {f"f{number}" for number in range(1, 13)}
)
_KEY: Final = re.compile(r"(?P<modifiers>(?:(?:ctrl|alt|shift)\+)*)(?P<base>.+)", re.DOTALL)
_ORDER: Final = ("ctrl+", "alt+", "shift+")
# Terminals send the same byte for these.
_SAME: Final = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+[": "escape", "ctrl+h": "backspace", "ctrl+?": "backspace"}


def normalize_key(text: str) -> str:
    """Return a key's name in the usual spelling. Raises `ConfigError` if there is no such key, or it is text."""
    match = _KEY.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigError("a key must not be empty: write it as 'ctrl+j' or 'alt+enter'")
    modifiers, base = match["modifiers"], match["base"]
    if base not in _NAMES and not (len(base) == 1 and base.isprintable()):
        raise ConfigError(f"unknown key {text!r}: write it as 'ctrl+j', 'alt+enter', 'shift+tab' or 'f5'")
    if base not in _NAMES and modifiers in {"", "shift+"}:
        raise ConfigError(f"{text!r} is text that is typed: a key needs ctrl+ or alt+")
    name = "".join(each for each in _ORDER if each in modifiers) + base
    return _SAME.get(name, name)


def normalize_keys(text: str) -> str:
    """Return one or two keys, pressed one after the other, in the usual spelling. Raises `ConfigError`."""
    keys = text.split()
    if len(keys) > 2:
        raise ConfigError(f"{text!r} has more than two keys")
    return " ".join(map(normalize_key, keys or [""]))


@attrs.frozen(kw_only=True)
class KeyBindings:
    """The keys of all actions.

    Attributes:
        actions: the name of the action for each key, or for two keys with a blank between them.
    """

    actions: Mapping[str, str]

    @property
    def prefixes(self) -> frozenset[str]:
        """The keys that begin a pair."""
        return frozenset(keys.partition(" ")[0] for keys in self.actions if " " in keys)

    def keys_of(self, action: str) -> tuple[str, ...]:
        """Return the keys of an action."""
        return tuple(keys for keys, name in self.actions.items() if name == action)


def bind_keys(changes: Mapping[str, object]) -> KeyBindings:
    """Return the bindings with *changes*: for an action its keys, instead of the default ones. Raises `ConfigError`.

    The error begins with the name of the action that is wrong.
    """
    for name in changes:
        if name not in DEFAULT_KEYS:
            raise ConfigError(f"{name} is no action of the chat: {suggest_names(name, DEFAULT_KEYS)}")
    actions: dict[str, str] = {}
    for name, default in DEFAULT_KEYS.items():
        for each in _parse_keys(name, changes.get(name, default)):
            other = actions.setdefault(each, name)
            if other != name:
                raise _conflict(each, (other, name), changes)
    _check_prefixes(actions, changes)
    return KeyBindings(actions=actions)


def _parse_keys(action: str, value: object) -> list[str]:
    keys = [value] if isinstance(value, str) else value
    if not isinstance(keys, (list, tuple)) or not all(isinstance(each, str) for each in cast("list[object]", keys)):
        raise ConfigError(f"{action} must be a key, or a list of keys, not {value!r}")
    try:
        return [normalize_keys(each) for each in cast("list[str]", keys)]
    except ConfigError as error:
        raise ConfigError(f"{action}: {error}") from error


def _check_prefixes(actions: Mapping[str, str], changes: Mapping[str, object]) -> None:
    for keys, name in actions.items():
        first = keys.partition(" ")[0]
        if first != keys and first in actions:
            raise _conflict(first, (actions[first], name), changes)


def _conflict(key: str, actions: tuple[str, str], changes: Mapping[str, object]) -> ConfigError:
    """Return the error for a key that two actions have; the first word is one that the file sets."""
    first, other = actions if actions[0] in changes else (actions[1], actions[0])
    return ConfigError(f"{first}: {key} is also a key of {other}: give keys.{other} another one")
