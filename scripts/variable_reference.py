"""Write the tables of variables in `docs/reference/configuration.md` from `engine.settings_file.variables`.

    python -m scripts.variable_reference            say whether the page differs, and exit with 1; nothing otherwise
    python -m scripts.variable_reference --write    write it (`make surface` does)

`tests/settings_file/test_variables.py` fails where it differs.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from engine.settings_file.config_keys import format_key
from engine.settings_file.variables import FOR_CHILDREN, VARIABLES, Variable

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "configuration.md"
MARKS = ("<!-- variables, written by `make surface` -->\n", "<!-- end of variables -->\n")


def with_tables(page: str) -> str:
    """Return the page with the tables as they should be."""
    before, begin, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    tables = f"\n{_table(VARIABLES)}\nSet by the engine, for programs that it starts:\n\n{_table(FOR_CHILDREN)}\n"
    return f"{before}{begin}{tables}{end}{after}"


def _table(variables: Iterable[Variable]) -> str:
    rows = [f"| `{each.name}` | {each.help}{_key(each)} |" for each in variables]
    return "\n".join(["| variable | meaning |", "| --- | --- |", *rows, ""])


def _key(variable: Variable) -> str:
    return f": the key `{format_key(variable.key)}`" if variable.key else ""


def main() -> int:
    """Write the page, or say that it differs."""
    page = PAGE.read_text("utf-8")
    if with_tables(page) == page:
        return 0
    if "--write" in sys.argv:
        PAGE.write_text(with_tables(page), "utf-8")
        return 0
    print(f"{PAGE.name} differs from the variables: make surface")
    return 1


if __name__ == "__main__":
    sys.exit(main())
