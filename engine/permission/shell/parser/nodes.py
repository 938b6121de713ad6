"""The syntax tree of a shell script, as the parser returns it and the interpreter simulates it."""

from __future__ import annotations

import attrs


class UnsupportedSyntax(Exception):
    """The parser refuses a text, because it is invalid or not supported; the message says why."""


# ---- words -----------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class LiteralText:
    """Literal characters. An unquoted one may still be a pattern, a tilde or a brace."""

    text: str
    quoted: bool


@attrs.define(eq=False)
class Parameter:
    """`$name`, `${name…}`.

    Attributes:
        name: a variable's name, digits, or a sign such as `@`.
        quoted: it is in double quotes, so that it expands to one word.
        operator: the operation on the value: `:-`, `#`, `/`, `@Q`, …; `length` for `${#x}`, `keys` for `${!x[@]}`,
            `names` for `${!x*}`, `indirect` for `${!x}`, `slice` for `${x:a:b}`.
        operand: the parts after the operator.
        subscript: the text in brackets.
    """

    name: str
    quoted: bool
    operator: str = ""
    operand: tuple[Part, ...] = ()
    subscript: str | None = None


@attrs.define(eq=False)
class Substitution:
    """`$(…)` or backticks."""

    body: Script
    quoted: bool


@attrs.define(eq=False)
class Arithmetic:
    """`$((…))`."""

    expression: tuple[Part, ...]
    quoted: bool


@attrs.define(eq=False)
class Process:
    """`<(…)` and `>(…)`."""

    body: Script


Part = LiteralText | Parameter | Substitution | Arithmetic | Process


@attrs.define(eq=False)
class Word:
    """A word as it is written.

    Attributes:
        parts: its pieces.
        start: where it begins.
        end: where it ends.
        plain: the word it becomes, where that follows from the text alone.
        has_braces: it may contain a brace expansion.
    """

    parts: tuple[Part, ...]
    start: int
    end: int
    plain: str | None = None
    has_braces: bool = False


@attrs.define(eq=False)
class Assignment:
    """`name=value`, `name[subscript]+=value`, `name=(…)`."""

    name: str
    subscript: str | None
    appends: bool
    value: Word
    elements: tuple[Word | Assignment, ...] | None
    start: int


@attrs.define(eq=False)
class Redirect:
    """`2> file`, `{fd}<word`, `<<END` and the like.

    Attributes:
        operator: `<`, `>`, `>>`, `>|`, `<>`, `>&`, `<&`, `&>`, `&>>`, `<<`, `<<<`.
        fd: the number or `{name}` before it; empty: the default.
        target: the word after it; of a here-document its text.
    """

    operator: str
    fd: str
    target: Word


# ---- commands --------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Simple:
    """A simple command: assignments, words, redirections."""

    assignments: list[Assignment] = attrs.field(factory=list[Assignment])
    words: list[Word | Assignment] = attrs.field(factory=list[Word | Assignment])
    redirects: list[Redirect] = attrs.field(factory=list[Redirect])


@attrs.define(eq=False)
class Group:
    """`{ …; }`, or with `is_subshell` `( … )`."""

    body: Script
    is_subshell: bool


@attrs.define(eq=False)
class If:
    """`if`, with each `elif` as a further pair, and the `else`."""

    branches: list[tuple[Script, Script]]
    otherwise: Script


@attrs.define(eq=False)
class While:
    """`while` and `until`."""

    condition: Script
    body: Script
    until: bool


@attrs.define(eq=False)
class For:
    """`for name in words`, and `select`. Without `in` it iterates over the positional parameters."""

    name: str
    words: list[Word] | None
    body: Script
    is_select: bool


@attrs.define(eq=False)
class ArithmeticFor:
    """`for ((a; b; c))`: the three expressions as one."""

    expression: tuple[Part, ...]
    body: Script


@attrs.define(eq=False)
class Case:
    """`case word in …`: the patterns and the list of each branch."""

    word: Word
    branches: list[tuple[list[Word], Script]]


@attrs.define(eq=False)
class ArithmeticCommand:
    """`((…))`."""

    expression: tuple[Part, ...]


@attrs.define(eq=False)
class Conditional:
    """`[[ … ]]`: operands and operators in order; the operators and parentheses are strings."""

    items: list[Word | str]


@attrs.define(eq=False)
class Function:
    """A function definition: its body runs when it is called."""

    name: str
    body: Command


@attrs.define(eq=False)
class Redirected:
    """A compound command with redirections."""

    command: Command
    redirects: list[Redirect]


Command = (
    Simple | Group | If | While | For | ArithmeticFor | Case | ArithmeticCommand | Conditional | Function | Redirected
)


@attrs.define(eq=False)
class Pipeline:
    """Commands joined by `|`."""

    commands: list[Command]
    negated: bool


@attrs.define(eq=False)
class AndOr:
    """Pipelines joined by `&&` and `||`; the operator before the first is empty."""

    pipelines: list[tuple[str, Pipeline]]
    background: bool


Script = list[AndOr]
