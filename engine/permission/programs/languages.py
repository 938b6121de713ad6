"""Programs with a small language of their own in their words or in what they read: makers, databases, editors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from engine.permission.effects.program_effects import Unknown
from engine.permission.effects.scan_result import Word
from engine.permission.programs.analysis import Study, known, split_assignment
from engine.permission.programs.environment import is_dangerous_setting
from engine.permission.programs.names import words_of
from engine.permission.programs.program_spec import Program
from engine.permission.programs.wrappers import uses

_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
# What neither make nor the shell that it gives its recipes to reads as anything but itself.
_PLAIN_VALUE: Final = re.compile(r"[\w ./:=,@%+~\"'*-]*", re.ASCII)


def follow_make(study: Study, program: Program) -> None:
    """Read the words of `make`: goals, settings, and where its rules are."""
    arguments = study.read(program)
    study.judge(program, arguments)
    files = [used.value for used in arguments.used if used.name in {"-f", "--file", "--makefile"}]
    for file in files:
        if known(file) == "-":
            if study.given.stdin is not None:
                study.give_up("reads rules from standard input")
        else:
            study.run_file(file)
    if not files:
        study.runs += [study.inside(name) for name in _MAKEFILES]
    for operand in arguments.operands:
        text = known(operand)
        parts = split_assignment(text) if text is not None else None
        if parts is None:
            continue
        name = parts[0].rstrip(":?+!")
        if name.startswith(".SHELL") or is_dangerous_setting(name, parts[1]):
            study.give_up(f"sets {name}, which may make it run something else")
        elif parts[0].endswith("!") or not _PLAIN_VALUE.fullmatch(parts[1]):
            study.give_up(f"sets {name} to what may be executed")


def follow_compiler(study: Study, program: Program) -> None:
    """Read the words of a compiler, some of whose options have their value written to them."""
    for word in study.words:
        text = known(word) or ""
        if text.startswith(("-B", "@")) or (text.startswith("-Wl,") and "plugin" in text):
            study.give_up(f"{text} makes it run other programs")
    arguments = study.read(program)
    study.judge(program, arguments)
    study.finish(program, arguments.operands)


_NPM_KEYS: Final = words_of(
    "script-shell shell editor browser git viewer init-module node-gyp globalconfig userconfig node-options"
)


def follow_npm_config(study: Study, program: Program) -> None:
    """Read the words of `npm config`: some settings are programs."""
    arguments = study.read(program)
    study.judge(program, arguments)
    words = [known(word) for word in arguments.operands]
    if "get" in words[:1] or "list" in words[:1] or "ls" in words[:1] or "delete" in words[:1]:
        return
    for word in words:
        if word is None or word.partition("=")[0] in _NPM_KEYS:
            study.give_up("sets what it runs")


_CMAKE_STARTING: Final = frozenset({"env", "time", "chdir"})
_CMAKE_WRITING: Final = words_of(
    "copy copy_if_different copy_directory make_directory touch touch_nocreate rm remove remove_directory rename "
    "create_symlink create_hardlink copy_directory_if_different copy_if_newer"
)
_CMAKE_TELLING: Final = words_of(
    "capabilities cat compare_files echo echo_append environment md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
    "sleep true false tar server"
)
_CMAKE_KEYS: Final = re.compile(
    r".*(?:_LAUNCHER|MAKE_PROGRAM|TOP_LEVEL_INCLUDES|_INCLUDE|_INCLUDE_BEFORE|_COMMAND|_LINKER|_RULE.*)"
)
_CMAKE_COMPILER: Final = re.compile(r"CMAKE_(\w+)_COMPILER")


def follow_cmake(study: Study, program: Program) -> None:
    """Read the words of `cmake`: it makes build rules, or it is a box of tools (`-E`)."""
    words = study.words
    if words and known(words[0]) == "-E":
        _use_tool(study, words[1:])
        return
    for word in words:
        text = known(word)
        if text is not None and text.startswith("-D"):
            _define(study, text.removeprefix("-D"))
        elif text is not None and text.startswith("-P") and text != "-P":
            study.run_file(text.removeprefix("-P"))
    arguments = study.read(program)
    study.judge(program, arguments)
    if not uses(arguments.used, "-P", "--build", "--install", "--version", "--help"):
        study.runs.append(study.inside("CMakeLists.txt"))


def _define(study: Study, text: str) -> None:
    parts = split_assignment(text)
    if parts is None:
        return
    key = parts[0].partition(":")[0]
    compiler = _CMAKE_COMPILER.fullmatch(key)
    if compiler is not None:
        name = "CC" if compiler[1] == "C" else "CXX"
        if is_dangerous_setting(name, parts[1].rpartition("/")[2]):
            study.give_up(f"sets {key}, which is started")
    elif _CMAKE_KEYS.fullmatch(key) and parts[1].rpartition("/")[2] not in {
        "ccache",
        "sccache",
        "make",
        "ninja",
        "gmake",
    }:
        study.give_up(f"sets {key}, which is started")


def _use_tool(study: Study, words: Sequence[Word]) -> None:
    name = known(words[0]) if words else ""
    rest = words[1:]
    if name == "env":
        study.start(["env", *[word for word in rest if known(word) != "--"]])
    elif name == "time":
        study.start(rest)
    elif name == "chdir":
        study.enter(rest[0] if rest else "")
        study.start(rest[1:])
    elif name in _CMAKE_WRITING:
        for word in rest:
            if not (known(word) or "").startswith("-"):
                study.touch(word, "write")
    elif name not in _CMAKE_TELLING:
        study.give_up("its tool is not known")


def follow_dd(study: Study, _: Program) -> None:
    """Read the words of `dd`."""
    for word in study.words:
        text = known(word)
        name, sign, value = (text or "").partition("=")
        if text is None:
            study.touch(None, "write")
        elif sign and name == "if":
            study.touch(value, "read")
        elif sign and name == "of":
            study.touch(value, "write")


# ---- databases ---------------------------------------------------------------------------------------------------

_SQLITE_COMMANDS: Final = words_of(
    ".tables .schema .mode .headers .header .indexes .indices .databases .timer .width .separator .quit .exit .help .show "
    ".nullvalue .bail .echo .changes .stats .dump .eqp .explain .fullschema .limit .lint .version .dbinfo .print .timeout "
    ".sha3sum .parameter .prompt .binary .scanstats .vfsinfo .vfslist .vfsname .dbconfig .selftest .testctrl"
)
_SQLITE_SQL: Final = re.compile(
    r"load_extension|edit\s*\(|writefile|fts3_tokenizer|attach|vacuum\s+into|zipfile|fsdir", re.IGNORECASE
)
_PSQL_COMMAND: Final = re.compile(
    r"\s*\\(?:d[a-zA-Z+]*|l\+?|q|x|timing|conninfo|encoding|z|echo)(?:[ \t]+[\w.*\"$-]*)*;?\s*"
)
_PSQL_SQL: Final = re.compile(r"\\|`|\bprogram\b|\blanguage\b", re.IGNORECASE)
_MYSQL_SQL: Final = re.compile(
    r"\\|(?:^|;|\n)\s*(?:system|source|pager|tee|edit|nopager|print)\b|into\s+(?:out|dump)file", re.IGNORECASE
)


def follow_sqlite(study: Study, program: Program) -> None:
    """Read the words of `sqlite3`: SQL, and commands that begin with a dot."""
    arguments = study.read(program)
    study.judge(program, arguments)
    operands = arguments.operands
    if operands:
        study.touch(operands[0], "read")
        study.touch(operands[0], "write")
    texts = [used.value for used in arguments.used if used.name == "-cmd"] + list(operands[1:])
    if len(operands) < 2:
        texts += _from_stdin(study)
    for word in texts:
        text = known(word)
        if text is None:
            study.give_up("its commands are not known")
        elif _SQLITE_SQL.search(text) or not all(_is_harmless_line(line) for line in text.splitlines()):
            study.give_up("its commands may execute others, or write files")


def _is_harmless_line(line: str) -> bool:
    plain = line.strip()
    return not plain.startswith(".") or (plain.split()[0] in _SQLITE_COMMANDS and "|" not in plain)


def _from_stdin(study: Study) -> list[Word]:
    stdin = study.given.stdin
    if stdin is None:
        return []
    return [None if isinstance(stdin, Unknown) else stdin]


def follow_database(study: Study, program: Program) -> None:
    """Read the words of `psql` and `mysql`: SQL, and commands of the client."""
    arguments = study.read(program)
    study.judge(program, arguments)
    texts = [
        used.value for used in arguments.used if used.name in {"-c", "--command", "-e", "--execute", "--init-command"}
    ]
    if not texts and not uses(arguments.used, "-l", "--list", "-V", "--version"):
        texts = _from_stdin(study)
    for word in texts:
        text = known(word)
        if text is None:
            study.give_up("its commands are not known")
        elif study.name == "psql":
            if _PSQL_SQL.search(text) and not _PSQL_COMMAND.fullmatch(text):
                study.give_up("its commands may execute others")
        elif _MYSQL_SQL.search(text):
            study.give_up("its commands may execute others")


# ---- editors, and what else reads commands -----------------------------------------------------------------------


def follow_editor(study: Study, program: Program) -> None:
    """Read the words of an editor; what comes in is typed into it."""
    arguments = study.read(program)
    study.judge(program, arguments)
    if study.given.stdin is not None:
        study.give_up("reads commands, or keys, from standard input")
    study.finish(program, arguments.operands)


def follow_debugger(study: Study, program: Program) -> None:
    """Read the words of a debugger: it starts a program, when it is told to."""
    arguments = study.read(program, permutes=False)
    study.judge(program, arguments)
    if study.given.stdin is not None:
        study.give_up("reads commands from standard input")
    study.start(arguments.operands, takes_stdin=False)


def follow_crontab(study: Study, program: Program) -> None:
    """Read the words of `crontab`: it installs commands."""
    arguments = study.read(program)
    study.judge(program, arguments)
    if arguments.operands or (study.given.stdin is not None and not arguments.used):
        study.give_up("installs commands that run later")


_BANG: Final = re.compile(r"!(?![<>=])")


def follow_dc(study: Study, program: Program) -> None:
    """Read the words of `dc`: an exclamation mark executes the rest of the line."""
    arguments = study.read(program)
    study.judge(program, arguments)
    texts = [used.value for used in arguments.used if used.name in {"-e", "--expression"}]
    if arguments.operands or uses(arguments.used, "-f", "--file"):
        study.give_up("reads commands from a file")
    for word in texts or _from_stdin(study):
        text = known(word)
        if text is None or _BANG.search(text):
            study.give_up("its commands may execute others")
    study.reads_only = True


def follow_java(study: Study, program: Program) -> None:
    """Read the words of `java`: a class, an archive, or a file."""
    arguments = study.read(program)
    study.judge(program, arguments)
    operands = arguments.operands
    texts = [known(word) or "" for word in study.words]
    if any(
        text.startswith(("@", "-javaagent", "-agent", "-XX:OnError", "-XX:OnOut", "-XX:Flags", "-Xrun"))
        for text in texts
    ):
        study.give_up("its options make it run other code")
    first = known(operands[0]) if operands else None
    if first is not None and first.endswith((".java", ".jar")):
        study.run_file(first)
    if operands and first is None:
        study.give_up("the class to run is not known")


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


def judge_ssh_settings(study: Study, values: Sequence[Word]) -> None:
    """Look at the values of `ssh -o`: some are commands that run here."""
    for value in values:
        text = known(value)
        found = _SSH_SETTING.fullmatch(text) if text is not None else None
        if found is None:
            study.give_up("a setting of its is not known")
            continue
        name, set_to = found[1].lower(), found[2].strip().strip('"')
        if name in _SSH_COMMANDS and set_to.lower() != "none":
            remote, study.remote = study.remote, False
            study.run_text(set_to if "%" not in set_to else None)
            study.remote = remote
        elif name == "permitlocalcommand" or name in _SSH_COMMANDS:
            continue
        elif name == "remotecommand":
            study.give_up("a setting of its is a command")
        elif name not in _SSH_HARMLESS:
            study.give_up(f"its setting {found[1]} is not known")


def follow_copy(study: Study, program: Program) -> None:
    """Read the words of `scp` and `sftp`."""
    arguments = study.read(program)
    study.judge(program, arguments)
    judge_ssh_settings(study, [used.value for used in arguments.used if used.name == "-o"])
    if study.name == "sftp" and study.given.stdin is not None:
        study.give_up("reads commands from standard input")
    study.finish(program, arguments.operands)
