"""Write the API reference from the docstrings of the public modules.

    python scripts/api_reference.py            print `docs/reference/api.md`, the list of public names
    python scripts/api_reference.py --write    write it (`make surface` does)

`tests/test_scripts.py` fails where that page differs. The site has a page more for each public module, with
signatures and whole docstrings: `docs/conf.py` writes them when it is built, so they are nowhere else.
"""

import importlib
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import attrs

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "reference" / "api.md"

# The public modules. Whatever is in none of their `__all__` is private.
PUBLIC = (
    "engine",
    "engine.errors",
    "engine.events",
    "engine.hooks",
    "engine.agents",
    "engine.tools",
    "engine.providers",
    "engine.config",
    "engine.settings_file",
    "engine.store",
    "engine.snapshots",
    "engine.permission",
    "engine.prompt",
    "engine.pace",
    "engine.compaction",
    "engine.client",
    "engine.control",
    "engine.export",
    "engine.fleet",
    "engine.telemetry",
    "engine.testing",
)

INTRODUCTION = """\
<!-- Written by scripts/api_reference.py: change the docstrings, then run `make surface`. -->

# Public names

What a program may import. `import engine` itself costs next to nothing: names are loaded when they are first used. Names
that are not listed here are private and may change without notice, and so are members that begin with an underscore.

The docstrings have the details; the site that `make docs` builds shows them with signatures and members. For an async
function the docstring says whether it is a checkpoint, and what happens when it is cancelled there.
"""

_WIDTH = 100
_LONGEST_DEFAULT = 40
_LONGEST_VALUE = 120
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Example|Examples):{1,2}$")
_TITLES = {"Args": "Arguments"}
_ITEM = re.compile(r"^(?P<name>\*{0,2}[\w.]+(?:(?: /|,) [\w.]+)*(?: \([^)]*\))?): (?P<text>.*)$")


def public_names() -> dict[str, dict[str, object]]:
    """Return the names of each public module, with what they stand for."""
    found: dict[str, dict[str, object]] = {}
    for name in PUBLIC:
        if importlib.util.find_spec(name) is not None:
            module = importlib.import_module(name)
            found[name] = {public: getattr(module, public) for public in getattr(module, "__all__", ())}
    return found


def overview() -> str:
    """Return the page that lists all public names."""
    parts = [INTRODUCTION]
    for module, names in public_names().items():
        parts += [f"## `{module}`", "", _first_sentence(sys.modules[module]), ""]
        parts += [f"- `{name}`: {_first_sentence(value)}" for name, value in names.items()]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def module_pages() -> dict[str, str]:
    """Return a page for each public module, with all that the docstrings of its names say."""
    modules = public_names()
    homes: dict[int, str] = {}
    # What `engine` takes over from another public module is described there.
    for module in [*list(modules)[1:], *list(modules)[:1]]:
        for value in modules[module].values():
            if _has_docstring(value):
                homes.setdefault(id(value), module)
    return {module: _module_page(module, names, homes) for module, names in modules.items()}


def _module_page(module: str, names: dict[str, object], homes: dict[int, str]) -> str:
    parts = [f"# {module}", "", _markdown(inspect.getdoc(sys.modules[module]) or ""), ""]
    for name, value in names.items():
        home = homes.get(id(value), module)
        if home == module:
            parts += _describe(name, value)
        else:
            parts += [f"## {name}", "", f"See [`{home}.{name}`]({home}.md#{name.lower()}).", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _first_sentence(value: object) -> str:
    """Return the first sentence of a docstring, or what a constant is."""
    if not _has_docstring(value) and not isinstance(value, types.ModuleType):
        return _constant(value)
    text = _own_docstring(value) if isinstance(value, type) else inspect.getdoc(value) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split()).removesuffix("::")
    return re.split(r"(?<=[.!?]) (?=[A-Z*`])", paragraph, maxsplit=1)[0]


def _has_docstring(value: object) -> bool:
    return isinstance(value, type | types.FunctionType)


def _describe(name: str, value: object) -> Iterator[str]:
    """Yield the section of one name."""
    yield from (f"## {name}", "")
    if isinstance(value, type):
        yield from _describe_class(name, value)
    elif isinstance(value, types.FunctionType):
        yield from (_fence(_signature(name, value)), "", _markdown(inspect.getdoc(value) or ""), "")
    else:
        yield from (_constant(value), "")


def _constant(value: object) -> str:
    """Return what a constant or a type alias is; only the beginning, if it is long."""
    text = _tidy(repr(value))
    if len(text) <= _LONGEST_VALUE:
        return f"`{text}`"
    if type(value).__module__.startswith("engine"):
        return f"a `{type(value).__name__}`"
    return f"`{text[: text.rindex(' ', 0, _LONGEST_VALUE)]} …`"


def _describe_class(name: str, cls: type) -> Iterator[str]:
    if attrs.has(cls) and "Made by" not in (cls.__doc__ or "") and not name.startswith("_"):
        yield from (_fence(_signature(name, cls)), "")
    bases = [
        base.__name__ for base in cls.__bases__ if base.__module__.startswith("engine") and base.__name__[0] != "_"
    ]
    yield from (_markdown(_own_docstring(cls)), "")
    if bases:
        yield from (f"Bases: {', '.join(f'`{base}`' for base in bases)}.", "")
    for member, attribute in _members(cls):
        function = getattr(cls, member, None) if isinstance(attribute, classmethod | staticmethod) else attribute
        if isinstance(function, types.MethodType):
            function = function.__func__
        if isinstance(attribute, property):
            yield from (f"### {name}.{member}", "", _markdown(inspect.getdoc(attribute) or ""), "")
        elif isinstance(function, types.FunctionType):
            heading = [f"### {name}.{member}", "", _fence(_signature(member, function)), ""]
            yield from (*heading, _markdown(inspect.getdoc(function) or ""), "")


def _own_docstring(cls: type) -> str:
    """Return a class's docstring, but not the one that attrs or typing make up."""
    text = inspect.cleandoc(cls.__doc__ or "")
    return "" if text.startswith("Method generated by attrs") else text


def _members(cls: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties of a class, those of its private bases included."""
    fields = {field.name for field in attrs.fields(cls)} if attrs.has(cls) else set[str]()
    private = [base for base in cls.__mro__[1:] if base.__module__.startswith("engine") and base.__name__[0] == "_"]
    for owner in [cls, *private]:
        for name, attribute in vars(owner).items():
            if not name.startswith("_") and name not in fields:
                yield name, attribute


def _signature(name: str, function: types.FunctionType | type) -> str:
    """Return how a function, or a class of values, is called: in one line, or with a line for each parameter."""
    signature = inspect.signature(function)
    inherited = _inherited_fields(function) if isinstance(function, type) else set[str]()
    shown = [one for one in signature.parameters.values() if one.name not in {"self", "cls"} | inherited]
    parameters: list[str] = []
    for before, parameter in zip([None, *shown], shown, strict=False):
        if before is not None and before.kind is before.POSITIONAL_ONLY is not parameter.kind:
            parameters.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and (before is None or before.kind is not before.KEYWORD_ONLY):
            parameters.append("*")
        parameters.append(_parameter(parameter))
    kind = "async " if inspect.iscoroutinefunction(function) else ""
    result = "" if isinstance(function, type) else f" -> {_annotation(signature.return_annotation)}"
    line = f"{kind}{name}({', '.join(parameters)}){result}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{kind}{name}(", *(f"    {parameter}," for parameter in parameters), f"){result}"])


def _parameter(parameter: inspect.Parameter) -> str:
    stars = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    annotation = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
    return f"{stars}{parameter.name}{annotation}{_default(parameter.default)}"


def _default(value: object) -> str:
    """Return a default as it is shown: what is made anew for each call, or is too long to read, is left out."""
    if value is inspect.Parameter.empty:
        return ""
    text = _tidy(repr(value))
    return " = ..." if text == "NOTHING" or "lambda" in text or len(text) > _LONGEST_DEFAULT else f" = {text}"


def _annotation(annotation: object) -> str:
    return _tidy(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)).replace("'", "")


def _inherited_fields(cls: type) -> set[str]:
    """Return the fields that a class has from a public class of values, which describes them."""
    bases = [base for base in cls.__bases__ if attrs.has(base) and not base.__name__.startswith("_")]
    return {field.name for base in bases for field in attrs.fields(base)}


def _tidy(text: str) -> str:
    """Drop what differs between runs and versions: addresses, and the paths of modules."""
    text = re.sub(r"<(?:function|class) '?([\w.]+)'?(?: at 0x[0-9a-f]+)?>", r"\1", text)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"\b(?:engine|typing|collections\.abc|types|trio|pathlib|os|ev)\.(?:\w+\.)*(?=\w)", "", text)


def _fence(text: str) -> str:
    return f"```text\n{text}\n```"


def _markdown(docstring: str) -> str:
    """Turn a docstring in Google's convention into Markdown."""
    out: list[str] = []
    lines = docstring.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        section = _SECTION.match(line)
        if section or line.startswith("    "):
            number += section is not None
            body: list[str] = []
            while number < len(lines) and (not lines[number].strip() or lines[number].startswith("    ")):
                body.append(lines[number].removeprefix("    "))
                number += 1
            title = section[1] if section else ""
            if title:
                out += [f"**{_TITLES.get(title, title)}**", ""]
            is_code = not title or title.startswith("Example")
            out += [_fence("\n".join(body).strip("\n"))] if is_code else list(_items(body))
            out.append("")
        else:
            out.append(line.removesuffix("::") + ":" if line.endswith("::") else line)
            if line.endswith("::") or (number + 1 < len(lines) and lines[number + 1].startswith("    ")):
                out.append("")
            number += 1
    return "\n".join(out).strip()


def _items(body: list[str]) -> Iterator[str]:
    """Yield the items of a section as a list."""
    is_open = False
    for line in body:
        if not line.strip():
            continue
        item = None if line.startswith(" ") else _ITEM.match(line)
        if item:
            is_open = True
            yield f"- `{item['name']}`: {item['text']}"
        else:
            yield f"  {line.strip()}" if is_open else line.strip()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(overview(), encoding="utf-8")
    else:
        print(overview(), end="")
