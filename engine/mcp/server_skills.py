"""Skills of servers, by the extension `io.modelcontextprotocol/skills` (SEP-2640): each is a tool that returns its text.

So it is approved, withheld, searched for and asked about like the server's tools. Its definition holds the digest of
each of its files: a changed file needs a new approval. A file is read when it is asked for, and used only if it is the
one that was approved. Pure; what takes long is for a thread.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import attrs

from engine.core.errors import ToolError
from engine.core.lazy import regex
from engine.core.value_base import Value
from engine.mcp.server_text import bounded, clean, one_line
from engine.mcp.tool_definition import ToolDefinition, canonical_json
from engine.prompt.skills import FILE, MAX_DESCRIPTION_CHARS, is_skill_name

if TYPE_CHECKING:
    from engine.files.yaml_text import Value as Yaml

EXTENSION: Final = "io.modelcontextprotocol/skills"
# What the extension wants every client to accept; more is refused.
_MOST_FILES: Final = 512
_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_URI_CHARS: Final = 1_000
_MOST_FIELDS_CHARS: Final = 16_384
_SHOWN_FILES: Final = 50
_DIGEST: Final = regex(r"sha256:[0-9a-f]{64}")
_SCHEMA: Final = canonical_json(
    {
        "type": "object",
        "properties": {
            "file": {"type": "string", "description": "one of its files, as its text names it; without it: its text"}
        },
        "additionalProperties": False,
    }
)
# How YAML writes what JSON has as these; ours keeps all scalars as text.
_WORDS: Final[Mapping[object, frozenset[str]]] = {
    None: frozenset({"", "~", "null"}),
    True: frozenset({"true", "yes", "on"}),
    False: frozenset({"false", "no", "off"}),
}


class SkillChanged(Exception):
    """A file of a skill is not the one that was approved; the message says why."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SkillFile(Value):
    """A file of a skill: where it is, and what it must be."""

    uri: str
    digest: str
    size: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerSkill(Value):
    """A skill of a server.

    Attributes:
        name: its name.
        folder: the URI of its folder.
        fields: its front matter.
        files: all its files, by their paths in the folder.
    """

    name: str
    folder: str
    fields: Mapping[str, object]
    files: Mapping[str, SkillFile]

    @classmethod
    def of(cls, definition: ToolDefinition) -> ServerSkill:
        """Return the skill that a definition is of."""
        return _skill(json.loads(definition.skill))

    @property
    def description(self) -> str:
        """What it is for, in the server's words."""
        return " ".join(str(self.fields["description"]).split())

    def file(self, path: str) -> SkillFile:
        """Return a file. Raises `ToolError` with those that there are."""
        in_folder = path.removeprefix(f"{self.folder}/").removeprefix("./")
        if (found := self.files.get(in_folder)) is None:
            raise ToolError(f"The skill {self.name} has no file {path!r}. It has: {self._listed(self.files)}.")
        return found

    def verify(self, file: SkillFile, data: bytes) -> str:
        """Return the text of the skill if *file* is its `SKILL.md`, else nothing. Raises `SkillChanged`. It blocks."""
        if len(data) != file.size or f"sha256:{hashlib.sha256(data).hexdigest()}" != file.digest:
            raise SkillChanged("it is not what the server has listed")
        if file is not self.files[FILE]:
            return ""
        from engine.files.front_matter import FrontMatterError, parse_document

        try:
            document = parse_document(data.decode())
            parsed = {**document.fields, **{key: source.parse() for key, source in document.others.items()}}
        except (UnicodeDecodeError, FrontMatterError) as error:
            raise SkillChanged(f"it can't be read: {one_line(str(error))}") from error
        if not _is_same(self.fields, parsed):
            raise SkillChanged("its front matter is not what the server has listed")
        return document.body

    def shown(self, server: str, text: str) -> str:
        """Return its text for the model, with whose words they are."""
        others = [path for path in self.files if path != FILE]
        files = f" Its files, to be read with the argument `file`: {self._listed(others)}." if others else ""
        return f"(The skill {self.name} of the MCP server {server}, in the server's words.{files})\n\n{clean(text)}"

    def lines(self) -> list[str]:
        """Return what an approval of it is for, as lines for people."""
        others = {name: value for name, value in self.fields.items() if name not in {"name", "description"}}
        fields = clean(json.dumps(others, indent=1, ensure_ascii=True)).splitlines() if others else []
        return [
            "a skill: instructions for the model, also about what it runs",
            *bounded(self.description).splitlines(),
            *fields,
            *(f"{one_line(path)}: {file.size:,} bytes, {file.digest}" for path, file in self.files.items()),
        ]

    def _listed(self, paths: Sequence[str] | Mapping[str, SkillFile]) -> str:
        shown = [one_line(path) for path, _ in zip(paths, range(_SHOWN_FILES), strict=False)]
        return ", ".join([*shown, *(["and more"] if len(paths) > _SHOWN_FILES else [])])


def skill_description(server: str, description: str) -> str:
    """Return the description of a skill's tool for a model."""
    return (
        f"A skill of the MCP server {server}: instructions for a kind of work. Call it before you begin such work. The "
        f"server describes it so:\n{bounded(description)}"
    )


def read_skills(
    listed: Sequence[object], taken: Container[str] = ()
) -> tuple[list[ToolDefinition], list[tuple[str, str]]]:
    """Return the skills of a list as tools, and those that are refused, with reasons. It blocks for some milliseconds.

    Args:
        listed: their entries.
        taken: the names of the server's tools.
    """
    definitions: dict[str, ToolDefinition] = {}
    refused: list[tuple[str, str]] = []
    for index, entry in enumerate(listed):
        try:
            skill = _skill(entry)
            definition = _definition(skill)
            if definition.name in definitions or definition.name in taken:
                raise ValueError("the server has another tool or skill of this name")
            definitions[definition.name] = definition
        except (ValueError, RecursionError) as error:
            uri = cast("dict[str, object]", entry).get("uri") if isinstance(entry, dict) else None
            refused.append((f"skill {uri[:200] if isinstance(uri, str) else index + 1}", str(error)))
    return list(definitions.values()), refused


def _definition(skill: ServerSkill) -> ToolDefinition:
    resources = [attrs.asdict(file) for file in skill.files.values()]
    entry = {"uri": skill.files[FILE].uri, "frontmatter": skill.fields, "resources": resources}
    # Not the name alone: a server may have several of one name, in different folders.
    name = f"skill_{skill.folder.removeprefix('skill://').replace('/', '.')}"
    if len(name) > 256:
        raise ValueError("its path is too long")
    return ToolDefinition(name=name, description=skill.description, input_schema=_SCHEMA, skill=canonical_json(entry))


def _skill(entry: object) -> ServerSkill:
    """Return the skill of an entry. Raises `ValueError` with the reason if it is none."""
    values = cast("dict[str, object]", entry) if isinstance(entry, dict) else dict[str, object]()
    uri, fields = values.get("uri"), values.get("frontmatter")
    if not isinstance(uri, str) or not uri.endswith(f"/{FILE}") or len(uri) > _MOST_URI_CHARS:
        raise ValueError(f"its uri is not that of a {FILE}")
    if not isinstance(fields, dict):
        raise ValueError("it has no front matter")  # noqa: TRY004  # one kind of error for all of a stranger's mistakes
    table, folder = cast("dict[str, object]", fields), uri.removesuffix(f"/{FILE}")
    name, description = table.get("name"), table.get("description")
    if not isinstance(name, str) or not is_skill_name(name) or name != folder.rpartition("/")[2]:
        raise ValueError("its name is not valid, or not that of its folder")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= MAX_DESCRIPTION_CHARS:
        raise ValueError(f"its description must have 1 to {MAX_DESCRIPTION_CHARS:,} characters")
    if len(canonical_json(table)) > _MOST_FIELDS_CHARS:
        raise ValueError("its front matter is too long")
    return ServerSkill(name=name, folder=folder, fields=table, files=_files(values.get("resources"), folder))


def _files(resources: object, folder: str) -> Mapping[str, SkillFile]:
    """Return the files of a skill. Raises `ValueError`."""
    if resources == "dynamic":
        raise ValueError("it changes with each reading, so it can't be approved")
    if not isinstance(resources, list) or not 0 < len(cast("list[object]", resources)) <= _MOST_FILES:
        raise ValueError(f"it does not list its files, or has more than {_MOST_FILES}")
    files: dict[str, SkillFile] = {}
    for item in cast("list[object]", resources):
        file = _file(cast("dict[str, object]", item) if isinstance(item, dict) else {})
        path = file.uri.removeprefix(f"{folder}/")
        if path in {"", file.uri} or path in files or ".." in path.split("/"):
            raise ValueError("one of its files is not in its folder, or is listed twice")
        files[path] = file
    if FILE not in files:
        raise ValueError(f"it has no {FILE}")
    if sum(file.size for file in files.values()) > _MOST_BYTES:
        raise ValueError(f"its files have more than {_MOST_BYTES:,} bytes")
    return files


def _file(values: Mapping[str, object]) -> SkillFile:
    """Return a file of a skill. Raises `ValueError`."""
    uri, digest, size = values.get("uri"), values.get("digest"), values.get("size")
    if not isinstance(uri, str) or len(uri) > _MOST_URI_CHARS:
        raise ValueError("one of its files has no uri")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError("one of its files has no digest")
    if not isinstance(size, int) or size < 0:
        raise ValueError("one of its files has no size")
    return SkillFile(uri=uri, digest=digest, size=size)


def _is_same(value: object, parsed: Yaml) -> bool:
    """Return whether a JSON value is what YAML without types has read."""
    match value:
        case dict():
            table = cast("dict[str, object]", value)
            return (
                isinstance(parsed, Mapping)
                and parsed.keys() == table.keys()
                and all(_is_same(each, parsed[key]) for key, each in table.items())
            )
        case list():
            items = cast("list[object]", value)
            is_alike = isinstance(parsed, tuple) and len(parsed) == len(items)
            return is_alike and all(map(_is_same, items, parsed))
        case _:
            return isinstance(parsed, str) and _is_same_text(value, parsed)


def _is_same_text(value: object, text: str) -> bool:
    if value is None or isinstance(value, bool):
        return text.lower() in _WORDS[value]
    if isinstance(value, str):
        return value == text
    try:
        return float(text) == value
    except ValueError:
        return False
