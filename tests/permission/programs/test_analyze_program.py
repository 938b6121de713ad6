"""What programs do with their words: files, standard input, unknown words, places, and that nothing breaks the reader."""

import shlex
import time
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.permission.effects.program_effects import (
    FileAccess,
    ProgramEffects,
    ProgramInvocation,
    ShellText,
    StartedCommand,
    Stdin,
    UnknownInput,
    WordPrefix,
)
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.analyze_program import analyze_program
from engine.permission.programs.environment_variables import is_dangerous_setting, is_dangerous_variable
from engine.permission.programs.program_registry import (
    DEFAULT_REGISTRY,
    ProgramRegistry,
    extend_registry,
    find_contradictions,
    find_program_contradictions,
)
from engine.permission.programs.tables.option_spec import ArgumentParser, parse_options
from engine.permission.programs.tables.program_spec import Program

UNKNOWN = "?"


def words(line: str) -> tuple[Argument, ...]:
    """Return the words of a line; `?` is an unknown word, and `x?` one of which only the prefix `x` is known."""
    return tuple(
        None if word == UNKNOWN else WordPrefix(word[:-1]) if word.endswith(UNKNOWN) else word
        for word in shlex.split(line)
    )


def meaning(line: str, stdin: Stdin = None, registry: ProgramRegistry = DEFAULT_REGISTRY) -> ProgramEffects:
    return analyze_program(ProgramInvocation(argv=words(line), cwd="/p", home="/home/dev", stdin=stdin), registry)


def started(line: str, stdin: Stdin = None) -> StartedCommand | ShellText:
    [only] = meaning(line, stdin).starts
    return only


# ---- files -----------------------------------------------------------------------------------------------------------

TOUCHED = (
    ("cat a b", "r:a r:b"),
    ("cat -", ""),
    ("cp a b c", "r:a r:b w:c"),
    ("cp -t d a b", "w:d r:a r:b"),
    ("mv a b", "r:a w:a w:b"),
    ("ln -s /x y", "r:/x w:y"),
    ("rm -rf a /b", "w:a w:/b"),
    ("tee -a /out", "w:/out"),
    ("mkdir -p -m 755 a/b", "w:a/b"),
    ("chmod 644 f", "w:f"),
    ("chmod --reference=g f", "r:g w:f"),
    ("touch -r a b", "r:a w:b"),
    ("grep -rn x docs", "r:docs"),
    ("cut -d: -s /f", "r:/f"),
    ("fold -s -w 3 f", "r:f"),
    ("grep -e x f", "r:f"),
    ("grep -f list f", "r:list r:f"),
    ("rg x ..", "r:.."),
    ("rg --files /etc", "r:/etc"),
    ("jq . f", "r:f"),
    ("head -1 f", "r:f"),
    ("sort -o /out f", "w:/out r:f"),
    ("uniq a b", "r:a w:b"),
    ("curl -o out -T in http://h", "w:out r:in"),
    ("curl -fsSLo out http://h", "w:out"),
    ("wget -O out http://h", "w:out"),
    ("wget -P dir http://h", "w:dir"),
    ("tar -xf a.tar -C /other", "r:a.tar r:/other w:/other/."),
    ("tar xzf a.tgz -C /other", "r:a.tgz r:/other w:/other/."),
    ("tar czf /out.tgz src", "w:/out.tgz r:src"),
    ("tar tf a.tar", "r:a.tar"),
    ("tar -xOf a.tar", "r:a.tar"),
    ("unzip a.zip -d /other", "w:/other r:a.zip"),
    ("git -C ../x status", "r:../x"),
    ("git -C .. -C y log", "r:.. r:../y"),
    ("git clone u ../x", "w:../x"),
    ("git worktree add ../x", "w:../x"),
    ("git log --output=/out", "w:/out"),
    ("git diff --no-index /etc/a b", "r:/etc/a r:b"),
    ("make -C sub", "r:sub"),
    ("make -f /x/rules", "r:/x/rules"),
    ("rsync -a a/ h:b", "r:a/"),
    ("rsync -a h:a /b", "w:/b"),
    ("scp h:a /b", "w:/b"),
    ("scp a h:b", "r:a"),
    ("dd if=a of=/b bs=1", "r:a w:/b"),
    ("sed -i s/a/b/ f", "r:f w:f"),
    ("sed 'r /etc/x' f", "r:/etc/x r:f"),
    ("sed 'w out' f", "w:out r:f"),
    ("awk '{print > \"out\"}' f", "w:out r:f"),
    ("awk -f", ""),
    ("find /a b -name x", "r:/a r:b"),
    ("find /a -delete", "r:/a w:/a"),
    ("find . -fprint /out", "r:. w:/out"),
    ("split f /out", "r:f w:/out"),
    ("install -m 755 a /b", "r:a w:/b"),
    ("patch -i p", "r:p"),
    ("patch -d /other -i p", "r:/other r:/other/p"),
    ("gcc -o /out x.c", "w:/out"),
    ("sqlite3 /db 'select 1'", "r:/db w:/db"),
    ("python x.py", "r:x.py"),
    ("env -C /other ls", "r:/other"),
    ("time -o /out ls", "w:/out"),
    ("diff a /b", "r:a r:/b"),
    ("docker cp c:/x /out", "w:/out"),
)


@pytest.mark.parametrize(("line", "paths"), TOUCHED, ids=[line for line, _ in TOUCHED])
def test_file_arguments_are_listed(line: str, paths: str) -> None:
    effects = [f"{touched.access[0]}:{touched.path}" for touched in meaning(line).touches]
    assert effects == paths.split()


def test_unknown_file_has_no_path() -> None:
    assert meaning("rm ?").touches == (FileAccess(path=None, access="write"),)
    assert meaning("cat src/?").touches == (FileAccess(path=None, access="read"),)


def test_remote_paths_are_not_listed() -> None:
    assert started("docker exec c rm /x").remote
    assert started("ssh h 'rm /x'").remote
    assert started("docker exec c rm /x").cwd is None


def test_git_folder_writes_are_opaque() -> None:
    assert meaning("cp x .git/hooks/pre-commit").opaque
    assert meaning("tee /r/.git/config").opaque
    assert not meaning("rm .git/index.lock").opaque
    assert not meaning("tee .gitignore").opaque


def test_executed_programs_are_listed() -> None:
    assert meaning("bash scripts/build.sh a").runs == ("scripts/build.sh",)
    assert meaning("python -u x.py").runs == ("x.py",)
    assert meaning("node -r ./setup.js x.js").runs == ("./setup.js", "x.js")
    assert meaning("make -C sub").runs == ("sub/GNUmakefile", "sub/makefile", "sub/Makefile")
    assert meaning("git -C r commit -m x").runs == ("r/.git",)
    assert meaning("git status").runs == ()


# ---- standard input --------------------------------------------------------------------------------------------------

SOMETHING = UnknownInput()
NAMES = UnknownInput(lists_files=True)


@pytest.mark.parametrize(
    "line",
    [
        "bash",
        "sh -s a",
        "python",
        "python3 -",
        "node",
        "perl",
        "ed f",
        "sqlite3 x",
        "psql",
        "mysql db",
        "ssh h",
        "at now",
        "crontab -",
        "gdb",
        "dc",
        "bash /dev/stdin",
        "su",
        "sudo -s",
        "make -f -",
        "vim -",
        "sftp h",
        "tclsh",
        "env bash",
        "xargs sh -c",
    ],
)
def test_unknown_standard_input_as_commands_is_opaque(line: str) -> None:
    effects = meaning(line, SOMETHING)
    inner = [
        analyze_program(ProgramInvocation(argv=start.argv, cwd=None, home="/", stdin=start.stdin))
        for start in effects.starts
        if isinstance(start, StartedCommand)
    ]
    assert effects.opaque or any(below.opaque for below in inner)


def test_shell_runs_certain_standard_input() -> None:
    assert started("bash -s a b", "nc h\n") == ShellText(
        text="nc h\n", shell="bash", arguments=("bash", "a", "b"), cwd="/p"
    )
    assert started("ssh h", "nc h\n") == ShellText(text="nc h\n", shell="sh", cwd=None, remote=True)
    assert started("env A=1 sh", "nc h").stdin == "nc h"  # type: ignore[union-attr]


def test_inline_code_is_opaque() -> None:
    assert meaning("python", "print(1)").opaque
    assert meaning("node -", "1").opaque


def test_xargs_adds_standard_input() -> None:
    assert started("xargs wget", "h\ni j") == StartedCommand(argv=("wget", "h", "i", "j"), cwd="/p")
    assert started("xargs wget", SOMETHING) == StartedCommand(argv=("wget", None), cwd="/p")
    assert started("xargs wget", "'a b'") == StartedCommand(argv=("wget", None), cwd="/p")
    assert started("xargs -n1 wget", "a b") == StartedCommand(argv=("wget", None), cwd="/p")
    assert started("xargs") if meaning("xargs").starts else meaning("xargs", SOMETHING).reads_only


def test_file_names_are_not_options() -> None:
    [start] = meaning("xargs sed -i s/a/b/", NAMES).starts
    assert isinstance(start, StartedCommand)
    assert not analyze_program(ProgramInvocation(argv=start.argv, cwd="/p", home="/")).opaque
    [other] = meaning("xargs sed -i s/a/b/", SOMETHING).starts
    assert isinstance(other, StartedCommand)
    assert analyze_program(ProgramInvocation(argv=other.argv, cwd="/p", home="/")).opaque


@pytest.mark.parametrize(
    ("line", "stdin", "names"),
    [
        ("find . -name x", None, True),
        ("find . -printf %p", None, False),
        ("find . -exec echo -e {} ;", None, False),
        ("git ls-files", None, True),
        ("git diff --name-only", None, True),
        ("git diff", None, False),
        ("grep -rl x .", None, True),
        ("grep -r x .", None, False),
        ("rg -l x", None, True),
        ("grep -v x", NAMES, True),
        ("grep -o x", NAMES, False),
        ("grep -v x", SOMETHING, False),
        ("grep -v x f", NAMES, False),
        ("sort -u", NAMES, True),
        ("sort -u f", NAMES, False),
        ("head -5", NAMES, True),
        ("uniq -c", NAMES, False),
        ("cat", NAMES, True),
        ("./find .", None, False),
        ("git branch --show-current", None, True),
    ],
)
def test_prints_names(line: str, stdin: Stdin, names: bool) -> None:
    assert meaning(line, stdin).prints_names is names


# ---- unknown words ---------------------------------------------------------------------------------------------------

UNCERTAIN = (
    "tar cf x ?", "tar ?", "sort ?", "rg ? src", "rg x ?", "git ?", "git rebase ?", "git push origin ?", "git ? push", "find ?", "find . ?",
    "find ? -name x", "sed ?", "sed s/a/b/ ?", "awk ?", "sudo ?", "env ?", "env A? nc", "timeout ? ls", "xargs ?", "bash -c ?",
    "bash ?", "sh -c ls? x", "python ?", "ssh ?", "ssh h ?", "ssh h ls ?", "curl ?", "make ?", "docker run ?", "npx ?", "rsync -e ? a b",
    "man ?", "git -c ? log", "git -c core.pager=? log", "watch ?", "kubectl exec p -- ?", "cargo ?", "git config ? x", "git config core.pager ?",
    "sort -? f", "tar -? f", "uv run ?", "perl ?", "docker ?", "tar cf x --?", "git clone ? x", "zip x ?", "npm install ?", "split ?", "flock x ?",
)  # fmt: skip
CERTAIN = (
    "cat ?", "grep ? f", "grep x ?", "rm ?", "echo ?", "ls ?", "cp ? x", "git log -n ?", "git commit -m ?", "git add ?", "git checkout ?",
    "sort -- ?", "sort -k ? f", "rg -- ? src", "rg -e ?", "rg x src/?", "tar czf ? src", "tar czf x src/?", "find . -name ?", "find ./? -name x",
    "curl -H ? http://h", "make -j?", "make a?", "git -c user.name=? commit", "docker ps -f ?", "sed s/a/b/ f?",
    "sed -n p ./?", "git push origin a?", "head -n ? f", "git tag ?", "git rebase --onto=? x", "xargs grep ?", "python x.py ?",
    "bash x.sh ?", "ssh -p ? h ls", "timeout 5 ls ?", "cmake --build b -j?", "docker run -e A=? img ls", "git push origin -- ?", "awk 1 ?",
)  # fmt: skip


@pytest.mark.parametrize("line", UNCERTAIN)
def test_opaque_executing_unknown_word(line: str) -> None:
    assert meaning(line).opaque


@pytest.mark.parametrize("line", CERTAIN)
def test_harmless_unknown_word_is_not_opaque(line: str) -> None:
    assert not meaning(line).opaque


def test_unknown_word_may_be_a_writing_option() -> None:
    assert meaning("sort f").reads_only
    assert not meaning("tree ?").reads_only
    assert meaning("cat ?").reads_only


def test_unknown_program_name_is_opaque() -> None:
    assert meaning("?").opaque
    assert analyze_program(ProgramInvocation(argv=(), cwd=None, home="/")).opaque


# ---- places and names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["xargs", "/usr/bin/xargs", "./xargs", "../x/xargs", "xargs.exe", "XARGS.EXE"])
def test_danger_goes_by_base_name(name: str) -> None:
    assert started(f"{name} nc h").argv == ("nc", "h")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "reads"), [("cat", True), ("/bin/cat", True), ("./cat", False), ("/tmp/cat", False), ("bin/cat", False)]
)
def test_harmless_only_in_system_folders(name: str, reads: bool) -> None:
    assert meaning(f"{name} f").reads_only is reads


@pytest.mark.parametrize(
    "line",
    [
        "python3.11 -c 1",
        "python3 -c 1",
        "perl5.36.0 -e 1",
        "lua5.4 -e 1",
        "php8.2 -r 1",
        "gcc-12 -fplugin=x a.c",
        "clang++-15 -fplugin=x a.c",
        "pypy3 -c 1",
        "ruby3.0 -e 1",
        "awk 'BEGIN{system(1)}'",
        "git.exe -c core.pager=x log",
        "git-grep -Ox y",
    ],
)
def test_versioned_names_are_recognized(line: str) -> None:
    assert meaning(line).opaque


def test_unknown_program_is_ordinary_command() -> None:
    assert meaning("frobnicate -x --exec=y z") == ProgramEffects()


# ---- settings of the environment -------------------------------------------------------------------------------------

DANGEROUS = ["PATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PS4", "PROMPT_COMMAND", "SHELLOPTS", "GIT_SSH_COMMAND", "GIT_DIR", "GIT_PAGER", "PAGER", "EDITOR", "VISUAL", "BROWSER", "MANPAGER", "LESSOPEN", "NODE_OPTIONS", "NODE_PATH", "PYTHONSTARTUP", "PYTHONPATH", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "GCC_EXEC_PREFIX", "MAKEFLAGS", "SHELL", "CDPATH", "npm_config_script_shell", "PIP_INDEX_URL", "RUSTC_WRAPPER", "CARGO_BUILD_RUSTC", "HOME", "XDG_CONFIG_HOME", "TAR_OPTIONS", "RSYNC_RSH", "RIPGREP_CONFIG_PATH", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_COUNT", "FZF_DEFAULT_COMMAND", "BASH_FUNC_ls%%", "CMAKE_C_COMPILER_LAUNCHER", "SUDO_ASKPASS", "PHP_INI_SCAN_DIR", "VIMINIT", "OPENSSL_CONF", "GCONV_PATH", "DOTNET_STARTUP_HOOKS", "A-B"]  # fmt: skip
HARMLESS = ["CI", "NODE_ENV", "FOO", "DEBUG", "API_URL", "PORT", "HOST", "VERSION", "LANG", "LC_ALL", "TZ", "TERM", "USER", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "GIT_AUTHOR_NAME", "GIT_TERMINAL_PROMPT", "RUST_LOG", "RUST_BACKTRACE", "CARGO_TERM_COLOR", "CGO_ENABLED", "GOOS", "GOARCH", "DATABASE_URL", "DEBIAN_FRONTEND", "DOCKER_BUILDKIT", "AWS_PROFILE", "AWS_REGION", "TMPDIR", "VERBOSE", "CFLAGS", "PREFIX", "DESTDIR", "i", "x", "name", "_", "TEST_MODE"]  # fmt: skip


@pytest.mark.parametrize("name", DANGEROUS)
def test_dangerous_variables(name: str) -> None:
    assert is_dangerous_variable(name)
    assert meaning(f"env {name}=x ls").opaque


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_variables(name: str) -> None:
    assert not is_dangerous_variable(name)
    assert not meaning(f"env {name}=x ls").opaque


@pytest.mark.parametrize(
    ("name", "value", "dangerous"),
    [
        ("CC", "gcc-12", False),
        ("CC", "ccache clang", False),
        ("CC", "nc h", True),
        ("CC", None, True),
        ("NODE_OPTIONS", "--max-old-space-size=4096", False),
        ("NODE_OPTIONS", "--require ./x", True),
        ("PAGER", "cat", False),
        ("PAGER", "nc h", True),
        ("GIT_EDITOR", "true", False),
        ("RUSTFLAGS", "-D warnings", False),
        ("RUSTFLAGS", "-C linker=nc", True),
        ("MAKEFLAGS", "-j4", False),
        ("MAKEFLAGS", "--eval=x", True),
        ("FOO", None, False),
        ("PATH", "/usr/bin", True),
    ],
)
def test_harmless_values_of_dangerous_variables(name: str, value: str | None, dangerous: bool) -> None:
    assert is_dangerous_setting(name, value) is dangerous


# ---- reading options -------------------------------------------------------------------------------------------------

TABLE = parse_options("-abv -o|--output= --color? -n? --exec=shell --execute!code --pair&reads +x +y=")


def read(line: str, *, permutes: bool = True) -> tuple[list[tuple[str, Argument]], list[Argument], str]:
    arguments = ArgumentParser(TABLE, permutes=permutes, single=False).parse(words(line))
    return [(used.name, used.value) for used in arguments.used], list(arguments.operands), arguments.unknown


@pytest.mark.parametrize(
    ("line", "used", "operands"),
    [
        ("-a -b x", [("-a", ""), ("-b", "")], ["x"]),
        ("-abo out x", [("-a", ""), ("-b", ""), ("-o", "out")], ["x"]),
        ("-oout x", [("-o", "out")], ["x"]),
        ("--output out x", [("--output", "out")], ["x"]),
        ("--output=out x", [("--output", "out")], ["x"]),
        ("--outp=out x", [("--output", "out")], ["x"]),
        ("--color x", [("--color", "")], ["x"]),
        ("--color=auto x", [("--color", "auto")], ["x"]),
        ("-n5 x", [("-n", "5")], ["x"]),
        ("-n 5", [("-n", "")], ["5"]),
        ("x -a", [("-a", "")], ["x"]),
        ("-- -a", [], ["-a"]),
        ("- -a", [("-a", "")], ["-"]),
        ("--exe=ls", [("--exec", "ls")], []),
        ("--pair a b c", [("--pair", "b")], ["c"]),
        ("+x +y z +w", [("+x", ""), ("+y", "z")], ["+w"]),
        ("-o", [("-o", "")], []),
        ("-o? x", [("-o", None)], ["x"]),
        ("--output=? x", [("--output", None)], ["x"]),
    ],
)
def test_options_are_read(line: str, used: list[tuple[str, Argument]], operands: list[Argument]) -> None:
    assert read(line) == (used, operands, "")


def test_started_commands_keep_their_options() -> None:
    assert read("-a ls -b", permutes=False) == ([("-a", "")], ["ls", "-b"], "")


def test_unknown_option_is_named() -> None:
    assert read("-aq --what x")[2] == "-q"


@pytest.mark.parametrize("notation", ["x", "-a -a=", "-a=what", "--", "-", "-a|b", "-a=reads=x"])
def test_invalid_notation_is_refused(notation: str) -> None:
    with pytest.raises(ValueError, match=r"option|role"):
        Program(options=notation).validate()
    with pytest.raises(ValueError, match=r"option|role"):
        Program(operands="what").validate()


# ---- what users add --------------------------------------------------------------------------------------------------


def from_toml(text: str) -> ProgramRegistry:
    return extend_registry(tomllib.loads(text).get("programs", {}))


def test_configuration_adds_a_program() -> None:
    registry = from_toml(
        """
        [programs.deploy]
        options = "-q -c|--config=reads --hook=shell"
        operands = "plain"
        tail = "command"
        permutes = false
        strict = true
        arity = 2
        [programs.peek]
        reading = "free"
        code_words = "@.*"
        [programs.k]
        like = "kubectl"
        [programs.k.commands.shell]
        opaque = "starts a shell"
        """
    )
    assert meaning("deploy -q -c x --hook 'nc h' there nc i", registry=registry) == ProgramEffects(
        starts=(
            ShellText(text="nc h", shell="sh", cwd="/p"),
            StartedCommand(argv=("nc", "i"), cwd="/p"),
        ),
        touches=(FileAccess(path="x", access="read"),),
    )
    assert meaning("deploy -z there ls", registry=registry).opaque == "its option -z is unknown"
    assert meaning("peek x", registry=registry).reads_only
    assert meaning("peek x @y", registry=registry).opaque == "@y may make it execute any command"
    assert meaning("k exec p -- nc", registry=registry).starts
    assert meaning("k shell", registry=registry).opaque == "shell: starts a shell"
    assert registry.arity_of(("deploy", "there")) == 2
    assert meaning("deploy x nc") == ProgramEffects()


BROKEN = (
    ('[programs.x]\nwhat = 1', "programs.x.what: there is no such key"),
    ('[programs.x]\noptions = 1', "programs.x.options: this has to be a string"),
    ('[programs.x]\noptions = "x"', "programs.x: an option begins with a dash"),
    ('[programs.x]\noptions = "-a=what"', "programs.x: an option is written"),
    ('[programs.x]\noptions = "-a -a=reads"', "programs.x: the option -a has two meanings"),
    ('[programs.x]\noperands = "what"', "programs.x: 'what' is not a role"),
    ('[programs.x]\ncode_words = "("', "programs.x: code_words is no regular expression"),
    ('[programs.x]\nstrict = 1', "programs.x.strict: this has to be true or false"),
    ('[programs.x]\ntail = "what"', "programs.x.tail: this has to be one of"),
    ('[programs.x]\nlike = "what"', "programs.x.like: there is no program 'what'"),
    ('[programs.x]\narity = 0', "programs.x.arity: this has to be a number of words"),
    ('[programs.x]\narity = true', "programs.x.arity: this has to be a number of words"),
    ('[programs.x]\nwithout_first = "-e"', "programs.x: the option -e is not among the options"),
    ('[programs]\nx = 1', "programs.x: this has to be a table"),
    ('[programs.x]\ncommands = 1', "programs.x.commands: this has to be a table"),
    ('[programs.x.commands]\ny = 1', "programs.x.commands.y: this has to be a table"),
    ('[programs.x.commands.y]\nwhat = 1', "programs.x.commands.y.what: there is no such key"),
    ('[programs."/bin/x"]\nreading = "free"', "programs./bin/x: name a program without its folder"),
    ('[programs.x]\nreading = "free"\nopaque = "?"', "programs.x: it only reads, and it is opaque"),
    ('[programs.x]\ntail = "command"\noptions = "-a="', "programs.x: options of the command that it starts would be taken"),
    ('[programs.x]\noptions = "-a!shell"', "programs.x: -a takes no value, so it can't be shell"),
    ('[programs.x]\ntail = "command"\npermutes = false\noperands = "reads*"', "leaves no words for the tail"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BROKEN, ids=[problem for _, problem in BROKEN])
def test_invalid_configuration_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_toml(text)
    assert problem in str(caught.value)


def test_tables_are_valid() -> None:
    assert find_contradictions(DEFAULT_REGISTRY) == []


def test_contradictions_are_reported() -> None:
    odd = ProgramRegistry(
        {
            **DEFAULT_REGISTRY.programs,
            "odd": Program(options="-exec= --exec=shell", dashes="single", commands={"-x": Program()}),
        },
        {**DEFAULT_REGISTRY.arity, ("git", "x", "y"): 2, ("git", "push"): 2},
    )
    assert list(find_program_contradictions(odd, "odd")) == [
        "programs.odd: -exec and --exec differ: only one of them is marked as executing something",
        "programs.odd.commands.-x: a command can't begin with a dash",
    ]
    assert find_contradictions(odd)[2:] == [
        "git x y: its arity is less than its own words",
        "git x y: its arity adds nothing to that of git x",
        "git push: its arity adds nothing to that of git",
    ]


# ---- any arguments ---------------------------------------------------------------------------------------------------

_PARTS = [
    "-",
    "--",
    "=",
    "e",
    "-e",
    "-c",
    "x",
    "{}",
    ";",
    "+",
    "!",
    "|",
    "'",
    '"',
    "\\",
    "\n",
    "/",
    "system(",
    "print > ",
    "s/a/b/",
    "exec=",
    "A=1",
    "::",
]
# What these start is judged by itself.
PASSING_ON = {"arch", "env", "find", "gfind", "ionice", "nice", "stdbuf", "time", "timeout", "xargs"}
_TEXT = st.lists(st.sampled_from(_PARTS), max_size=4).map("".join) | st.text(max_size=6)
_OPTIONS = sorted({option for program in DEFAULT_REGISTRY.programs.values() for option in program.table})
_WORD = _TEXT | st.sampled_from(_OPTIONS) | st.none() | _TEXT.map(WordPrefix)
_STDIN = st.none() | st.just(UnknownInput()) | st.just(UnknownInput(lists_files=True)) | _TEXT


@pytest.mark.slow
@settings(max_examples=15 * settings().max_examples)
@given(
    st.sampled_from(sorted(DEFAULT_REGISTRY.programs)),
    st.lists(_WORD, max_size=9),
    _STDIN,
    st.sampled_from(["/p", None]),
)
def test_analysis_never_raises(name: str, rest: list[Argument], stdin: Stdin, cwd: str | None) -> None:
    invocation = ProgramInvocation(argv=(name, *rest), cwd=cwd, home="/h", stdin=stdin)
    effects = analyze_program(invocation)
    assert effects == analyze_program(invocation)
    if effects.reads_only:
        assert (effects.opaque, effects.runs) == ("", ())
        assert not effects.starts or name in PASSING_ON
        assert all(touched.access == "read" for touched in effects.touches)
    for start in effects.starts:
        if isinstance(start, StartedCommand):
            assert isinstance(start.argv[0], str)
            assert not isinstance(start.argv[0], WordPrefix)


LONG = (
    ("sed", *["-e", "s/a/b/"] * 4000),
    ("sed", "a x\n" * 8000),
    ("sed", "s/[" + "a" * 30000 + "]/b/"),
    ("sed", "s/" + "[" * 30000),
    ("awk", "{print $1}" * 3000),
    ("awk", "{print > " + "(" * 20000),
    ("awk", "/" * 30000 + "|"),
    ("awk", '"' * 30001 + "|"),
    ("awk", "getline;" * 5000 + "<"),
    ("find", *["-name", "x", "-o"] * 4000),
    ("find", *["-exec", "ls", "{}", ";"] * 3000),
    ("find", *["."] * 5000, *["-delete"] * 5000),
    ("git", *["-c", "user.name=x"] * 4000, "log"),
    ("git", "-c", "http." + "a." * 10000 + "x=y", "log"),
    ("git", "config", "remote." + "a" * 20000, "b"),
    ("tar", *["-C", "x"] * 4000),
    ("env", *["A=1"] * 9000, "ls"),
    ("xargs", *["-n1"] * 9000, "ls"),
    ("cat", *["x"] * 20000),
    ("rg", *["--unknown-option"] * 9000),
    ("bash", *["-x"] * 9000, "-c", "ls"),
    ("make", *["A=1"] * 9000),
    ("sqlite3", "x", ".tables\n" * 9000),
    ("ssh", *["-o", "User=x"] * 4000, "h"),
    ("psql", "-c", "\\d " + "x " * 20000 + "!"),
    ("env", "-S", "a " * 20000),
)


@pytest.mark.parametrize("argv", LONG, ids=[" ".join(argv)[:30] for argv in LONG])
def test_analysis_time_is_linear(argv: tuple[str, ...]) -> None:
    start = time.process_time()
    analyze_program(ProgramInvocation(argv=argv, cwd="/p", home="/h"))
    # A step for each character takes a few hundredths of a second; the square of that would take minutes.
    assert time.process_time() - start < 2
