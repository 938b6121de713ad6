"""The arguments of `tmux`, with its own commands, and of `bwrap`, whose options take up to three values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text
from engine.permission.programs.table_analysis import apply_options, parse_words, start_tail
from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.program_spec import Program

_TAKES: Final = {
    **dict.fromkeys(
        words_of(
            """
    --unshare-all --share-net --unshare-user --unshare-user-try --unshare-ipc --unshare-pid --unshare-net
    --unshare-uts --unshare-cgroup --unshare-cgroup-try --disable-userns --assert-userns-disabled --clearenv
    --new-session --die-with-parent --as-pid-1 --help --version
"""
        ),
        0,
    ),
    **dict.fromkeys(
        words_of(
            """
    --userns --userns2 --pidns --uid --gid --hostname --chdir --unsetenv --lock-file --sync-fd --remount-ro
    --exec-label --file-label --proc --dev --tmpfs --mqueue --dir --seccomp --add-seccomp-fd --block-fd
    --userns-block-fd --info-fd --json-status-fd --cap-add --cap-drop --perms --size --level-prefix
    --tmp-overlay --ro-overlay --overlay-src --argv0
"""
        ),
        1,
    ),
    **dict.fromkeys(
        words_of(
            """
    --setenv --bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --bind-fd --ro-bind-fd --file
    --bind-data --ro-bind-data --symlink --chmod
"""
        ),
        2,
    ),
    "--overlay": 3,
}


def analyze_bwrap(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `bwrap`, whose options take up to three values."""
    words = analysis.words
    at = 0
    while at < len(words):
        text = exact_text(words[at])
        if text is None:
            analysis.mark_opaque("one of its words is unknown")
            return
        if text == "--" or not text.startswith("-"):
            at += text == "--"
            break
        if text not in _TAKES:
            analysis.mark_opaque(f"its option {text} is unknown")
            return
        if text == "--setenv":
            name, value = [*words[at + 1 : at + 3], "", ""][:2]
            analysis.set_variable(None if name is None or value is None else f"{name}={value}")
        at += 1 + _TAKES[text]
    start_tail(analysis, program, words[at:])


_TMUX_HARMLESS: Final = words_of(
    """
    ls list-sessions list-windows lsw list-panes lsp list-clients lsc list-commands lscm has-session has
    kill-session kill-server kill-window killw kill-pane killp attach-session attach a at detach-client detach
    capture-pane capturep select-window selectw select-pane selectp select-layout selectl rename-session rename
    rename-window renamew resize-pane resizep swap-pane swapp swap-window swapw switch-client switchc
    next-window next previous-window prev last-window last info start-server start show-options show wait-for
    wait clear-history clearhist list-buffers lsb show-buffer showb save-buffer list-keys lsk show-messages
"""
)
_TMUX_STARTING: Final = words_of(
    """
    new-session new new-window neww split-window splitw respawn-pane respawn-window
"""
)
_TMUX_OPTIONS: Final = Program(
    strict=True,
    permutes=False,
    options="-n= -s= -c=folder -t= -x= -y= -F= -e=sets -l= -p= -AdDEPXabkSZhvIfi",
)


def analyze_tmux(analysis: ProgramAnalysis, _: Program) -> None:
    """Analyze the arguments of `tmux`: few of its commands are harmless."""
    words = list(analysis.words)
    # The socket of the server.
    while words and exact_text(words[0]) in {"-L", "-S"}:
        words = words[2:]
    texts = [exact_text(word) or "" for word in words]
    name = next(iter(texts), "")
    # `#(…)` in a format runs a command, and a word that ends with ";" separates tmux's own commands.
    if None in words or any("#(" in text or text.endswith(";") for text in texts):
        analysis.mark_opaque("its words may execute commands")
    elif name in _TMUX_STARTING:
        _start_in_pane(analysis, words[1:])
    elif name not in _TMUX_HARMLESS and name not in {"", "-V"}:
        analysis.mark_opaque(f"{name} may execute commands")


def _start_in_pane(analysis: ProgramAnalysis, words: Sequence[Argument]) -> None:
    """Start the command of a new pane: a single word is a script for a shell."""
    arguments = parse_words(_TMUX_OPTIONS, words)
    apply_options(analysis, _TMUX_OPTIONS, arguments)
    # tmux passes a single word to the user's shell.
    if len(arguments.operands) == 1:
        analysis.run_script(arguments.operands[0])
    else:
        analysis.start(arguments.operands, takes_stdin=False)
