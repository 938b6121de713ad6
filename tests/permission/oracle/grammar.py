"""Random scripts from a seed: plainly written ones as a developer writes them, and wild ones."""

from __future__ import annotations

import functools
import random
import re
import shlex
from collections.abc import Callable
from typing import Final, Literal

import attrs

from tests.permission.oracle.rules import LISTS, ODD_CLUTTER, RULES, TEXTS

Mode = Literal["plain", "wild"]
DEEPEST: Final = 60  # rules within rules, where a rule leads to itself

# What a developer runs.
USUAL: Final = (
    "git status", "git diff --stat", "git add §file", "git commit -m §single", "git log --oneline -5", "git checkout -b topic",
    "git push origin main", "ls", "ls -la §file", "cat §file", "rm -f §file", "rm -rf build", "cp §file §file", "mv §file §file",
    "mkdir -p §file", "touch §file", "grep -rn §single §file", "wc -l §file", "sort §file", "uniq -c", "head -n 3", "tail -3",
    "cut -d: -f1", "tr a b", "sed -n 1,5p §file", "sed s/a/b/ §file", "curl -s §file", "wget §file", "make", "make test",
    "npm test", "npm run build", "pytest -q §file", "python3 src/main.py §file", "cargo build --release", "go test ./...",
    "docker ps -a", "tar czf §file §file", "chmod +x §file", "tee §file", "diff §file §file", "jq .name §file",
    "awk '{print $1}' §file", "date", "sleep 1", "basename §file", "dirname §file",
)  # fmt: skip


def script(seed: int, mode: Mode) -> str:
    """Return the script of a seed."""
    return Grammar(random.Random(f"{mode} {seed}"), wild=mode == "wild").script()


@attrs.frozen
class Rule:
    """The choices of a rule."""

    choices: tuple[str, ...]
    weights: tuple[int, ...]


@functools.cache
def rules(*, wild: bool) -> dict[str, Rule]:
    """Return the rules by name."""
    table = {name: Rule(tuple(text.split()), (1,) * len(text.split())) for name, text in LISTS.items()}
    table["usual"] = Rule(USUAL, (1,) * len(USUAL))
    table["nothing"] = Rule(("",), (1,))
    for block in RULES.strip("\n").split("\n\n"):
        name, *lines = block.split("\n")
        parts = [match for line in lines if (match := re.match(r"(~?) *(\d+) +(.*)", line)) and (wild or not match[1])]
        table[name] = Rule(tuple(part[3] for part in parts), tuple(int(part[2]) for part in parts))
    return table


class Grammar:
    """Makes one script."""

    def __init__(self, chance: random.Random, *, wild: bool) -> None:
        self._chance = chance
        self._wild = wild
        self._rules = rules(wild=wild)
        self._depth = 0
        self._nested = 0
        self._deepest = chance.choice((1, 2, 2, 3, 4))
        self._functions: list[str] = []
        self._names: list[str] = []
        self._programs = [f"p{number}" for number in range(80)]
        chance.shuffle(self._programs)

    def script(self) -> str:
        """Return a script."""
        text = "\n".join(self._line() for _ in range(self._chance.choice((1, 1, 2, 3, 5))))
        if self._wild and self._often(25):
            for _ in range(self._chance.choice((1, 1, 2, 3))):
                text = self._cluttered(text)
        return text.replace("\0", "")

    def make(self, rule: str) -> str:
        """Return what a rule makes."""
        choice = self._rules.get(rule)
        if choice is None:
            method: Callable[[], str] = getattr(self, f"_{rule}")
            return method()
        self._depth += 1
        try:
            if self._depth > DEEPEST and rule in {"word", "command", "arithmetic"}:
                return "1" if rule == "arithmetic" else "ls"
            return self.fill(self._chance.choices(choice.choices, choice.weights)[0])
        finally:
            self._depth -= 1

    def fill(self, template: str) -> str:
        """Return a template with what its rules make in their places."""
        text = re.sub(r"§([a-z_]+)", lambda match: self.make(match[1]), template.replace("¶", "\0").replace("␣", " "))
        return text.replace("\0", "\n")

    def _often(self, percent: float) -> bool:
        return self._chance.random() * 100 < percent

    def _line(self) -> str:
        text = self.make("list")
        if self._often(6):
            text = self._here(re.sub(r"(?<!\\)[;&]$", "", text) + " && " + self.make("words"))
        elif self._often(8):
            text += " # " + self._chance.choice(("a comment", "it's", "$(p96 no)", 'a "b', "done"))
        return text

    def _here(self, command: str) -> str:
        """Return a command with a here-document, which ends its line."""
        end = self._chance.choice(("EOF", "END", "X"))
        quote = self._chance.choice(("'", "'", "", '"' if self._wild else ""))
        dash, tab = self._chance.choice((("", ""), ("", ""), ("-", ""), ("-", "\t")))
        lines = [self._chance.choice(TEXTS) for _ in range(self._chance.choice((0, 1, 2, 3)))]
        if not quote:
            ways = (
                "plain text",
                "value: $x",
                '"quoted"',
                "it's",
                "$(§flat)",
                "a \\$x",
                "$((1+1))",
                "`§flat`",
                "'$(§flat)'",
            )
            lines = [self.fill(self._chance.choice(ways)) for _ in lines]
        body = "".join(tab + line + "\n" for line in lines if line.strip() != end)
        return f"{command} <<{dash}{quote}{end}{quote}\n{body}{tab}{end}"

    def _inner(self) -> str:
        """Return a list for a substitution or a body."""
        if self._nested >= self._deepest:
            return self._flat()
        self._nested += 1
        try:
            if self._often(3):
                return self._here(self.make("words")) + "\n"
            text = self.make("list") if self._wild or self._often(25) else self.make("simple")
            return " " + text if text.startswith("(") else text
        finally:
            self._nested -= 1

    def _body(self) -> str:
        """Return a body, with what ends it before the next keyword."""
        text = self._inner()
        if text.endswith("\n"):
            return text
        if text.endswith((";", "&")):
            return text + "\n"
        return text + self._chance.choice(("; ", "\n", "; ", " ;\n  "))

    def _arm(self) -> str:
        text = self._inner()
        return text if text.endswith(("\n", "\\;")) else text.rstrip(";& ")

    def _flat(self) -> str:
        """Return one command of one line without any quotes."""
        name = self._chance.choice(("date", "git status", f"p{self._chance.randrange(80, 95)}"))
        return f"{name} {self.make('plain')}"

    def _text(self) -> str:
        return self._chance.choice(TEXTS)

    def _program(self) -> str:
        return self._programs.pop() if self._programs else "p79"

    def _new(self) -> str:
        """Return the name of a variable that is set."""
        self._names.append(self.make("name"))
        return self._names[-1]

    def _var(self) -> str:
        """Return the name of a variable that is read: one that was set, but for wild scripts."""
        if self._wild and self._often(50):
            return self.make("name")
        return self._chance.choice(self._names) if self._names else "HOME"

    def _define(self) -> str:
        name = self.make("odd_fname" if self._wild and self._often(15) else "fname")
        self._functions.append(name)
        return name

    def _called(self) -> str:
        return self._chance.choice(self._functions) if self._functions else self.make("usual")

    def _single(self) -> str:
        return "'" + self._text().replace("'", "'\\''" if self._often(70) else "'\"'\"'") + "'"

    def _double(self) -> str:
        parts = [self._inside()]
        for _ in range(self._chance.choice((0, 0, 1, 2))):
            inner = self._chance.choice(("parameter", "parameter", "parameter", "substitution", "arithmetic_word"))
            parts += [self.make(inner), self._inside()]
        return '"' + "".join(parts) + '"'

    def _inside(self) -> str:
        text = "".join("\\" + char if char in '"\\$`' else char for char in self._text())
        return text if self._wild else text.replace("!", "")

    def _escaped(self) -> str:
        text = self._chance.choice((self.make("plain"), "a b", "x;y", "q'"))
        return "".join("\\" + char if self._often(40) or char in " ;&|<>()$`\\\"'*?[#~!{}" else char for char in text)

    def _quoted_inner(self) -> str:
        return shlex.quote(self._inner())

    def _quoted_flat(self) -> str:
        return shlex.quote(self._flat())

    def _doubled_inner(self) -> str:
        return '"' + "".join("\\" + char if char in '"\\$`' else char for char in self._inner()) + '"'

    def _ticked(self) -> str:
        return self._inner().replace("\\", "\\\\").replace("`", "\\`").replace("$", "\\$")

    def _disguised(self) -> str:
        """Return a program's name in an unusual spelling."""
        name = self._program()
        first, rest = name[0], name[1:]
        return self._chance.choice((
            f"{first}\\{rest}", f"'{name}'", f'"{name}"', f"{first}''{rest}", f"{first}\\\n{rest}", f"/usr/bin/{name}", f"\\{name}",
            f"$'\\x70{rest}'", f"../../../bin/{name}", f"{{{name},k}}", f"$(echo {name})", f"/bin/{name[:-1]}?", f"{first}${{none}}{rest}",
            f"{name}$none", f'"{first}"{rest}', f"{name}\\\n", f"\\\n{name}", f"${{none:-{name}}}", f"$none {name}", f'"$none" {name}',
            f"~/../../bin/{name}", f"$'{name}'", f'$"{name}"', f"`echo {name}`", f"{{,}} {name}", f"$* {name}", f"/bin/{name}*",
        ))  # fmt: skip

    def _cluttered(self, text: str) -> str:
        """Return *text* with a fault somewhere."""
        at = self._chance.randrange(len(text) + 1)
        end = min(len(text), at + self._chance.randrange(1, 12))
        clutter = self._chance.choice(ODD_CLUTTER) if self._often(25) else self.fill("§clutter")
        return self._chance.choice((
            text[:at] + text[at + 1 :],
            text[:at] + clutter + text[at + 1 :],
            text[:end] + text[at:end] + text[end:],
            text[:at] + clutter + text[at:],
        ))  # fmt: skip
