"""Write `docs/reference/messages.md`: every message of a failure with an anchor, and every exit code, each with what to do.

    python -m scripts.message_reference            say whether the page differs, and exit with 1; nothing otherwise
    python -m scripts.message_reference --write    write it (`make surface` does)

`tests/cli/problems/test_situations.py` fails where it differs.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from engine.cli.problems.problem import STOP_REASON_ROWS
from engine.cli.problems.situations import SITUATIONS, Situation
from engine.cli.terminal.exit_codes import MEANINGS, STOP_CODES
from engine.core.events import StopReason

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "messages.md"

INTRODUCTION: Final = """\
<!-- Written by scripts/message_reference.py: change engine/cli/problems/situations.py, then run `make surface`. -->

# Errors by message, and exit codes

A command that fails says what happened, and on a line `Next:` what to do. The same words are in the terminal, in logs and in the
[JSON record](run-record.md), as `error.message` and `error.next`; `error.code` is the name under which you find the message
here. Words in capitals stand for a value.

`engine doctor` checks keys, providers, the store and the machine, and `engine run -vv` shows each request. Errors that a
program catches are [exceptions](errors.md); the end of a turn is a [stop reason](stop-reasons.md).
"""

# What to do about each exit code, beyond the message.
EXIT_ADVICE: Final[Mapping[int, str]] = {
    0: "Nothing. The work is done.",
    1: "Read the end of the answer. `engine run --continue` with a more precise task often helps.",
    2: "Correct the command or the file that the message names. `engine help COMMAND` has examples, "
    "`engine config check` finds mistakes in files.",
    3: "Look at `denied` in the record, or at the summary: it names the `--rule` that would have allowed each call. Give it, "
    "or accept the result with `--deny-ok`.",
    4: "Raise the limit, and continue: `engine run --continue --max-steps 100`. What was done is saved.",
    5: "Attach less, begin a new session, or use a model with a larger window.",
    6: "`engine auth list` says which keys are used, and from where; `engine auth add` stores one.",
    7: "Wait until `reset_at` of the record, or let the engine wait: `--max-wait 1h`. `--fallback` names another model.",
    8: "`engine run --continue` tries again from the saved part. `--fallback` names a model for the case that it fails again.",
    9: "Rephrase the task, or use another model.",
    10: "The record has the model's answer as `text`. Simplify the schema, or describe it in the task.",
    11: "`engine attach` shows the session where it is open; `--fork` continues in a copy.",
    70: "A fault of ours. `engine doctor --bundle` makes a report without secrets; please send it.",
    74: "Free space on the disk, or check where standard output leads. `durable` in the record says whether the session is saved.",
    129: "`engine run --continue`.",
    130: "`engine run --continue`.",
    141: "Nothing, if the reader (such as `head`) ended on purpose.",
    143: "`engine run --continue`.",
}

_CODES: Final[Mapping[str, int]] = {
    "not_allowed": 6,
    "no_key": 6,
    "rate_limited_open": 7,
    "media_rejected": 5,
    "limit": 4,
    "session_busy": 11,
    "disk_full": 74,
    "not_durable": 74,
}
_FACT: Final = re.compile(r"\{(\w+)\}")
# The facts whose own names don't say what they are; an empty one is an addition that may be missing.
_WORDS: Final[Mapping[str, str]] = {
    "host": "PROVIDER",
    "name": "PROVIDER",
    "own": "MODEL",
    "first": "MODEL",
    "other": "PROVIDER",
    "words": "DETAILS",
    "limit_money": "LIMIT",
    "amount_money": "AMOUNT",
    "seconds": "TIME",
    "key": "the key in VARIABLE",
    "billing": "the billing page of PROVIDER",
    "saved": "the session is saved",
    "size": "TOKENS tokens do not fit",
    "start": "start the server",
    "double": "MORE",
    "longer": "set [hosts.PROVIDER] silence, or engine run --continue --max-wait 1h",
    "local_run": "engine run --model local:FILE.gguf TASK",
    "fork_run": 'engine run --resume SESSION --fork "TASK"',
    "unsaved_run": 'engine run --ephemeral "TASK"',
    **dict.fromkeys(("nearest", "status", "origin", "date", "after", "window", "need"), ""),
}


def page_text() -> str:
    """Return the page."""
    rows = sorted((_fill(situation.what), code) for code, situation in SITUATIONS.items())
    index = [f"| [{what}](#{code}) | [{exit_code(code)}](#exit-code-{exit_code(code)}) |" for what, code in rows]
    parts = [
        INTRODUCTION,
        "## By message\n",
        "| message | exit code |\n| --- | --- |",
        *index,
        "\n## What each means\n",
        *("\n".join(_section(code, situation)) for code, situation in SITUATIONS.items()),
        "## Exit codes\n",
        "These are the codes of `engine run`, `engine chat` and `engine attach`. Other commands use 0, 1, 2, 11, 70, 74 and those of "
        "signals.\n",
        *("\n".join(_exit_section(code, meaning)) for code, meaning in MEANINGS.items()),
    ]
    return "\n".join(parts).rstrip() + "\n"


def exit_code(code: str) -> int:
    """Return the exit code of `engine run` for a row of the table."""
    reason = next((reason for reason, row in STOP_REASON_ROWS.items() if row == code), code)
    return _CODES.get(code, STOP_CODES.get(cast("StopReason", reason), STOP_CODES["provider_error"]))


def _section(code: str, situation: Situation) -> Iterator[str]:
    yield f"### `{code}`\n"
    yield f"```text\n{_fill(situation.what)}\n```\n"
    if situation.next:
        yield "What to do:\n"
        yield from (f"- {_way(way)}" for way in situation.next)
        yield ""
    yield f"[Exit code {exit_code(code)}](#exit-code-{exit_code(code)}).\n"


def _way(way: str) -> str:
    """Return one way out: what is a command, as code."""
    text = _fill(way)
    command = re.search(
        r"(engine [a-z]\w* ?.*|--[a-z]\S*( [A-Z]+)?|export .*|[A-Z_]+=\S+( engine .*)?|\[models.*)$", text
    )
    if command is None:
        return text
    return f"{text[: command.start()]}`{command[0].strip()}`"


def _exit_section(code: int, meaning: str) -> Iterator[str]:
    yield f"### Exit code {code}\n"
    yield f"{meaning[0].upper()}{meaning[1:]}.\n"
    yield f"{EXIT_ADVICE[code]}\n"
    rows = [f"[`{row}`](#{row})" for row in SITUATIONS if exit_code(row) == code]
    if rows:
        yield f"Messages: {', '.join(rows)}.\n"


def _fill(template: str) -> str:
    return _FACT.sub(lambda match: _WORDS.get(match[1], match[1].upper()), template)


def main() -> int:
    """Write the page, or say that it differs."""
    if PAGE.exists() and PAGE.read_text("utf-8") == page_text():
        return 0
    if "--write" in sys.argv:
        PAGE.write_text(page_text(), "utf-8")
        return 0
    print(f"{PAGE.name} differs from the table of situations: make surface")
    return 1


if __name__ == "__main__":
    sys.exit(main())
