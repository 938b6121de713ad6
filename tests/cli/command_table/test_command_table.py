"""The table of commands: what its rows promise, on every row."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from engine.cli.command_table.command_list import COMMANDS
from engine.cli.command_table.command_parser import SpecParser
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.find_command import all_specs, find_subcommand, load_spec
from engine.core.errors import ConfigError

TESTS = Path(__file__).resolve().parent.parent.parent
SPECS = {spec.name: spec for spec in all_specs()}
FLAGS = [pytest.param(spec, flag, id=f"{spec.name} {flag.name}") for spec in SPECS.values() for flag in spec.flags]
# The verbs that help lines begin with: a new one is welcome, a noun is not.
VERBS = frozenset(
    re.findall(
        r"\w+",
        """accept add allow approve ask attach cancel check choose change compact connect continue convert copy delete deny describe draw edit end
    exit export fail find fork give import include keep let limit list listen log make merge mix move name open overwrite pass print
    prune read redo rename repair replace require reserve restore resume revoke run save search see select send serve set show
    skip start stop store stream summarise switch take talk test trust undo use wait watch work write""",
    )
)


def complaints(text: str, *, has_verb: bool = True) -> Iterator[str]:
    """What is wrong with a line of help."""
    if len(text) > 60:
        yield f"{len(text)} characters, more than 60: {text}"
    if text != text.strip() or not text or text[-1] in ".!":
        yield f"ends like a sentence: {text}"
    if has_verb and re.split(r"\W", text)[0] not in VERBS:
        yield f"begins with no verb: {text}"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_help_line(name: str) -> None:
    assert not list(complaints(COMMANDS[name][2]))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_help_lines_are_short(spec: CommandSpec) -> None:
    rows = [spec.help, *(flag.help for flag in spec.flags)]
    found = [complaint for row in rows for complaint in complaints(row)]
    found += [complaint for each in spec.arguments for complaint in complaints(each.help, has_verb=False)]
    assert not found


def test_a_bad_help_line_is_found() -> None:
    assert list(complaints("the model to use"))
    assert list(complaints("use a model."))
    assert list(complaints(f"use {'x' * 60}"))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_function_of_a_command_exists(spec: CommandSpec) -> None:
    assert spec.run or spec.subcommands
    if spec.run:
        module, _, function = spec.run.partition(":")
        assert callable(getattr(import_module(module), function))
    if spec.default:
        assert spec.default in {each.name.rpartition(" ")[2] for each in spec.subcommands}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_examples_of_a_command_parse(spec: CommandSpec) -> None:
    for line, purpose in spec.examples:
        assert purpose
        words = shlex.split(line.partition(">")[0])
        found, arguments = find_subcommand(load_spec(words[0]), words[1:])
        assert found.name == spec.name
        SpecParser(found).parse(arguments)


@pytest.mark.parametrize(("spec", "flag"), FLAGS)
def test_every_flag_has_an_example(spec: CommandSpec, flag: Flag) -> None:
    assert flag.example or flag.is_required or not flag.takes_value, "give it an example with a value"
    words = shlex.split(spec.example_of(flag))
    assert words[0] == "engine"
    assert any(word.partition("=")[0] in flag.names for word in words)
    found, arguments = find_subcommand(load_spec(words[1]), words[2:])
    assert found is spec
    SpecParser(found).parse(arguments)


MAY_BE_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z]")


@cache
def literals() -> dict[Path, frozenset[str]]:
    """The words in the string literals of each test, but for this one."""
    found: dict[Path, frozenset[str]] = {}
    for path in TESTS.rglob("*.py"):
        # Most have nothing that could be a flag, and to parse them all takes seconds.
        if (
            path != Path(__file__)
            and "node_modules" not in path.parts
            and MAY_BE_FLAG.search(text := path.read_text("utf-8"))
        ):
            nodes = ast.walk(ast.parse(text))
            texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
            found[path] = frozenset(word for text in texts for word in re.findall(r"-{0,2}\w[\w-]*", text))
    return found


@pytest.mark.parametrize(("spec", "flag"), FLAGS)
def test_every_flag_has_a_test(spec: CommandSpec, flag: Flag) -> None:
    """A flag that several commands share is tested with one of them."""
    sharing = [each.name.split() for each in SPECS.values() if flag in each.flags]
    for words in literals().values():
        if words.intersection(flag.names) and any(words.issuperset(command) for command in sharing):
            return
    pytest.fail(f"no test uses {flag.name} of engine {spec.name}")


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_flags_before_a_subcommand_are_told_apart(spec: CommandSpec) -> None:
    """Whether a flag takes a value is the same in all subcommands, or words in front of them could not be read."""
    takes: dict[str, bool] = {}
    for each in spec.with_subcommands():
        for flag in each.flags:
            for name in flag.names:
                assert takes.setdefault(name, flag.takes_value) == flag.takes_value, name


DEEP = CommandSpec(
    name="deep dive",
    help="work below",
    description="Work below.",
    run="nowhere:main",
    arguments=(Argument(name="place", help="where", count="any"),),
    groups=(
        FlagGroup(
            "flags",
            (
                Flag(names=("-o", "--output"), value="FILE", help="write to FILE"),
                Flag(names=("--loud",), help="print more", excludes="volume"),
                Flag(names=("--quiet",), help="print less", excludes="volume"),
                Flag(names=("--to",), value="PLACE", help="move to PLACE", is_required=True),
                Flag(names=("--tag",), value="TAG", help="add a tag", is_repeated=True),
                Flag(names=("--mode",), choices=("fast", "slow"), default="fast", help="work like this"),
            ),
        ),
    ),
)
GROUP = CommandSpec(name="deep", help="work", description="Work.", subcommands=(DEEP,), default="dive")


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("dive here", "here"),
        ("-o dive dive here", "-o dive here"),
        ("--loud dive", "--loud"),
        ("--loud", "--loud"),
        ("", ""),
    ],
)
def test_flags_may_precede_a_subcommand(line: str, rest: str) -> None:
    assert find_subcommand(GROUP, line.split()) == (DEEP, rest.split())


def test_an_unknown_subcommand_gets_a_hint() -> None:
    with pytest.raises(ConfigError, match="unknown subcommand 'dvie': did you mean dive\\?\nNext: engine deep --help"):
        find_subcommand(GROUP, ["dvie"])


def test_arguments_are_parsed_by_the_table() -> None:
    args = SpecParser(DEEP).parse(["a", "--tag", "x", "--tag=y", "-o", "f", "--to", "b"])
    assert vars(args) == {
        "place": ["a"],
        "output": "f",
        "to": "b",
        "loud": False,
        "quiet": False,
        "tag": ["x", "y"],
        "mode": "fast",
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--to x --laud", "unknown flag: --laud: did you mean --loud?\nNext: engine deep dive --help"),
        ("--to x --zzz=1", "unknown flag: --zzz=1\nNext: engine deep dive --help"),
        ("--to x --out f", "unknown flag: --out: did you mean --output?\nNext: engine deep dive --help"),
        ("", "missing: --to\nNext: engine deep dive --help"),
        ("--loud --quiet", "argument --quiet: not allowed with argument --loud\nNext: engine deep dive --help"),
        ("--mode x", "argument --mode: must be fast or slow, not 'x'\nNext: engine deep dive --help"),
    ],
)
def test_wrong_flags_are_one_line_and_a_hint(line: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SpecParser(DEEP).parse(line.split())
    assert str(caught.value) == message
