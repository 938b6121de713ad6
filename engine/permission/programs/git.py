"""What `git` does: its settings, its transports, and the commands that it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from engine.permission.effects.scan_result import Word
from engine.permission.programs.analysis import Study, known, split_assignment
from engine.permission.programs.names import words_of
from engine.permission.programs.option_spec import Used
from engine.permission.programs.program_spec import Program

# Settings that execute nothing, as patterns over the whole name in small letters; a middle part may be anything.
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
# Others that are harmless with these values.
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
_HELPER: Final = re.compile(r"[A-Za-z0-9+.-]*::.*", re.DOTALL)
_STRATEGIES: Final = frozenset({"ours", "recursive", "resolve", "octopus", "ort", "subtree", "theirs"})
_FLAGS_READING: Final = words_of(
    """
    -l --list --get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool
"""
)
_FLAGS_REMOVING: Final = frozenset({"--unset", "--unset-all", "--remove-section", "--rename-section"})


def is_dangerous_key(key: str, value: str | None) -> bool:
    """Tell whether a setting of git (its value None: unknown) may make git run something."""
    low = key.lower()
    if low.startswith("gc.recent") or (value is not None and "::" in value):
        return True
    if _HARMLESS.fullmatch(low):
        return False
    if value is None:
        return True
    return not any(pattern.fullmatch(low) and values.fullmatch(value) for pattern, values in _VALUES)


def follow_git(study: Study, program: Program) -> None:
    """Read the words of `git`."""
    arguments = study.read(program, permutes=False)
    study.judge(program, arguments)
    study.reads_only = bool(arguments.used) and not arguments.operands
    for used in arguments.used:
        if used.name == "--git-dir" and not (known(used.value) or "").endswith(".git"):
            study.give_up("its repository may be any folder, with settings that execute something")
    _set(study, arguments.used)
    operands = arguments.operands
    if not operands:
        return
    name = known(operands[0])
    if name is None:
        study.give_up("its command is not known")
        return
    follow_command(study, program, name, operands[1:])


def follow_dashed(study: Study, program: Program) -> None:
    """Read the words of a program such as `git-grep`."""
    name = (known(study.given.argv[0]) or "").rpartition("/")[2].removeprefix("git-").removesuffix(".exe")
    study.name = "git"
    follow_command(study, program, name, study.words)


def follow_command(study: Study, program: Program, name: str, words: Sequence[Word]) -> None:
    """Read the words of a command of git."""
    below = program.commands.get(name)
    study.words = words
    study.reads_only = False
    if below is None:
        study.give_up(f"{name} is no command that is known, and may be an alias")
        return
    study.name = f"git {name}"
    _refuse_helpers(study, words)
    if below.opaque:
        study.give_up(below.opaque)
    while below.commands:
        outer = study.read(below, permutes=False)
        inner = known(outer.operands[0]) if outer.operands else ""
        if inner is None:
            study.give_up("its command is not known")
            return
        if inner not in below.commands:
            break
        study.judge(below, outer)
        study.words = outer.operands[1:]
        study.name = f"{study.name} {inner}"
        below = below.commands[inner]
    arguments = study.read(below)
    study.judge(below, arguments)
    if name == "clone":
        _set(study, arguments.used)
    _check_strategy(study, arguments.used)
    if name == "config":
        _configure(study, arguments.used, arguments.operands)
        return
    study.finish(below, arguments.operands)
    if any(used.name == "--no-index" for used in arguments.used):
        for operand in arguments.operands:
            study.touch(operand, "read")
    if any(known(word) is not None and _signs(known(word) or "") for word in words):
        study.changes = True
    if study.changes or not study.reads_only:
        # Its hooks and settings.
        study.runs.append(study.inside(".git"))


def _signs(text: str) -> bool:
    """Tell whether a word makes git ask gpg, which writes files of its own."""
    return "%G" in text or "signature" in text


def _set(study: Study, used: Sequence[Used]) -> None:
    """Look at the settings that options make."""
    for option in used:
        if option.name not in {"-c", "--config"} or option.option.takes != "value":
            continue
        text = option.value
        parts = split_assignment(text) if text is not None else None
        if parts is None:
            # Without a value it is a switch.
            if known(text) is None or is_dangerous_key(text or "", "true"):
                study.give_up("makes a setting that is not known")
        elif is_dangerous_key(parts[0], None if known(text) is None else parts[1]):
            study.give_up(f"sets {parts[0]}, which may execute something")


def _refuse_helpers(study: Study, words: Sequence[Word]) -> None:
    for word in words:
        if word is not None and _HELPER.fullmatch(word) and not word.startswith("::"):
            study.give_up("an address of its is reached by another program")


def _check_strategy(study: Study, used: Sequence[Used]) -> None:
    for option in used:
        is_strategy = option.name == "--strategy" or (option.name == "-s" and option.option.takes == "value")
        if is_strategy and known(option.value) not in _STRATEGIES:
            study.give_up("its strategy is another program")


def _configure(study: Study, used: Sequence[Used], operands: Sequence[Word]) -> None:
    """Look at what `git config` does."""
    names = {option.name for option in used}
    words = list(operands)
    verb = known(words[0]) if words else None
    if verb in {"list", "get", "set", "unset", "edit", "remove-section", "rename-section"}:
        words = words[1:]
    else:
        verb = None
    if (
        names & _FLAGS_READING
        or verb in {"list", "get"}
        or (verb is None and len(words) == 1 and not names & _CHANGING)
    ):
        study.reads_only = not names & _CHANGING
        study.prints_names = False
        return
    study.changes = True
    if (
        names & _FLAGS_REMOVING
        or verb in {"unset", "edit", "remove-section", "rename-section"}
        or "--edit" in names
        or "-e" in names
    ):
        return
    if not words:
        return
    key = known(words[0])
    value = known(words[1]) if len(words) > 1 else ""
    if key is None or is_dangerous_key(key, value):
        study.give_up(f"sets {key or 'what is not known'}, which may execute something")


_CHANGING: Final = frozenset({"--add", "--replace-all", "--edit", "-e", *_FLAGS_REMOVING})
