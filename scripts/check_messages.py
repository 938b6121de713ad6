"""Refuse messages of the command line that users would have to puzzle over: words, length, and errors without advice.

    python -m scripts.check_messages           what is wrong, and exit with 1; nothing otherwise
    python -m scripts.check_messages --list    every message, with where it is: to be read aloud

A message is a string in `engine/cli` with a blank in it, but no docstring. An error is a string that is raised there, or
that begins with `engine` and is printed on standard error. Each error says what to do, on a line that begins with
`Next: `: a command that the command line can parse, or an act that begins with its verb. Wrong usage of flags gets that
line from the parser, and an error of a library gets it from `engine.cli.terminal.exit_codes`. What a library raises for
users (`LIBRARY_ERRORS`) keeps the same rules for words.
"""

import ast
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from engine.cli.command_table.command_list import COMMANDS
from engine.cli.command_table.command_parser import SpecParser
from engine.cli.command_table.find_command import find_subcommand, load_spec
from engine.core.errors import ConfigError

REPOSITORY = Path(__file__).resolve().parent.parent
CLI = REPOSITORY / "engine" / "cli"

# Riddles: an engineer does not say them aloud to a colleague.
RIDDLES = re.compile(
    r"\b(told|anew|begun|beside|nobody|somebody|whoever|thereby|wanted|errand|meanwhile"
    r"|stands as|as that one stands|is none here|there is: none|go(es)? on with|gone on|sends? for|is sent for"
    r"|who works here|counts? as not said|as is said|is said of|takes? leave|to hand|by and by)\b",
    re.IGNORECASE,
)
EXCLAMATION = re.compile(r"\w!(?=\s|$)")
BLAME = re.compile(r"\b(please|sorry|oops|you forgot|you must not|invalid input|illegal|fatal)\b", re.IGNORECASE)
# Words of the code, where users say another one.
CODE_WORDS = re.compile(r"(?<![\[.])\b(hosts?|folders?)\b(?!\.)")
# A line of a message in a terminal, and the lines of one message.
MAX_LINE = 100
MAX_LINES = 3
# What a value in a message is counted as.
VALUE = "…"
# What a user has asked for is no error.
NOTICE = "cancelled|interrupted"
ADVICE = re.compile(r"\bNext: ([^\n]*)")
# Verbs that an act begins with, where no command says what to do.
ACTS = frozenset(
    re.findall(
        r"\w+",
        """add ask attach begin change check choose convert copy correct describe free give install leave make mend name open pay pipe put quote raise
        remove rephrase restart save send set shorten start stop try type use wait write""",
    )
)
# Other commands than `engine` that are advised.
SHELL = re.compile(r"(export|unset|chmod|pip|gcloud) \S|[A-Z_]+=\S+ engine ")
# Errors that get fitting advice where they are printed.
ADVISED = frozenset(
    [
        "MissingKey",
        "SessionNotFound",
        "SessionElsewhere",
        "MessageNotFound",
        "NothingToUndo",
        "JournalCorrupt",
        "ServerOffline",
    ]
)
# Errors of libraries that users read at the terminal.
LIBRARY_ERRORS = ADVISED | frozenset(["ConfigError", "StoreError", "SnapshotError", "AuthFailed", "Unauthorized"])


@attrs.frozen
class Finding:
    """A message, and what is wrong with it."""

    path: Path
    line: int
    problem: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}: {self.text!r}"


def text_of(node: ast.expr) -> str | None:
    """Return the text of a string, with `VALUE` for each value in it; None: it is no string."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr():
            return "".join(text_of(part) or VALUE for part in node.values)
        case ast.BinOp(op=ast.Add()):
            left, right = text_of(node.left), text_of(node.right)
            return None if left is None and right is None else f"{left or VALUE}{right or VALUE}"
        case ast.IfExp():
            return max(text_of(node.body) or VALUE, text_of(node.orelse) or VALUE, key=len)
        case _:
            return None


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each string with a blank in it, but for docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if id(node) in skipped or not isinstance(node, ast.expr) or (text := text_of(node)) is None:
            continue
        skipped.update(id(part) for part in ast.walk(node))
        if " " in text.strip():
            yield node.lineno, text


def advice_problem(advice: str) -> str:
    """Return what is wrong with a line of advice; empty: it is a command that can be pasted, or begins with its verb."""
    if advice.startswith("engine "):
        # A second way has a line of its own.
        return "several ways in a line" if ", " in advice else command_problem(advice.replace(VALUE, "1"))
    verb = re.split(r"\W", advice)[0]
    return "" if advice[:1] in {VALUE, "/"} or SHELL.match(advice) or verb in ACTS else "neither a command nor an act"


def command_problem(command: str) -> str:
    """Return why the command line does not take *command*; empty: it does."""
    try:
        name, *arguments = shlex.split(command)[1:]
        if name == "help":
            return "" if arguments[0] in {*COMMANDS, "1"} else "unknown command"
        if name in {"--help", "1"}:
            return ""
        spec = load_spec(name)
        if spec.subcommands and arguments[:1] == ["1"]:  # a value says which
            return ""
        spec, arguments = find_subcommand(spec, arguments)
        if "--help" not in arguments:
            SpecParser(spec).parse(arguments)
    except (ConfigError, KeyError, ValueError) as error:
        return f"not a command ({str(error).partition(chr(10))[0]})"
    return ""


def advice_lines(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each line of advice, also those that are a row's `next`."""
    for line, text in messages(tree):
        for match in ADVICE.finditer(text):
            yield line, match[1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            rows = [keyword.value for keyword in node.keywords if keyword.arg == "next"]
            if isinstance(node.func, ast.Name) and node.func.id == "Situation":
                rows += [row for value in node.args[1:] for row in getattr(value, "elts", [value])]
            for row in rows:
                if advice := text_of(row):
                    yield row.lineno, re.sub(r"\{(\w+)\}", _fact, advice)


def _fact(match: re.Match[str]) -> str:
    return "engine run --continue" if match[1] in {"run", "again"} else VALUE


def unadvised(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each error that is raised without a line of advice."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
            continue
        call = node.exc
        if isinstance(call.func, ast.Name) and call.func.id in LIBRARY_ERRORS - ADVISED:
            text = (text_of(call.args[0]) or VALUE) if call.args else VALUE
            # One that is nothing but a value was made elsewhere.
            if "Next: " not in text and re.search(r"\w \w", text):
                yield node.lineno, text


def lacking_advice(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each error that is printed without a line of advice, and each hint that is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_print_error(node):
            text = text_of(node.args[0]) or ""
            # One that is nothing but a value was made elsewhere.
            if re.match(rf"engine [\w{VALUE} ]+: (?!{VALUE}$|{NOTICE})", text) and "Next: " not in text:
                yield node.lineno, text
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "_HINTS":
            for line, text in messages(node):
                if not text.startswith("Next: "):
                    yield line, text


def errors(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each message that is raised, or printed on standard error."""
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if isinstance(call, ast.Call) and call.args and (isinstance(node, ast.Raise) or _is_print_error(call)):
            text = text_of(call.args[0])
            if text is not None:
                yield call.lineno, text


def _is_print_error(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "print_error" and bool(call.args)


def findings(path: Path, source: str) -> Iterator[Finding]:
    """Yield what is wrong with the messages of a module."""
    tree = ast.parse(source)
    for line, text in (*lacking_advice(tree), *unadvised(tree)):
        yield Finding(path, line, "an error without a line `Next: …`", text)
    for line, text in advice_lines(tree):
        if problem := advice_problem(text):
            yield Finding(path, line, problem, text)
    for line, text in messages(tree):
        for pattern, problem in ((RIDDLES, "a riddle"), (EXCLAMATION, "an exclamation"), (BLAME, "blame or ornament")):
            if match := pattern.search(text):
                yield Finding(path, line, f"{problem} ({match[0]})", text)
    for line, text in errors(tree):
        if match := CODE_WORDS.search(text):
            yield Finding(path, line, f"a word of the code ({match[0]}): provider, directory", text)
        rows = text.rstrip("\n").split("\n")
        if len(rows) > MAX_LINES:
            yield Finding(path, line, f"{len(rows)} lines, more than {MAX_LINES}", text)
        if (longest := max(map(len, rows))) > MAX_LINE:
            yield Finding(path, line, f"{longest} characters in a line, more than {MAX_LINE}", text)


def main(arguments: Sequence[str] = ()) -> int:
    """Print what is wrong, or every message."""
    if "--list" in arguments:
        for path in sorted(CLI.rglob("*.py")):
            for line, text in sorted(messages(ast.parse(path.read_text("utf-8")))):
                print(f"{path.relative_to(REPOSITORY)}:{line}: {text!r}")
        return 0
    found = [
        finding
        for path in sorted(CLI.rglob("*.py"))
        for finding in findings(path.relative_to(REPOSITORY), path.read_text("utf-8"))
    ]
    for finding in found:
        print(finding)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
