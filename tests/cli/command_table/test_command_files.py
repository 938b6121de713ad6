"""What is made from the table: completion scripts, in real shells; that the files are those of today's table."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.cli import main
from engine.cli.completion.print_script import SHELLS
from engine.cli.flags.completion_names import MAX_NAMES, keep_names
from scripts.command_files import COMPLETION, REPOSITORY, files
from tests.test_imports import modules_after

# Lines that are completed, and candidates that must and must not be offered. Nothing else is expected of descriptions.
LINES: Sequence[tuple[str, set[str], set[str]]] = (
    ("engine ", {"run", "sessions", "help", "completion"}, {"list", "--help"}),
    ("engine se", {"sessions", "serve"}, {"run"}),
    ("engine --", {"--help", "--version"}, {"--model"}),
    ("engine help serv", {"serve"}, {"sessions", "run"}),
    ("engine help sessions ex", {"export"}, {"show"}),
    ("engine sessions ", {"list", "show", "prune"}, {"run", "last"}),
    ("engine sessions --st", {"--store"}, {"--help"}),
    ("engine run --max-", {"--max-steps", "--max-cost"}, {"--model"}),
    ("engine run --output ", {"text", "json", "stream-json"}, {"--json"}),
    ("engine run --output=j", {"json"}, {"text"}),
    ("engine run --output json --eff", {"--effort"}, {"json"}),
    ("engine permissions --profile full li", {"list", "lint"}, {"full"}),
    ("engine sessions show ", {"last", "ses_aaa", "ses_bbb"}, {"run"}),
    ("engine sessions show ses_a", {"ses_aaa"}, {"ses_bbb", "last"}),
    ("engine run --resume=ses_b", {"ses_bbb"}, {"ses_aaa"}),
    ("engine run -m openai/", {"openai/gpt-5.6"}, {"local/qwen:7b"}),
    ("engine run --model local/qwen:", {"local/qwen:7b", "local/qwen:14b"}, {"openai/gpt-5.6"}),
    ("engine run --agent ", {"build", "explore", "reviewer"}, set()),
    ("engine permissions revoke ", {"grant_1"}, set()),
    ("engine tools ba", {"bash"}, {"read"}),
    ("engine trace last --html tra", {"trace.html"}, {"other"}),
    ("engine run --cwd fol", {"folder/"}, {"folder.txt"}),
    ("engine run --max-steps ", set(), {"folder/", "trace.html", "--json"}),
    ("engine run -- --js", set(), {"--json"}),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files, and with names that commands of the engine have kept."""
    for name in ("trace.html", "other", "folder.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_names("sessions", [("ses_aaa", "Fix the parser: part $(touch hit) `touch hit`"), ("ses_bbb", "")])
    keep_names("models", [("openai/gpt-5.6", ""), ("local/qwen:7b", ""), ("local/qwen:14b", "")])
    keep_names("agents", [("reviewer", "reads")])
    keep_names("grants", [("grant_1", "bash git *")])
    return tmp_path


FILES = files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_those_of_the_table(path: Path) -> None:
    assert path.read_text("utf-8") == FILES[path], f"{path.relative_to(REPOSITORY)}: run `make surface`"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_as_it_is(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == (COMPLETION / f"engine.{shell}").read_text("utf-8")


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "must be bash, zsh or fish, not 'csh'" in capsys.readouterr().err


def test_printing_a_script_loads_nothing() -> None:
    modules = modules_after("from engine.cli import main; main(['completion', 'bash'])") - modules_after("")
    assert not {"argparse", "attrs", "pathlib", "trio", "engine.cli.command_table.command_spec"} & modules


@pytest.mark.os
@pytest.mark.skipif(shutil.which("man") is None or shutil.which("groff") is None, reason="there is no man")
@pytest.mark.parametrize("page", [path for path in FILES if path.suffix in {".1", ".5"}], ids=lambda path: path.name)
def test_man_pages_are_read_without_warnings(page: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    ended = subprocess.run(
        ["man", "--warnings=w", "-l", str(page)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stderr == ""
    assert page.stem in ended.stdout


# ---- real shells ---------------------------------------------------------------------------------------------------


def completed(shell: str, lines: Sequence[str], home: Path) -> list[set[str]]:
    """What the shell offers at the end of each line."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environment["SCRIPT"] = str(COMPLETION / f"engine.{shell}")
    command = {
        "bash": ("bash", "--norc", "-c", BASH),
        "zsh": ("zsh", "-f", "-c", ZSH),
        "fish": ("fish", "-N", "-c", FISH),
    }
    ended = subprocess.run(
        command[shell],
        input="".join(f"{line}\n" for line in lines),
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stderr == ""
    parts = ended.stdout.split("=end=\n")
    return [{row.partition("\t")[0] for row in part.splitlines()} for part in parts[:-1]]


# As readline does it: words are cut at its break characters, and each candidate replaces what follows the last of them.
BASH = r"""
source "$SCRIPT"
compopt() {
    while (($#)); do
        [[ $1 == -o ]] && options+="$2 " || options=${options/ $2 / }
        shift 2
    done
}
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
while IFS= read -r line; do
    COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=() options=" default " rest=$line
    while [[ $rest =~ ^[[:blank:]]*([=:]+|[^=:[:blank:]]+) ]]; do
        COMP_WORDS+=("${BASH_REMATCH[1]}")
        rest=${rest#"${BASH_REMATCH[0]}"}
    done
    [[ $line == *[[:blank:]] || ${COMP_WORDS[-1]} == [=:]* ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _engine engine "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    last=${COMP_WORDS[COMP_CWORD]}
    joined=${line##*[[:blank:]]}
    [[ $joined == --*=* ]] && joined=${joined#*=}
    for each in "${COMPREPLY[@]}"; do printf '%s\n' "${joined%"${joined##*:}"}$each"; done
    if ((${#COMPREPLY[@]})); then :
    elif [[ $options == *dirnames* ]]; then compgen -d -S / -- "$last"
    elif [[ $options == *" default "* ]]; then compgen -f -- "$last"
    fi
    echo =end=
done
"""
# A terminal in which Tab is pressed; the candidates are read where zsh adds them.
ZSH = r"""
zmodload zsh/zpty
zpty complete zsh -f -i
zpty -w complete 'PS1=; unset zle_bracketed_paste; autoload -U compinit; compinit -u -D; source "$SCRIPT"'
zpty -w complete 'compadd() {
    case " ${@[1,(i)--]} " in (*" -O "*|*" -A "*|*" -D "*) builtin compadd "$@"; return ;; esac
    local -a __found; builtin compadd -A __found "$@"
    (($#__found)) && print -l -- "${__found[@]}" >>$HOME/.offered; builtin compadd "$@" }'
zpty -w complete 'finish() { zle .kill-buffer; print -- "=end=" >>$HOME/.offered }; zle -N finish; bindkey "^T" finish'
while IFS= read -r line; do
    : >$HOME/.offered
    zpty -n -w complete "$line"$'\t\x14'
    until [[ "$(<$HOME/.offered)" == *=end= ]]; do zpty -r -t complete _ || sleep 0.02; done
    sed 's:^folder$:folder/:' $HOME/.offered
done
rm $HOME/.offered
zpty -d complete
"""
FISH = r"""
source $SCRIPT
while read -l line
    complete -C "$line" | string replace -r -- '^--[a-z]+=' ''
    echo =end=
end
"""


@pytest.mark.os
@pytest.mark.parametrize("shell", SHELLS)
def test_shells_complete(shell: str, home: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    wrong: list[str] = []
    results = completed(shell, [line for line, _, _ in LINES], home)
    for (line, offered, others), found in zip(LINES, results, strict=True):
        if not offered <= found or others & found:
            wrong.append(f"{line!r}: offers {sorted(found)}, not {sorted(offered - found)}")
    assert not wrong
    assert not (home / "hit").exists(), "a title was run as a command"


def test_names_that_need_quotes_are_left_out(home: Path) -> None:
    keep_names("agents", [("two words", ""), ("a\tb", ""), ("x\x1b[2J", ""), ("good", "an\x1b[2J\nagent"), ("", "")])
    assert (home / "cache/engine/completion/agents").read_text() == "good\tan^[[2J agent\n"


def test_names_are_private_and_few(home: Path) -> None:
    keep_names("sessions", [(f"ses_{number}", "") for number in range(MAX_NAMES + 1)])
    file = home / "cache/engine/completion/sessions"
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text().splitlines()) == MAX_NAMES
    assert [each.name for each in file.parent.iterdir() if each.name.startswith(".")] == []


def test_names_that_cannot_be_kept_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    keep_names("agents", [("good", "")])
