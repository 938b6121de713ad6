"""Write what is made from the table of commands: completion scripts, man pages, the reference.

    python -m scripts.command_files            print what differs, and exit with 1; nothing otherwise
    python -m scripts.command_files --write    write the files (`make surface` does)

`tests/cli/command_table/test_command_files.py` fails where a file differs.
"""

import sys
from pathlib import Path

from scripts import command_reference, man_pages
from scripts.completion_scripts import bash_script, fish_script, zsh_script

REPOSITORY = Path(__file__).resolve().parent.parent
COMPLETION = REPOSITORY / "engine" / "cli" / "completion"
MAN = REPOSITORY / "docs" / "man"
REFERENCE = REPOSITORY / "docs" / "reference" / "commands.md"


def files() -> dict[Path, str]:
    """Return the text of each file."""
    return {
        COMPLETION / "engine.bash": bash_script(),
        COMPLETION / "engine.zsh": zsh_script(),
        COMPLETION / "engine.fish": fish_script(),
        MAN / "engine.1": man_pages.engine_page(),
        MAN / "engine-run.1": man_pages.run_page(),
        MAN / "engine-config.5": man_pages.configuration_page(),
        REFERENCE: command_reference.page_text(),
    }


def main(arguments: list[str]) -> int:
    """Compare, or write."""
    different = {path: text for path, text in files().items() if not path.exists() or path.read_text("utf-8") != text}
    if arguments == ["--write"]:
        for path, text in different.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return 0
    for path in different:
        print(f"{path.relative_to(REPOSITORY)} is not up to date: run `make surface`")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
