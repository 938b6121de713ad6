"""What a tool is: an async function, a class for its arguments, and a few declarations."""

from __future__ import annotations

import contextlib
import inspect
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
    from engine.core.arguments import Parsed
from engine.core.lazy import regex
from engine.tools.tool_context import ToolContext

# The names that all hosts accept.
_NAME = regex(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
# No wildcards: rules contain them. No colon: it separates `:read`.
_RIGHT = regex(r"[^\s:*?\[\]]{1,128}")


# Which part of a too long result is kept: its beginning, its end, or both.
Direction = Literal["head", "tail", "both"]
NeedOf = Callable[[object, "ToolContext"], "Need | Awaitable[Need]"]
Assess = Callable[[object, str], Awaitable[bool]]
Body = Callable[[object, "ToolContext"], Awaitable["str | ToolOutput"]]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Tool:
    """A tool, ready for use. Make one with `engine.tool`.

    Attributes:
        name: its name for the model.
        description: its description for the model.
        arguments: the attrs class of its arguments.
        body: the async function.
        read_only: it changes nothing, so it needs no permission by default.
        safe: whether a call with these arguments may run in parallel with other safe calls.
        assess: replaces `safe` where judging the arguments takes long: an async function of the arguments and the working
            directory, which runs while the rest of the model's answer is received.
        timeout: seconds until a call is aborted, more than 0; None: no limit.
        grace: seconds for cleaning up after a cancel.
        chain: with `Settings.chain`, its failure stops later calls of such tools.
        need: returns the permissions that a call needs, directly or as an awaitable.
        direction: which part of a too long result is kept.
        aliases: other names that a model may use; the call runs under the tool's own name.
        offered: whether the tool is offered to the model of that name.
        permission: the permission that each call needs; where the rules deny it altogether, the tool is not offered. Empty:
            it is unknown.
        protected: its results are never cleared from the history, since they can't be obtained again.
        resumable: a call that waits inside it may be started again from the beginning by another engine.
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
        """Return its name only: a description may have pages."""
        return f"Tool({self.name!r})"

    @property
    def schema(self) -> ToolSchema:
        """The tool as the model sees it."""
        return ToolSchema(name=self.name, description=self.description, schema=schema_of(self.arguments))

    def parse(self, arguments: str) -> Parsed[attrs.AttrsInstance]:
        """Return the arguments of a call, from JSON text. Raises `InvalidArguments`, whose text is for the model."""
        # Imported here: it brings cattrs, and the first request needs to wait for neither.
        from engine.core.arguments import parse_kindly

        return parse_kindly(self.arguments, arguments)


A = TypeVar("A", bound=attrs.AttrsInstance)


def assessed_by(made: Tool, assess: Callable[[A, str], Awaitable[bool]]) -> Tool:
    """Return the tool with a function that decides, while the model's answer is received, whether a call is safe."""
    return attrs.evolve(made, assess=typing.cast("Assess", assess))


Function = Callable[[A, "ToolContext"], Awaitable["str | ToolOutput"]]
NeedFunction = (
    Callable[[A], Need]
    | Callable[[A], Awaitable[Need]]
    | Callable[[A, "ToolContext"], Need]
    | Callable[[A, "ToolContext"], Awaitable[Need]]
)


class ToolOptions(TypedDict, Generic[A], total=False):
    """The options of `tool`. See also `Tool`.

    Attributes:
        name: default: the function's name.
        description: default: the docstring of the arguments' class, or else the function's.
        read_only: it changes nothing, so it needs no permission by default, and is safe unless *safe* says otherwise.
        safe: whether a call may run in parallel with other safe calls; a function of the arguments, or the same for all.
        timeout: seconds until a call is aborted, more than 0; None: no limit.
        grace: seconds for cleaning up after a cancel.
        chain: with `Settings.chain`, its failure stops later calls of such tools.
        need: a function of the arguments, and optionally of the context, that returns the rights that the call needs.
        direction: which part of a too long result is kept.
        aliases: other names that a model may use.
        offered: a function of a model's name: whether the tool is offered to it.
        permission: the right that *need* returns, if it is always the same one: where the rules deny it altogether, the
            tool is not offered.
        protected: its results are never cleared from the history.
        resumable: it only waits for an answer, and changes nothing before that: after a restart, another engine may start
            a waiting call again.
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
    """Make a `Tool` from an async function `(arguments, context)`; `ToolOptions` lists the options.

    The class of the first parameter defines the schema; its docstring, or the function's, is the description.
    Raises `ConfigError` for invalid options.

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
    # Now, so that an unsupported type is reported where the tool is defined, not at the first request.
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
    # attrs generates a docstring for classes that have none.
    return own if own and not own.startswith("Method generated") else getattr(body, "__doc__", None) or ""


def _safety(options: ToolOptions[A]) -> Callable[[object], bool]:
    safe = options.get("safe")
    if callable(safe):
        return typing.cast("Callable[[object], bool]", safe)
    is_safe = bool(options.get("read_only", False) if safe is None else safe)
    return lambda _: is_safe


def _check_options(options: ToolOptions[A], name: str) -> None:
    """Raise `ConfigError` for an invalid option."""
    timeout, grace = options.get("timeout"), options.get("grace", GRACE)
    if timeout is not None and not (_is_number(timeout) and timeout > 0):
        raise ConfigError(f"the timeout of tool {name} must be a number above 0, or None, not {timeout!r}")
    if not (_is_number(grace) and 0 <= grace < float("inf")):  # the turn's end waits for it, in a shield
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
    """Return *need*, in whichever of its forms, as a function of the arguments and the context."""
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
    # A str is a sequence of names, too, each one letter long.
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
    """Return the enclosing functions' variables that have a value yet; `inspect.getclosurevars` requires all of them."""
    variables: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            variables[name] = cell.cell_contents
    return variables


def _annotation(body: Function[A], parameter: inspect.Parameter) -> object:
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    # Only this annotation is resolved: the others may use names that are imported for type checkers only.
    function = inspect.unwrap(body)
    try:
        return eval(parameter.annotation, function.__globals__, _enclosing(function))  # noqa: S307  # the author's own annotation
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigError(
            f"can't resolve the annotation {parameter.annotation!r} of {function!r}: define the class of arguments at "
            "module level"
        ) from error
