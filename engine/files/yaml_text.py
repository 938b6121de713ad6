"""Reads the values of front matter with PyYAML, as texts, lists and maps of texts.

The loader resolves no types, so `on`, `no` and `1.0` stay text. What people write unquoted, and
YAML would refuse, stays text as well: a pattern that begins with `*`, and a value with a colon
in it. Aliases, anchors, tags and directives are refused.

Import it lazily: PyYAML costs as much as reading some hundred small files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias, cast

import yaml
from yaml.composer import ComposerError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.scanner import ScannerError
from yaml.tokens import ScalarToken

Value: TypeAlias = "str | tuple[Value, ...] | Mapping[str, Value]"

MAX_CHARS: Final = 65_536
_MAX_DEPTH: Final = 6
_ALIAS: Final = re.compile(r"\*[\w-]+\Z")


class YamlTextError(Exception):
    """The text is no YAML, or uses a part of YAML that is refused; the message gives the reason. *line* counts from 0."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


def parse_yaml(text: str) -> Value:
    """Parse *text*. It takes time in proportion to its length. Raises `YamlTextError`."""
    if len(text) > MAX_CHARS:
        raise YamlTextError(f"it is longer than {MAX_CHARS:,} characters")
    try:
        loader = _TextLoader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark is not None else 0
        raise YamlTextError(error.problem or error.context or "it is no YAML", line) from error
    except yaml.YAMLError as error:
        raise YamlTextError("it holds characters that YAML does not allow") from error
    return "" if node is None else _value(node)


class _TextLoader(yaml.SafeLoader):
    """PyYAML's safe loader without types, and with the leniency that files in the wild need."""

    # Without resolvers, every plain scalar stays text.
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # as PyYAML declares it

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._is_after_key = False

    # -- scanner ----------------------------------------------------------------------------

    def fetch_alias(self) -> None:
        """Take `**/*.ts` for text; an alias is refused when its text is known."""
        self.fetch_plain()

    def fetch_anchor(self) -> None:
        """Refuse an anchor."""
        raise self._refusal("an anchor")

    def fetch_tag(self) -> None:
        """Refuse a tag."""
        raise self._refusal("a tag")

    def fetch_directive(self) -> None:
        """Refuse a directive."""
        raise self._refusal("a directive")

    def fetch_key(self) -> None:
        """Refuse a `?` key."""
        raise self._refusal("a key with a question mark")

    def fetch_flow_collection_start(self, TokenClass: type) -> None:  # noqa: N803  # PyYAML's name
        """Refuse deep nesting here too: the scanner's time grows with the square of the depth."""
        if self.flow_level >= _MAX_DEPTH:
            raise ScannerError(problem="it is nested too deeply", problem_mark=self.get_mark())
        super().fetch_flow_collection_start(TokenClass)  # pyright: ignore[reportUnknownMemberType]  # PyYAML's stubs

    def fetch_plain(self) -> None:
        """Record whether the scalar follows a key on the same line; `scan_plain` can no longer see that."""
        self._is_after_key = not self.flow_level and not self.allow_simple_key
        super().fetch_plain()

    def scan_plain(self) -> ScalarToken:
        """Scan a plain scalar; behind `key:` on the same line, later colons belong to the text."""
        start = self.get_mark()
        token = super().scan_plain()
        parts = [token.value]
        # A colon on a continuation line is most likely wrong indentation, except below a key of the first level: there
        # people write descriptions of several lines.
        while self._is_after_key and self._next_char() == ":" and (self.line == start.line or self.indent == 0):
            end = self.index
            self.forward()
            while self._next_char() == " ":
                self.forward()
            separator = ":" + " " * (self.index - end - 1)
            more = super().scan_plain()
            parts.append(f"{separator}{more.value}" if more.value else ":")
            token.end_mark = more.end_mark
        token.value = "".join(parts)
        if _ALIAS.match(token.value):
            raise ScannerError(problem="an alias is more YAML than can be read here", problem_mark=start)
        return token

    def _next_char(self) -> str:
        return cast("str", self.peek())  # pyright: ignore[reportUnknownMemberType]  # PyYAML's stubs

    def _refusal(self, what: str) -> yaml.YAMLError:
        return ScannerError(problem=f"{what} is more YAML than can be read here", problem_mark=self.get_mark())

    # -- composer ---------------------------------------------------------------------------

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Compose a node, unless it is nested too deeply."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ComposerError(problem="it is nested too deeply", problem_mark=self.get_mark())
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _value(node: Node) -> Value:
    match node:
        case SequenceNode():
            return tuple(_value(item) for item in node.value)
        case MappingNode():
            return _map(node)
        case ScalarNode():
            text = str(node.value)
            return text.strip("\n") if node.style in {"|", ">"} else text
        case _:
            raise YamlTextError("it is neither a text, a list nor a map", node.start_mark.line)


def _map(node: MappingNode) -> Mapping[str, Value]:
    pairs: dict[str, Value] = {}
    for key_node, value_node in node.value:
        key = _value(key_node)
        if not isinstance(key, str):
            raise YamlTextError("a key must be a text", key_node.start_mark.line)
        if key in pairs:
            raise YamlTextError(f"it names {key!r} again", key_node.start_mark.line)
        pairs[key] = _value(value_node)
    return pairs
