"""What a tool is: an async function, a class of arguments, and a few declarations."""

from __future__ import annotations

import contextlib
import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypedDict, TypeVar, Unpack, overload

import attrs

from engine.core.errors import ConfigError
from engine.core.llm_types import ToolSchema
from engine.core.schema import schema_of
from engine.tools.call_values import GRACE, Need, ToolOutput

if TYPE_CHECKING:
    from engine.tools.tool_context import ToolContext
from engine.tools.tool_context import ToolContext

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
_RIGHT = re.compile(r"[^\s:*?\[\]]{1,128}")


# Which part of a result that is too long is kept: its beginning, its end, or both.
Direction = Literal["head", "tail", "both"]
NeedOf = Callable[[object, "ToolContext"], "Need | Awaitable[Need]"]
Assess = Callable[[object, str], Awaitable[bool]]
Body = Callable[[object, "ToolContext"], Awaitable["str | ToolOutput"]]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Tool:
    """A tool, ready for use. Make one with `engine.tool`.

    Attributes:
        name: what the model calls it.
        description: what the model reads of it.
        arguments: the attrs class of its arguments.
        body: the async function.
        read_only: it changes nothing, so it needs no permission by default.
        safe: may it run beside other safe calls, given these arguments?
        assess: the same for arguments that take long to judge, instead of `safe`: of the arguments and the working
            directory, awaited while the rest of the model's answer is received.
        timeout: seconds, then the call is aborted; None: as long as it takes.
        grace: seconds that it may clean up after a cancel.
        chain: with `Settings.chain`, its failure stops later calls like it.
        need: the permissions that these arguments need, returned at once or awaited.
        direction: which part is kept of a result that is too long.
        aliases: other names that a model may call it by; the call runs under its own.
        offered: is it offered to the model of that name?
        permission: the permission without which no call can do anything; where the rules deny that altogether, the tool
            is not offered. Empty: it is unknown.
        protected: its results are not cleared to make room in the window: what they say can't be had again.
        resumable: a call that waits inside it may be entered again, from the beginning, by another engine.
    """

    name: str
    description: str
    arguments: type[attrs.AttrsInstance]
    body: Body
    read_only: bool
    safe: Callable[[object], bool]
    timeout: float | None
    grace: float
    chain: bool
    need: NeedOf
    direction: Direction = "both"
    aliases: tuple[str, ...] = ()
    offered: Callable[[str], bool] = lambda _: True
    permission: str = ""
    protected: bool = False
    resumable: bool = False
    assess: Assess | None = None

    def __repr__(self) -> str:
        """Return its name only: its description can be pages long."""
        return f"Tool({self.name!r})"

    @property
    def schema(self) -> ToolSchema:
        """The tool as the model sees it."""
        return ToolSchema(name=self.name, description=self.description, schema=schema_of(self.arguments))


A = TypeVar("A", bound=attrs.AttrsInstance)


def assessed_by(made: Tool, assess: Callable[[A, str], Awaitable[bool]]) -> Tool:
    """Return the tool with a function that judges whether a call is safe while the model's answer is received."""
    return attrs.evolve(made, assess=typing.cast("Assess", assess))


Function = Callable[[A, "ToolContext"], Awaitable["str | ToolOutput"]]
NeedFunction = (
    Callable[[A], Need]
    | Callable[[A], Awaitable[Need]]
    | Callable[[A, "ToolContext"], Need]
    | Callable[[A, "ToolContext"], Awaitable[Need]]
)


class ToolOptions(TypedDict, Generic[A], total=False):
    """What `tool` takes, all of it optional. See also `Tool`.

    Attributes:
        name: the function's name, if there is none.
        description: the docstring of the arguments' class, or else the function's, if there is none.
        read_only: it changes nothing, so it needs no permission by default, and is safe unless *safe* says otherwise.
        safe: a call may run beside other safe calls; a function of the arguments, or the same for all.
        timeout: seconds, then a call is aborted.
        grace: seconds that it may clean up after a cancel.
        chain: with `Settings.chain`, its failure stops later calls like it.
        need: a function of the arguments, and of the context if it likes, that returns the right that they need.
        direction: which part is kept of a result that is too long.
        aliases: other names that a model may call it by.
        offered: tells of a model's name whether the tool is offered to it.
        permission: the right that *need* returns, if it is always the same one: where the rules deny that altogether,
            the tool is not offered.
        protected: its results are not cleared to make room in the window.
        resumable: it only waits for an answer and changes nothing before that: after a restart, another engine may
            enter a call again that waits in it.
    """

    name: str | None
    description: str | None
    read_only: bool
    safe: bool | Callable[[A], bool] | None
    timeout: float | None
    grace: float
    chain: bool
    need: NeedFunction[A] | None
    direction: Direction
    aliases: Sequence[str]
    offered: Callable[[str], bool] | None
    permission: str | None
    protected: bool
    resumable: bool


@overload
def tool(function: Function[A], /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions[A]]) -> Callable[[Function[A]], Tool]: ...
def tool(
    function: Function[A] | None = None, /, **options: Unpack[ToolOptions[A]]
) -> Tool | Callable[[Function[A]], Tool]:
    """Make a `Tool` of an async function `(arguments, context)`; `ToolOptions` lists the options.

    The class of its first parameter gives the schema; that class's docstring, or the function's, the description.
    Raises `ConfigError` for what makes no sense.

    Example::

        @attrs.frozen
        class Search:
            \"\"\"Search the issue tracker.\"\"\"
            query: Annotated[str, engine.doc("words to look for")]

        @engine.tool(read_only=True)
        async def search(args: Search, ctx: engine.ToolContext) -> str: ...
    """
    unknown = options.keys() - ToolOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"tool() has no option {', '.join(sorted(unknown))}")

    def make(body: Function[A]) -> Tool:
        return _make(body, options)

    return make if function is None else make(function)


def _make(body: Function[A], options: ToolOptions[A]) -> Tool:
    function: object = body
    if not callable(function) or not inspect.iscoroutinefunction(inspect.unwrap(function)):
        raise ConfigError(f"a tool is an async function (arguments, context), not {body!r}")
    own_name = options.get("name")
    name = _name(getattr(body, "__name__", "") if own_name is None else own_name)
    arguments = _arguments_class(body, name)
    description = _description(options.get("description") or _docstring(arguments, body), name)
    _check_options(options, name)
    schema_of(arguments)
    need = options.get("need")
    return Tool(
        name=name,
        description=description,
        arguments=arguments,
        body=typing.cast("Body", body),
        read_only=options.get("read_only", False),
        safe=_safety(options),
        timeout=options.get("timeout"),
        grace=options.get("grace", GRACE),
        chain=options.get("chain", False),
        need=_need_of(need, name),
        direction=options.get("direction", "both"),
        aliases=tuple(_name(alias) for alias in _several(options.get("aliases", ()))),
        offered=options.get("offered") or (lambda _: True),
        permission=_permission(options.get("permission"), name, has_need=need is not None),
        protected=options.get("protected", False),
        resumable=options.get("resumable", False),
    )


def _docstring(arguments: type[attrs.AttrsInstance], body: object) -> str:
    own = arguments.__doc__
    # attrs writes a docstring of its own where there is none.
    return own if own and not own.startswith("Method generated") else getattr(body, "__doc__", None) or ""


def _safety(options: ToolOptions[A]) -> Callable[[object], bool]:
    safe = options.get("safe")
    if callable(safe):
        return typing.cast("Callable[[object], bool]", safe)
    is_safe = bool(options.get("read_only", False) if safe is None else safe)
    return lambda _: is_safe


def _check_options(options: ToolOptions[A], name: str) -> None:
    """Raise `ConfigError` for an option that makes no sense."""
    timeout, grace = options.get("timeout"), options.get("grace", GRACE)
    if timeout is not None and not (_is_number(timeout) and timeout > 0):
        raise ConfigError(f"the timeout of tool {name} must be a number above 0, or None, not {timeout!r}")
    if not (_is_number(grace) and 0 <= grace < float("inf")):  # a shield has a deadline
        raise ConfigError(f"the grace of tool {name} must be a finite number, not negative, but is {grace!r}")
    switches: dict[str, object] = {key: options.get(key, False) for key in ("protected", "resumable")}
    for option, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{option!r} of tool {name} is True or False, not {value!r}")
    _check_function("safe", False if options.get("safe") is None else options.get("safe"), name, or_else=bool)
    _check_function("need", options.get("need"), name, or_else=types.NoneType)
    _check_function("offered", options.get("offered"), name, or_else=types.NoneType)
    direction = options.get("direction", "both")
    if direction not in typing.get_args(Direction):
        raise ConfigError(f"the direction of tool {name} must be 'head', 'tail' or 'both', not {direction!r}")


def _permission(permission: object, name: str, *, has_need: bool) -> str:
    if permission is None:
        return "" if has_need else name
    if not isinstance(permission, str) or not _RIGHT.fullmatch(permission):
        raise ConfigError(f"the permission of tool {name} is the name of a right, such as 'edit', not {permission!r}")
    if not has_need and permission != name:
        raise ConfigError(f"tool {name} has no 'need', so the right that it needs is {name!r}, not {permission!r}")
    return permission


def _need_of(need: NeedFunction[A] | None, name: str) -> NeedOf:
    """Return *need* as a function of the arguments and the context, whichever of its forms it has."""
    if need is None:
        return lambda _, __: Need(permission=name)
    parameters = inspect.signature(need).parameters
    if len(parameters) == 1:
        of_arguments = typing.cast("Callable[[object], Need | Awaitable[Need]]", need)
        return lambda arguments, _: of_arguments(arguments)
    if len(parameters) == 2:
        return typing.cast("NeedOf", need)
    raise ConfigError(f"'need' of tool {name} takes its arguments, and the context if it likes, not {len(parameters)}")


def _several(names: object) -> Sequence[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f"aliases are a sequence of names, not {names!r}")
    return typing.cast("Sequence[str]", names)


def _name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise ConfigError(f"a tool's name is up to 64 letters, digits, - and _, the first a letter, not {name!r}")
    return name


def _description(text: object, name: str) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"the description of tool {name} must be a str, not {text!r}")
    cleaned = inspect.cleandoc(text)
    if not cleaned:
        raise ConfigError(f"tool {name} has no description: give its class of arguments a docstring")
    return cleaned


def _check_function(what: str, value: object, name: str, *, or_else: type) -> None:
    if not (callable(value) or isinstance(value, or_else)):
        raise ConfigError(f"{what!r} of tool {name} must be a function of its arguments, not {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _arguments_class(body: Function[A], name: str) -> type[attrs.AttrsInstance]:
    parameters = list(inspect.signature(body).parameters.values())
    if len(parameters) != 2:
        raise ConfigError(f"tool {name} must take two parameters, its arguments and a ToolContext")
    annotation = _annotation(body, parameters[0])
    if not (isinstance(annotation, type) and attrs.has(annotation)):
        raise ConfigError(
            f"the first parameter of tool {name} must be annotated with an attrs class, not {annotation!r}"
        )
    return annotation


def _enclosing(function: types.FunctionType) -> dict[str, object]:
    """Return the names of the enclosing functions that have a value by now; `inspect.getclosurevars` wants all of them."""
    variables: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            variables[name] = cell.cell_contents
    return variables


def _annotation(body: Function[A], parameter: inspect.Parameter) -> object:
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    # Only this one is resolved: the others may name what is imported for type checkers alone.
    function = inspect.unwrap(body)
    try:
        return eval(parameter.annotation, function.__globals__, _enclosing(function))  # noqa: S307  # the author's own annotation
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigError(
            f"can't resolve the annotation {parameter.annotation!r} of {function!r}: define the class of arguments at "
            "module level"
        ) from error
