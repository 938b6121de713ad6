"""What `git` does: its settings, its transports, and the commands that it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from engine.permission.effects.scan_result import Argument
from engine.permission.programs.git_paths import add_files_shown, add_listing
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text, split_assignment
from engine.permission.programs.table_analysis import apply_operands, apply_options, parse_and_apply, parse_words
from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.option_spec import Arguments, UsedOption
from engine.permission.programs.tables.program_spec import Program

# An allow-list: git has hundreds of settings, and new ones may execute commands.
# Settings that execute nothing: patterns for the whole name in lower case; its middle part may be any text.
_HARMLESS: Final = re.compile(
    r"""
      user\.(?:name|email|signingkey|useconfigonly) | (?:author|committer)\.(?:name|email)
    | (?:color|advice|column|log|fetch|index|pack|status|tag|gc|blame|grep|versionsort|stash|rerere|i18n|feature
        |commitgraph|checkout|clone|maintenance|apply|add|notes|pretty|shortlog|whatchanged|diffstat|help\.autocorrect)\..*
    | core\.(?:quotepath|autocrlf|longpaths|abbrev|filemode|ignorecase|precomposeunicode|eol|safecrlf|whitespace
        |compression|preloadindex|untrackedcache|symlinks|bare|sparsecheckout|sparsecheckoutcone|commentchar|checkstat
        |trustctime|logallrefupdates|sharedrepository|bigfilethreshold|packedgitlimit|packedgitwindowsize|loosecompression
        |deltabasecachelimit|protectntfs|protecthfs|splitindex|multipackindex|commitgraph|warnambiguousrefs|fscache|excludesfile
        |optionallocks|createobject|hidedotfiles)
    | (?:commit|tag)\.(?:gpgsign|verbose|cleanup|status|forcesignannotated) | gpg\.(?:format|mintrustlevel)
    | init\.defaultbranch | pull\.(?:rebase|ff|octopus|twohead) | push\.\w+ | branch\..*
    | merge\.(?:ff|conflictstyle|renames|renamelimit|log|stat|autostash|directoryrenames|verifysignatures|verbosity)
    | diff\.(?:algorithm|renames|renamelimit|noprefix|mnemonicprefix|context|interhunkcontext|colormoved\w*|statgraphwidth
        |submodule|suppressblankempty|wserrorhighlight|indentheuristic|relative|dirstat|ignoresubmodules|orderfile)
    | rebase\.(?:autosquash|autostash|stat|missingcommitscheck|updaterefs|abbreviatecommands|forkpoint|rebasemerges)
    | safe\.(?:directory|barerepository) | http\.(?:.*\.)?(?:version|postbuffer|lowspeedlimit|lowspeedtime|sslverify|extraheader
        |maxrequests|followredirects|useragent|proxyauthmethod|emptyauth|sslversion|sslcainfo|proxy)
    | protocol\.version | submodule\.(?:recurse|fetchjobs|active|propagatebranches) | transfer\.\w+ | receive\.\w+
    | remote\.(?:.*\.)?(?:url|pushurl|fetch|push|prune|prunetags|tagopt|mirror|skipdefaultupdate|skipfetchall|promisor
        |partialclonefilter|pushdefault)
    | format\.(?:pretty|signoff|numbered|thread|subjectprefix|outputdirectory|coverletter|useautobase|suffix)
    | lfs\.(?!.*customtransfer)(?!.*extension).* | credential\.(?:.*\.)?(?:username|usehttppath)
    | interactive\.singlekey | uploadpack\.allow\w+ | extensions\.\w+ | ssh\.variant | trace2\.\w+ | filter\..*\.required
    | showbranch\..* | worktree\.guessremote | sequencer\.\w+ | bundle\.\w+
    | difftool\.(?:prompt|trustexitcode) | mergetool\.(?:prompt|keepbackup|keeptemporaries|writetomerged)
    | difftool\..*\.trustexitcode | mergetool\..*\.(?:trustexitcode|keepbackup)
    """,
    re.VERBOSE,
)
# Settings that are harmless with these values.
_EDITORS: Final = (
    r"(?:true|:|cat|vim?|nvim|nano|emacs|emacsclient|ed|pico|micro|hx|(?:code|codium|cursor|subl|atom|zed)(?: --?(?:wait|w|n))*"
    r"|vim? -f|emacs -nw|emacsclient -t)"
)
_VALUES: Final = (
    (
        re.compile(r"core\.(?:editor|pager)|sequence\.editor|pager\..*"),
        re.compile(rf"{_EDITORS}?|less(?: -[A-Za-z]+)*|delta|true|false"),
    ),
    (re.compile(r"core\.(?:fsmonitor|askpass)"), re.compile(r"true|false|0|1|")),
    (re.compile(r"core\.hookspath"), re.compile(r"/dev/null|\.husky(?:/_)?|\.githooks|githooks|\.git/hooks|")),
    (
        re.compile(r"credential\.(?:.*\.)?helper"),
        re.compile(r"|store|osxkeychain|manager|manager-core|wincred|libsecret|cache(?: --timeout[= ]\d+)?"),
    ),
    (re.compile(r"(?:diff|merge)\.(?:tool|guitool)"), re.compile(r"\w+")),
    (
        re.compile(r"url\..*\.(?:insteadof|pushinsteadof)"),
        re.compile(r"(?:https?|git|ssh)://[\w./:@-]*|git@[\w./:-]*|gh:|gl:"),
    ),
    (re.compile(r"protocol\..*\.allow"), re.compile(r"never|user")),
    (re.compile(r"alias\..*"), re.compile(r"[\w][\w .,=%:/@^~-]*")),
)
# `ext::sh -c …` as an address: git starts the helper `git-remote-ext`.
_HELPER: Final = re.compile(r"[A-Za-z0-9+.-]*::.*", re.DOTALL)
_STRATEGIES: Final = frozenset({"ours", "recursive", "resolve", "octopus", "ort", "subtree", "theirs"})
_FLAGS_READING: Final = words_of(
    """
    -l --list --get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool
"""
)
_FLAGS_REMOVING: Final = frozenset({"--unset", "--unset-all", "--remove-section", "--rename-section"})


def is_dangerous_key(key: str, value: str | None) -> bool:
    """Return whether a setting of git (a value of None is unknown) may make git run a command."""
    low = key.lower()
    # "::" selects a remote helper wherever an address is expected.
    if low.startswith("gc.recent") or (value is not None and "::" in value):
        return True
    if _HARMLESS.fullmatch(low):
        return False
    if value is None:
        return True
    return not any(pattern.fullmatch(low) and values.fullmatch(value) for pattern, values in _VALUES)


def analyze_git(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `git`."""
    arguments = parse_and_apply(analysis, program, permutes=False)
    analysis.reads_only = bool(arguments.used) and not arguments.operands
    for used in arguments.used:
        # In a repository of the project, git's settings are judged by `permission.paths.git_config`.
        if used.name == "--git-dir" and not (exact_text(used.value) or "").endswith(".git"):
            analysis.mark_opaque("its repository may be any folder, with settings that execute commands")
    _set(analysis, arguments.used)
    operands = arguments.operands
    if not operands:
        return
    name = exact_text(operands[0])
    if name is None:
        analysis.mark_opaque("its command is unknown")
        return
    analyze_command(analysis, program, name, operands[1:])


def analyze_command(analysis: ProgramAnalysis, program: Program, name: str, words: Sequence[Argument]) -> None:
    """Analyze the arguments of a command of git."""
    below = program.commands.get(name)
    analysis.words, analysis.reads_only = words, False
    if below is None:
        # An alias may be any shell command (`alias.x = !rm`).
        analysis.mark_opaque(f"{name} is not a known command, and may be an alias")
        return
    analysis.name = f"git {name}"
    _refuse_helpers(analysis, words)
    if below.opaque:
        analysis.mark_opaque(below.opaque)
    if (inner := _select_inner(analysis, below)) is None:
        return
    arguments = parse_and_apply(analysis, inner)
    if name == "clone":
        _set(analysis, arguments.used)
    _check_strategy(analysis, arguments.used)
    if name == "config":
        _configure(analysis, arguments.used, arguments.operands)
        return
    analysis.changes = analysis.changes or _makes_name(name, arguments)
    apply_operands(analysis, inner, arguments.operands)
    add_files_shown(analysis, name, arguments)
    add_listing(analysis, name, arguments)
    if any(map(_uses_gpg, words)):
        analysis.changes = True
    # A command that changes something runs the repository's hooks.
    if analysis.changes or not analysis.reads_only:
        # Its hooks and settings.
        analysis.runs.append(analysis.resolve(".git"))


def _makes_name(name: str, arguments: Arguments) -> bool:
    """Return whether an operand is the name of a new branch or tag: it is, without an option that lists."""
    lists = any(used.option.role == "reading" for used in arguments.used)
    return name in {"branch", "tag"} and bool(arguments.operands) and not lists


def _select_inner(analysis: ProgramAnalysis, program: Program) -> Program | None:
    """Return the row of the innermost command, for instance of `git stash show`; None: unknown."""
    while program.commands:
        outer = parse_words(program, analysis.words, permutes=False)
        inner = exact_text(outer.operands[0]) if outer.operands else ""
        if inner is None:
            analysis.mark_opaque("its command is unknown")
            return None
        if inner not in program.commands:
            break
        apply_options(analysis, program, outer)
        analysis.words = outer.operands[1:]
        analysis.name = f"{analysis.name} {inner}"
        program = program.commands[inner]
    return program


def _uses_gpg(word: Argument) -> bool:
    """Return whether a word makes git run gpg, which writes files of its own."""
    text = exact_text(word) or ""
    return "%G" in text or "signature" in text


def _set(analysis: ProgramAnalysis, used: Sequence[UsedOption]) -> None:
    """Check the settings in the options."""
    for option in used:
        if option.name not in {"-c", "--config"} or option.option.takes != "value":
            continue
        text = option.value
        parts = split_assignment(text) if text is not None else None
        if parts is None:
            # `-c core.pager` without a value means true.
            # A setting without a value is true.
            if exact_text(text) is None or is_dangerous_key(text or "", "true"):
                analysis.mark_opaque("makes an unknown setting")
        elif is_dangerous_key(parts[0], None if exact_text(text) is None else parts[1]):
            analysis.mark_opaque(f"sets {parts[0]}, which may execute commands")


def _refuse_helpers(analysis: ProgramAnalysis, words: Sequence[Argument]) -> None:
    for word in words:
        # An address may be anywhere in the arguments.
        if word is not None and _HELPER.fullmatch(word) and not word.startswith("::"):
            analysis.mark_opaque("one of its addresses is reached through another program")


def _check_strategy(analysis: ProgramAnalysis, used: Sequence[UsedOption]) -> None:
    for option in used:
        is_strategy = option.name == "--strategy" or (option.name == "-s" and option.option.takes == "value")
        if is_strategy and exact_text(option.value) not in _STRATEGIES:
            analysis.mark_opaque("its strategy is another program")


def _configure(analysis: ProgramAnalysis, used: Sequence[UsedOption], operands: Sequence[Argument]) -> None:
    """Analyze the arguments of `git config`."""
    names = {option.name for option in used}
    verb = next((text for text in map(exact_text, operands[:1]) if text in _VERBS), None)
    words = operands if verb is None else operands[1:]
    if names & _FLAGS_READING or verb in {"list", "get"} or _is_lookup(names, verb, words):
        analysis.reads_only = not names & _CHANGING
        analysis.output.prints_names = False
        return
    analysis.changes = True
    if not names & {"--edit", "-e", *_FLAGS_REMOVING} and verb not in _VERBS_WITHOUT_VALUE and words:
        _set_key(analysis, *[*map(exact_text, words[:2]), ""][:2])


def _is_lookup(names: set[str], verb: str | None, words: Sequence[Argument]) -> bool:
    """Return whether `git config KEY` prints a setting."""
    return verb is None and len(words) == 1 and not names & _CHANGING


def _set_key(analysis: ProgramAnalysis, key: str | None, value: str | None) -> None:
    if key is None or is_dangerous_key(key, value):
        analysis.mark_opaque(f"sets {key or 'an unknown setting'}, which may execute commands")


_VERBS_WITHOUT_VALUE: Final = frozenset({"unset", "edit", "remove-section", "rename-section"})
_VERBS: Final = _VERBS_WITHOUT_VALUE | {"list", "get", "set"}
_CHANGING: Final = frozenset({"--add", "--replace-all", "--edit", "-e", *_FLAGS_REMOVING})
