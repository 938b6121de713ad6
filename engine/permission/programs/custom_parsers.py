"""The programs that a row of the tables can't describe: a function for each, by the row's `reader`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from engine.permission.effects.program_effects import FILE_NAME, ListedName, UnknownInput, WordPrefix
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.awk import analyze_awk
from engine.permission.programs.build_and_data import analyze_database, analyze_dd, analyze_make
from engine.permission.programs.date import analyze_date
from engine.permission.programs.find import analyze_fd, analyze_find
from engine.permission.programs.git import analyze_git
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text, set_variable, split_assignment
from engine.permission.programs.sed import analyze_sed
from engine.permission.programs.shell_scripts import run_joined_words, run_stdin, split_words
from engine.permission.programs.table_analysis import apply_operands, apply_options, parse_and_apply, parse_words
from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.option_spec import UsedOption
from engine.permission.programs.tables.program_spec import CustomReader, Program
from engine.permission.programs.tar import analyze_tar
from engine.permission.programs.wrappers import analyze_exec_in, analyze_uv_run

# Longer input is not split into words.
_MAX_INPUT: Final = 4_000


def analyze_shell(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of a shell: it runs a text, a file, or standard input."""
    arguments = parse_and_apply(analysis, program)
    operands = list(arguments.operands)
    # `bash - file`: the dash ends the options.
    if operands and exact_text(operands[0]) == "-":
        operands = operands[1:]
    names = {used.name for used in arguments.used}
    shell = analysis.name
    _check_shell_options(analysis, arguments.used)
    # `bash +x file`: in some shells options begin with a plus.
    if operands and (exact_text(operands[0]) or "+").startswith("+"):
        analysis.mark_opaque("may have an option that begins with a plus")
    if "-c" in names:
        if operands:
            analysis.run_script(operands[0], shell, operands[1:])
    elif operands and "-s" not in names:
        analysis.run_file(operands[0])
    else:
        # Without a file and without `-c`, a shell executes its standard input.
        run_stdin(analysis, shell, [shell, *operands])


def _check_shell_options(analysis: ProgramAnalysis, used: Sequence[UsedOption]) -> None:
    if any(option.name in {"-l", "-i", "--login"} for option in used):
        analysis.mark_opaque("reads the start-up files of a login or an interactive shell")
    if any(option.name in {"-o", "+o"} and exact_text(option.value) not in _SET for option in used):
        analysis.mark_opaque("sets an unknown option, or has more options behind it")


# The harmless options of `-o`.
_SET: Final = words_of(
    """
    errexit pipefail nounset xtrace verbose noglob noclobber noexec posix
    monitor notify braceexpand physical errtrace functrace hashall nolog
    """
)


def analyze_interpreter(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of an interpreter: it runs inline code, a file, or standard input."""
    arguments = parse_and_apply(analysis, program)
    roles = {used.option.role for used in arguments.used}
    if "stops" in roles:
        _add_module(analysis, arguments.used, arguments.operands)
    operands = arguments.operands
    if roles & {"code", "stops"} or ("runs" in roles and not operands):
        return
    if operands and exact_text(operands[0]) != "-":
        analysis.run_file(operands[0])
    elif analysis.invocation.stdin is not None:
        # Unlike a shell's, the text can't be judged.
        analysis.mark_opaque("reads program text from standard input")


def _add_module(analysis: ProgramAnalysis, used: Sequence[UsedOption], words: Sequence[Argument]) -> None:
    """Add the file of the module that `python -m` runs, and what the module does if it is one that only reads."""
    module = next((exact_text(option.value) for option in used if option.option.role == "stops"), "")
    if module == "json.tool":
        _apply_json_tool(analysis, words)
    if module is None or module in _CODE_MODULES:
        analysis.mark_opaque("its module may run inline code")
    if own := (module or "").partition(".")[0]:
        # Python also searches its working directory.
        analysis.runs.append(analysis.resolve(f"{own}.py"))


def _apply_json_tool(analysis: ProgramAnalysis, words: Sequence[Argument]) -> None:
    files = [word for word in words if word is None or not word.startswith("-")]
    for file in files[:1]:
        analysis.touch(file, "read")
    for file in files[1:]:
        analysis.touch(file, "write")
    analysis.reads_only = analysis.passes_on = True


# Python modules that run code from their arguments or from standard input.
_CODE_MODULES: Final = frozenset(
    # They execute an argument, or their input, as code.
    {"timeit", "code", "asyncio", "IPython", "ptpython", "bpython", "pdb", "runpy", "idlelib"}
)


def analyze_env(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `env`, `sudo` and the like: options, assignments, a command."""
    words: Sequence[Argument] = analysis.words
    is_shell = False
    # `env -S "a b"` inserts words, which may contain options again.
    while True:
        arguments = parse_words(program, words)
        split = next((used for used in arguments.used if used.option.role == "split"), None)
        apply_options(analysis, program, arguments.without("split"))
        is_shell = is_shell or any(used.name in _SHELL_OPTIONS for used in arguments.used)
        words = _set_all(analysis, arguments.operands)
        if split is None:
            break
        inserted = split_words(analysis, split.value)
        if inserted is None:
            return
        words = [*inserted, *words]
    analysis.reads_only = analysis.passes_on = analysis.name == "env"
    if words:
        analysis.start(words)
    elif is_shell and analysis.name != "env":
        analysis.start(["sh"])


_SHELL_OPTIONS: Final = frozenset({"-s", "--shell", "-i", "--login"})


def _set_all(analysis: ProgramAnalysis, words: Sequence[Argument]) -> Sequence[Argument]:
    at = 0
    for at, word in enumerate(words):  # noqa: B007  # read behind the loop
        text = exact_text(word)
        if text == "-" and analysis.name == "env":
            continue
        if text is None and isinstance(word, WordPrefix) and "=" in word:
            analysis.mark_opaque("sets an unknown variable")
        elif text is None or split_assignment(text) is None:
            break
        else:
            set_variable(analysis, text)
    else:
        return ()
    return words[at:]


def analyze_xargs(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `xargs`: a command, to which it adds what it reads."""
    arguments = parse_and_apply(analysis, program)
    own = analysis.invocation.stdin
    reads_file = any(used.name in {"-a", "--arg-file"} for used in arguments.used)
    added = _added([UnknownInput()] if reads_file else [own], arguments.used)
    sign = _replaced(arguments.used)
    command = list(arguments.operands)
    analysis.reads_only = analysis.passes_on = True
    if not command:
        # Without a command, xargs runs `echo`.
        analysis.start(["echo", *added])
        return
    if sign is None:
        command += added
    else:
        # `-I {}`: the placeholder may be part of a word, and then nothing about that word is certain.
        whole = added[0] if added == [FILE_NAME] else None
        command = [_with_place(word, sign, whole) for word in command]
    analysis.start(command, stdin=own if reads_file else None, takes_stdin=False)


def analyze_yq(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `yq`: an expression may load further files."""
    arguments = parse_and_apply(analysis, program)
    if any("load" in (exact_text(word) or "load") for word in arguments.operands[:1]):
        analysis.changes = True
    apply_operands(analysis, program, arguments.operands)


def _replaced(used: Sequence[UsedOption]) -> str | None:
    for option in used:
        if option.name in {"-I", "--replace", "-i", "-J"}:
            return exact_text(option.value) or "{}"
    return None


def _with_place(word: Argument, sign: str, whole: Argument) -> Argument:
    if word is None or sign not in word:
        return word
    return whole if word == sign else None


def _added(sources: Sequence[str | UnknownInput | None], used: Sequence[UsedOption]) -> list[Argument]:
    """Return the words that xargs adds, as far as they are known."""
    [source] = sources
    if source is None:
        return []
    if isinstance(source, UnknownInput):
        return [ListedName(source.listing)] if source.lists_files else [None]
    # xargs splits differently from `str.split` where there are quotes.
    if used or len(source) > _MAX_INPUT or any(sign in source for sign in "'\"\\"):
        return [None]
    return list(source.split())


def analyze_ssh(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `ssh`: options on both sides of a host, then a text for a shell there."""
    words = analysis.words
    host: Argument = ""
    has_host = False
    while True:
        arguments = parse_words(program, words)
        apply_options(analysis, program, arguments)
        _check_ssh_settings(analysis, arguments.used)
        words = arguments.operands
        if has_host or not words:
            break
        host, words, has_host = words[0], words[1:], True
        # After the host, options are followed by the remote command.
        if not words or exact_text(words[0]) == "--":
            words = words[1:]
            break
    # An unknown host may be an option such as `-oProxyCommand=…`.
    if has_host and exact_text(host) is None:
        analysis.mark_opaque("the host is unknown")
    analysis.remote = True
    if words:
        run_joined_words(analysis, words)
    elif has_host:
        run_stdin(analysis)


# Settings of ssh that run nothing. There are others that name commands, or further files with settings.
_SSH_HARMLESS: Final = re.compile(
    r"\s*(?:AddressFamily|BatchMode|Ciphers|Compression|Connect(?:ionAttempts|Timeout)|Control(?:Master|Path|Persist)"
    r"|ForwardAgent|HostKeyAlgorithms|HostName|Identit(?:iesOnly|yFile)|LogLevel|PasswordAuthentication|Port"
    r"|PreferredAuthentications|ProxyJump|PubkeyAcceptedKeyTypes|RequestTTY|ServerAlive(?:CountMax|Interval)"
    r"|StrictHostKeyChecking|User|UserKnownHostsFile)[=\s].*",
    re.IGNORECASE | re.DOTALL,
)


def _check_ssh_settings(analysis: ProgramAnalysis, used: Sequence[UsedOption]) -> None:
    """Check the values of `ssh -o`: some are commands that run on this machine."""
    for option in used:
        if option.name == "-o" and not _SSH_HARMLESS.fullmatch(exact_text(option.value) or ""):
            analysis.mark_opaque("one of its settings may be a command")


def analyze_scp(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `scp`."""
    arguments = parse_and_apply(analysis, program)
    _check_ssh_settings(analysis, arguments.used)
    apply_operands(analysis, program, arguments.operands)


CUSTOM_READERS: Final[Mapping[CustomReader, Callable[[ProgramAnalysis, Program], None]]] = {
    "awk": analyze_awk,
    "database": analyze_database,
    "date": analyze_date,
    "dd": analyze_dd,
    "env": analyze_env,
    "exec_in": analyze_exec_in,
    "fd": analyze_fd,
    "find": analyze_find,
    "git": analyze_git,
    "interpreter": analyze_interpreter,
    "make": analyze_make,
    "scp": analyze_scp,
    "sed": analyze_sed,
    "shell": analyze_shell,
    "ssh": analyze_ssh,
    "tar": analyze_tar,
    "uv_run": analyze_uv_run,
    "xargs": analyze_xargs,
    "yq": analyze_yq,
}
