"""Programs with a small language in their arguments or their input: build tools, databases, editors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from engine.permission.effects.program_effects import UnknownInput
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.environment_variables import is_dangerous_setting
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text, split_assignment
from engine.permission.programs.table_analysis import apply_operands, parse_and_apply
from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.program_spec import Program
from engine.permission.programs.wrappers import uses

# In the order in which GNU make looks for them.
_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
# A value without special characters for make and for the shell that runs its recipes.
_PLAIN_VALUE: Final = re.compile(r"[\w ./:=,@%+~\"'*-]*", re.ASCII)


def analyze_make(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `make`: targets, variables, and the files of its rules."""
    arguments = parse_and_apply(analysis, program)
    files = [used.value for used in arguments.used if used.name in {"-f", "--file", "--makefile"}]
    for file in files:
        if exact_text(file) != "-":
            analysis.run_file(file)
        elif analysis.invocation.stdin is not None:
            # A Makefile from a pipe is a script.
            analysis.mark_opaque("reads rules from standard input")
    if not files:
        analysis.runs += [analysis.resolve(name) for name in _MAKEFILES]
    for operand in arguments.operands:
        text = exact_text(operand)
        parts = split_assignment(text) if text is not None else None
        if parts is not None:
            _check_make_variable(analysis, *parts)


def _check_make_variable(analysis: ProgramAnalysis, left: str, value: str) -> None:
    """Check NAME=VALUE, or NAME:=VALUE and the like; a NAME!=VALUE executes its value."""
    name = left.rstrip(":?+!")
    if name.startswith(".SHELL") or is_dangerous_setting(name, value):
        analysis.mark_opaque(f"sets {name}, which may make it run something else")
    elif left.endswith("!") or not _PLAIN_VALUE.fullmatch(value):
        analysis.mark_opaque(f"sets {name} to a value that may be executed")


def analyze_compiler(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of a compiler, some of whose options have their value attached."""
    for word in analysis.words:
        text = exact_text(word) or ""
        # `-B` is the folder of the compiler's parts, `@file` contains options, and linkers load plugins.
        if text.startswith(("-B", "@")) or (text.startswith("-Wl,") and "plugin" in text):
            analysis.mark_opaque(f"{text} makes it run other programs")
    arguments = parse_and_apply(analysis, program)
    apply_operands(analysis, program, arguments.operands)


_NPM_KEYS: Final = words_of(
    "script-shell shell editor browser git viewer init-module node-gyp globalconfig userconfig node-options"
)


def analyze_npm_config(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `npm config`: some settings are programs."""
    arguments = parse_and_apply(analysis, program)
    words = [exact_text(word) for word in arguments.operands]
    if "get" in words[:1] or "list" in words[:1] or "ls" in words[:1] or "delete" in words[:1]:
        return
    for word in words:
        if word is None or word.partition("=")[0] in _NPM_KEYS:
            analysis.mark_opaque("sets the program that it runs")


_CMAKE_STARTING: Final = frozenset({"env", "time", "chdir"})
_CMAKE_WRITING: Final = words_of(
    "copy copy_if_different copy_directory make_directory touch touch_nocreate rm remove remove_directory rename "
    "create_symlink create_hardlink copy_directory_if_different copy_if_newer"
)
_CMAKE_TELLING: Final = words_of(
    "capabilities cat compare_files echo echo_append environment md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
    "sleep true false tar server"
)
# Variables whose values are programs, or files with commands.
_CMAKE_KEYS: Final = re.compile(
    r".*(?:_LAUNCHER|MAKE_PROGRAM|TOP_LEVEL_INCLUDES|_INCLUDE|_INCLUDE_BEFORE|_COMMAND|_LINKER|_RULE.*)"
)
_CMAKE_COMPILER: Final = re.compile(r"CMAKE_(\w+)_COMPILER")


def analyze_cmake(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `cmake`: it generates build rules, or runs one of its tools (`-E`)."""
    words = analysis.words
    if words and exact_text(words[0]) == "-E":
        _use_tool(analysis, words[1:])
        return
    for word in words:
        text = exact_text(word)
        if text is not None and text.startswith("-D"):
            _define(analysis, text.removeprefix("-D"))
        # Options may be attached: `-Pscript.cmake`.
        elif text is not None and text.startswith("-P") and text != "-P":
            analysis.run_file(text.removeprefix("-P"))
    arguments = parse_and_apply(analysis, program)
    if not uses(arguments.used, "-P", "--build", "--install", "--version", "--help"):
        analysis.runs.append(analysis.resolve("CMakeLists.txt"))


def _define(analysis: ProgramAnalysis, text: str) -> None:
    parts = split_assignment(text)
    if parts is None:
        return
    key = parts[0].partition(":")[0]
    compiler = _CMAKE_COMPILER.fullmatch(key)
    if compiler is not None:
        name = "CC" if compiler[1] == "C" else "CXX"
        if is_dangerous_setting(name, parts[1].rpartition("/")[2]):
            analysis.mark_opaque(f"sets {key}, which is started")
    elif _CMAKE_KEYS.fullmatch(key) and parts[1].rpartition("/")[2] not in {
        # Compiler caches and build programs are common here.
        "ccache",
        "sccache",
        "make",
        "ninja",
        "gmake",
    }:
        analysis.mark_opaque(f"sets {key}, which is started")


def _use_tool(analysis: ProgramAnalysis, words: Sequence[Argument]) -> None:
    name = exact_text(words[0]) if words else ""
    rest = words[1:]
    if name == "env":
        analysis.start(["env", *[word for word in rest if exact_text(word) != "--"]])
    elif name == "time":
        analysis.start(rest)
    elif name == "chdir":
        analysis.change_folder(rest[0] if rest else "")
        analysis.start(rest[1:])
    elif name in _CMAKE_WRITING:
        _write_all(analysis, rest)
    elif name not in _CMAKE_TELLING:
        analysis.mark_opaque("its tool is unknown")


def _write_all(analysis: ProgramAnalysis, words: Sequence[Argument]) -> None:
    for word in words:
        if not (exact_text(word) or "").startswith("-"):
            analysis.touch(word, "write")


def analyze_dd(analysis: ProgramAnalysis, _: Program) -> None:
    """Analyze the arguments of `dd`."""
    for word in analysis.words:
        text = exact_text(word)
        name, sign, value = (text or "").partition("=")
        if text is None:
            # An unknown word may be `of=…`.
            analysis.touch(None, "write")
        elif sign and name == "if":
            analysis.touch(value, "read")
        elif sign and name == "of":
            analysis.touch(value, "write")


# ---- databases ---------------------------------------------------------------------------------------------------

_SQLITE_COMMANDS: Final = words_of(
    ".tables .schema .mode .headers .header .indexes .indices .databases .timer .width .separator .quit .exit .help .show "
    ".nullvalue .bail .echo .changes .stats .dump .eqp .explain .fullschema .limit .lint .version .dbinfo .print .timeout "
    ".sha3sum .parameter .prompt .binary .scanstats .vfsinfo .vfslist .vfsname .dbconfig .selftest .testctrl"
)
# SQL functions and statements of SQLite that access files or load code.
_SQLITE_SQL: Final = re.compile(
    r"load_extension|edit\s*\(|writefile|fts3_tokenizer|attach|vacuum\s+into|zipfile|fsdir", re.IGNORECASE
)
# Commands of psql that only show something.
_PSQL_COMMAND: Final = re.compile(
    r"\s*\\(?:d[a-zA-Z+]*|l\+?|q|x|timing|conninfo|encoding|z|echo)(?:[ \t]+[\w.*\"$-]*)*;?\s*"
)
_PSQL_SQL: Final = re.compile(r"\\|`|\bprogram\b|\blanguage\b", re.IGNORECASE)
_MYSQL_SQL: Final = re.compile(
    r"\\|(?:^|;|\n)\s*(?:system|source|pager|tee|edit|nopager|print)\b|into\s+(?:out|dump)file", re.IGNORECASE
)


def analyze_sqlite(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `sqlite3`: SQL, and commands that begin with a dot."""
    arguments = parse_and_apply(analysis, program)
    operands = arguments.operands
    if operands:
        analysis.touch(operands[0], "read")
        analysis.touch(operands[0], "write")
    texts = [used.value for used in arguments.used if used.name == "-cmd"] + list(operands[1:])
    # Without SQL among the arguments, it reads commands from standard input.
    if len(operands) < 2:
        texts += _from_stdin(analysis)
    for word in texts:
        text = exact_text(word)
        if text is None:
            analysis.mark_opaque("its commands are unknown")
        elif _SQLITE_SQL.search(text) or not all(_is_harmless_line(line) for line in text.splitlines()):
            analysis.mark_opaque("its commands may execute others, or write files")


def _is_harmless_line(line: str) -> bool:
    plain = line.strip()
    return not plain.startswith(".") or (plain.split()[0] in _SQLITE_COMMANDS and "|" not in plain)


def _from_stdin(analysis: ProgramAnalysis) -> list[Argument]:
    stdin = analysis.invocation.stdin
    if stdin is None:
        return []
    return [None if isinstance(stdin, UnknownInput) else stdin]


def analyze_database(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `psql` and `mysql`: SQL, and commands of the client."""
    arguments = parse_and_apply(analysis, program)
    texts = [
        used.value for used in arguments.used if used.name in {"-c", "--command", "-e", "--execute", "--init-command"}
    ]
    if not texts and not uses(arguments.used, "-l", "--list", "-V", "--version"):
        texts = _from_stdin(analysis)
    for word in texts:
        text = exact_text(word)
        if text is None:
            analysis.mark_opaque("its commands are unknown")
        elif analysis.name == "psql":
            # `\!` runs a shell, `COPY … TO PROGRAM` another program.
            if _PSQL_SQL.search(text) and not _PSQL_COMMAND.fullmatch(text):
                analysis.mark_opaque("its commands may execute others")
        elif _MYSQL_SQL.search(text):
            analysis.mark_opaque("its commands may execute others")


# ---- editors and other programs that read commands
# -----------------------------------------------------------------------


def analyze_editor(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of an editor; standard input is typed into it."""
    arguments = parse_and_apply(analysis, program)
    if analysis.invocation.stdin is not None:
        analysis.mark_opaque("reads commands, or keys, from standard input")
    apply_operands(analysis, program, arguments.operands)


def analyze_debugger(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of a debugger: it starts a program."""
    arguments = parse_and_apply(analysis, program, permutes=False)
    if analysis.invocation.stdin is not None:
        analysis.mark_opaque("reads commands from standard input")
    analysis.start(arguments.operands, takes_stdin=False)


def analyze_crontab(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `crontab`: it installs commands."""
    arguments = parse_and_apply(analysis, program)
    if arguments.operands or (analysis.invocation.stdin is not None and not arguments.used):
        analysis.mark_opaque("installs commands that run later")


# In dc, `!=`, `!<` and `!>` compare.
_BANG: Final = re.compile(r"!(?![<>=])")


def analyze_dc(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `dc`: an exclamation mark executes the rest of the line."""
    arguments = parse_and_apply(analysis, program)
    texts = [used.value for used in arguments.used if used.name in {"-e", "--expression"}]
    if arguments.operands or uses(arguments.used, "-f", "--file"):
        analysis.mark_opaque("reads commands from a file")
    for word in texts or _from_stdin(analysis):
        text = exact_text(word)
        if text is None or _BANG.search(text):
            analysis.mark_opaque("its commands may execute others")
    analysis.reads_only = True


def analyze_java(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `java`: a class, an archive, or a file."""
    arguments = parse_and_apply(analysis, program)
    operands = arguments.operands
    texts = [exact_text(word) or "" for word in analysis.words]
    if any(
        text.startswith(("@", "-javaagent", "-agent", "-XX:OnError", "-XX:OnOut", "-XX:Flags", "-Xrun"))
        for text in texts
        # Files with options, agents, and commands for errors.
    ):
        analysis.mark_opaque("its options make it run other code")
    first = exact_text(operands[0]) if operands else None
    if first is not None and first.endswith((".java", ".jar")):
        analysis.run_file(first)
    if operands and first is None:
        analysis.mark_opaque("the class to run is unknown")


_SSH_COMMANDS: Final = frozenset({"proxycommand", "localcommand", "knownhostscommand"})
_SSH_HARMLESS: Final = words_of(
    "addressfamily batchmode bindaddress checkhostip ciphers clearallforwardings compression connectionattempts "
    "connecttimeout controlmaster controlpath controlpersist dynamicforward escapechar exitonforwardfailure "
    "fingerprinthash forkafterauthentication forwardagent forwardx11 forwardx11trusted gatewayports globalknownhostsfile "
    "gssapiauthentication hashknownhosts hostbasedauthentication hostkeyalgorithms hostkeyalias hostname identitiesonly "
    "identityfile ipqos kbdinteractiveauthentication kexalgorithms localforward loglevel macs nohostauthenticationforlocalhost "
    "numberofpasswordprompts passwordauthentication port preferredauthentications proxyjump pubkeyacceptedalgorithms "
    "pubkeyacceptedkeytypes pubkeyauthentication remoteforward requesttty sendenv serveralivecountmax serveraliveinterval "
    "setenv stricthostkeychecking tcpkeepalive updatehostkeys user userknownhostsfile verifyhostkeydns visualhostkey "
    "canonicalizehostname challengeresponseauthentication hostkeyalgorithms pubkeyacceptedalgorithms sessiontype stdinnull "
    "rekeylimit streamlocalbindunlink streamlocalbindmask addkeystoagent"
)
_SSH_SETTING: Final = re.compile(r"\s*(\w+)\s*[=\s]\s*(.*)", re.DOTALL)


def check_ssh_settings(analysis: ProgramAnalysis, values: Sequence[Argument]) -> None:
    """Check the values of `ssh -o`: some are commands that run on this machine."""
    for value in values:
        text = exact_text(value)
        match = _SSH_SETTING.fullmatch(text) if text is not None else None
        if match is None:
            analysis.mark_opaque("one of its settings is unknown")
            continue
        name, set_to = match[1].lower(), match[2].strip().strip('"')
        if name in _SSH_COMMANDS and set_to.lower() != "none":
            # It runs on this machine, in the user's shell. Tokens such as `%h` are replaced first, so the text is
            # uncertain.
            remote, analysis.remote = analysis.remote, False
            analysis.run_script(set_to if "%" not in set_to else None)
            analysis.remote = remote
        elif name == "permitlocalcommand" or name in _SSH_COMMANDS:
            continue
        elif name == "remotecommand":
            analysis.mark_opaque("one of its settings is a command")
        elif name not in _SSH_HARMLESS:
            analysis.mark_opaque(f"its setting {match[1]} is unknown")


def analyze_scp(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `scp` and `sftp`."""
    arguments = parse_and_apply(analysis, program)
    check_ssh_settings(analysis, [used.value for used in arguments.used if used.name == "-o"])
    if analysis.name == "sftp" and analysis.invocation.stdin is not None:
        analysis.mark_opaque("reads commands from standard input")
    apply_operands(analysis, program, arguments.operands)
