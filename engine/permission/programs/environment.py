"""Which environment variables make programs run other code than their words say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from engine.permission.programs.tables.names import words_of

# Where programs and their parts are searched for, what the shell and the loader run or do before anything else,
# and programs that other programs start when they see fit.
_NAMES: Final = words_of(
    """
    PATH IFS ENV PS0 PS1 PS2 PS3 PS4 SHELL SHELLOPTS BASHOPTS PROMPT_COMMAND CDPATH FPATH HOME ZDOTDIR INPUTRC
    POSIXLY_CORRECT GLOBIGNORE HISTFILE EXECIGNORE PAGER EDITOR VISUAL FCEDIT BROWSER LESSOPEN LESSCLOSE LESS
    MANPATH MANOPT MANROFFSEQ TERMINFO TERMCAP LESSEDIT SUDO_ASKPASS SSH_ASKPASS SSH_ASKPASS_REQUIRE SUDO_EDITOR
    SYSTEMD_EDITOR RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS GREP_OPTIONS TAR_OPTIONS RSYNC_RSH
    RSYNC_CONNECT_PROG CVS_RSH SVN_SSH SVN_EDITOR HGEDITOR HGRCPATH HGMERGE CVSEDITOR TAPE_SUBSHELL GZIP XZ_OPT
    XZ_DEFAULTS NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE TS_NODE_COMPILER DENO_DIR BUN_OPTIONS CLASSPATH
    JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS JAVA_OPTS MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS SBT_OPTS ANT_OPTS
    ANT_ARGS JAVA_HOME KOTLIN_HOME SCALA_OPTS JRUBY_OPTS CATALINA_OPTS LEIN_JVM_OPTS MAKEFLAGS MFLAGS GNUMAKEFLAGS
    MAKEFILES MAKESHELL MAKE RUSTC RUSTDOC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTDOCFLAGS
    RUSTC_BOOTSTRAP GOFLAGS GOTOOLDIR GOROOT GOENV CGO_CFLAGS CGO_LDFLAGS GOTOOLCHAIN GOVCS COMPILER_PATH
    GCC_EXEC_PREFIX LIBRARY_PATH CPATH CC_WRAPPER LIBPATH SHLIB_PATH R_PROFILE R_PROFILE_USER R_ENVIRON
    R_ENVIRON_USER JULIA_LOAD_PATH JULIA_DEPOT_PATH LUA_INIT LUA_PATH LUA_CPATH AWKPATH AWKLIBPATH PHPRC
    PHP_INI_SCAN_DIR PHP_INI PSQLRC PSQL_EDITOR PSQL_PAGER MYSQL_HOME SQLITE_HISTORY DOCKER_HOST DOCKER_CONFIG
    DOCKER_CONTEXT KUBECONFIG KUBE_EDITOR KUBECTL_EXTERNAL_DIFF VIMINIT EXINIT VIM VIMRUNTIME NVIM_APPNAME MYVIMRC
    EMACSLOADPATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES WGETRC CURL_HOME NETRC GNUPGHOME GCONV_PATH NLSPATH
    LOCPATH MALLOC_TRACE RESOLV_HOST_CONF HOSTALIASES GETCONF_DIR NIS_PATH GTK_MODULES GTK_PATH QT_PLUGIN_PATH
    GIO_EXTRA_MODULES GST_PLUGIN_PATH GDK_PIXBUF_MODULE_FILE XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME
    XDG_DATA_DIRS ASAN_SYMBOLIZER_PATH MSAN_SYMBOLIZER_PATH LLVM_SYMBOLIZER_PATH TCLLIBPATH TCL_LIBRARY ERL_FLAGS
    ERL_AFLAGS ERL_ZFLAGS ERL_LIBS ELIXIR_ERL_OPTIONS GUILE_LOAD_PATH GEM_PATH GEM_HOME IRBRC DOTNET_STARTUP_HOOKS
    CORECLR_PROFILER CORECLR_PROFILER_PATH COR_PROFILER DOTNET_ADDITIONAL_DEPS ANSIBLE_CONFIG TERRAFORM_CONFIG
    TF_CLI_CONFIG_FILE DEBUGINFOD_URLS PKG_CONFIG_PATH CMAKE_PREFIX_PATH NIX_PATH ACLOCAL_PATH
    """
)
_BEGINNINGS: Final = (
    "LD_",
    "DYLD_",
    "BASH_",
    "GIT_",
    "PYTHON",
    "PERL",
    "RUBY",
    "BUNDLE_",
    "NPM_CONFIG_",
    "PNPM_",
    "YARN_",
    "COREPACK_",
    "PIP_",
    "UV_",
    "POETRY_",
    "PIPX_",
    "VIRTUALENV_",
    "CARGO_",
    "RUSTUP_",
    "CMAKE_",
    "CTEST_",
    "PHP_",
    "LESSKEY",
    "JULIA_",
    "LUA_PATH_",
    "LUA_CPATH_",
    "LUA_INIT_",
    "TF_CLI_ARGS",
    "COMPOSER_",
    "SSH_",
    "_RLD",
    "GLIBC_",
)
_ENDINGS: Final = ("PAGER", "EDITOR", "BROWSER", "ASKPASS", "_PRELOAD", "_LIBRARY_PATH", "_WRAPPER", "_LAUNCHER")
# Of these only a number, or one of a few words is ever read.
_HARMLESS: Final = words_of(
    """
    GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
    GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT GIT_ADVICE GIT_CURL_VERBOSE GIT_LFS_SKIP_SMUDGE
    GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_CEILING_DIRECTORIES GIT_PAGER_IN_USE GIT_TEST GIT_SHA GIT_COMMIT GIT_BRANCH
    GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS GIT_REV GIT_HASH GIT_TAG
    PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PYTHONOPTIMIZE
    PYTHONFAULTHANDLER PYTHONDEVMODE PYTHONASYNCIODEBUG PYTHONTRACEMALLOC PYTHONNOUSERSITE PYTHONSAFEPATH
    PYTHONVERBOSE PYTHON_VERSION PYTHON_COLORS PYTHON_GIL PYTHONMALLOC PYTHONPROFILEIMPORTTIME CARGO_TERM_COLOR
    CARGO_INCREMENTAL CARGO_NET_RETRY CARGO_NET_OFFLINE CARGO_BUILD_JOBS CARGO_TERM_PROGRESS_WHEN CARGO_TERM_VERBOSE
    CARGO_TERM_QUIET RUSTUP_MAX_RETRIES PIP_NO_CACHE_DIR PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT PIP_QUIET
    PIP_NO_COLOR PIP_DEFAULT_TIMEOUT PIP_ROOT_USER_ACTION PIP_PROGRESS_BAR PIP_VERBOSE PIP_BREAK_SYSTEM_PACKAGES
    UV_NO_CACHE UV_OFFLINE UV_FROZEN UV_LOCKED UV_NO_PROGRESS UV_NO_SYNC UV_SYSTEM_PYTHON UV_CONCURRENT_DOWNLOADS
    UV_NO_DEV UV_HTTP_TIMEOUT UV_THREADPOOL_SIZE POETRY_NO_INTERACTION POETRY_VIRTUALENVS_IN_PROJECT
    POETRY_VIRTUALENVS_CREATE POETRY_VERSION YARN_ENABLE_IMMUTABLE_INSTALLS YARN_VERSION YARN_SILENT
    YARN_ENABLE_COLORS YARN_ENABLE_TELEMETRY NPM_CONFIG_LOGLEVEL NPM_CONFIG_AUDIT NPM_CONFIG_FUND
    NPM_CONFIG_PROGRESS NPM_CONFIG_YES NPM_CONFIG_COLOR NPM_CONFIG_LEGACY_PEER_DEPS NPM_CONFIG_UPDATE_NOTIFIER
    NPM_CONFIG_IGNORE_SCRIPTS NPM_CONFIG_OFFLINE NPM_CONFIG_PREFER_OFFLINE PNPM_VERSION COMPOSER_NO_INTERACTION
    COMPOSER_ALLOW_SUPERUSER COMPOSER_MEMORY_LIMIT COMPOSER_PROCESS_TIMEOUT BUNDLE_JOBS BUNDLE_RETRY BUNDLE_FROZEN
    BUNDLE_WITHOUT RUBY_VERSION PERL_MM_USE_DEFAULT CMAKE_BUILD_PARALLEL_LEVEL CMAKE_BUILD_TYPE
    CMAKE_COLOR_DIAGNOSTICS CTEST_OUTPUT_ON_FAILURE CTEST_PARALLEL_LEVEL PHP_VERSION PHP_CS_FIXER_IGNORE_ENV
    """
)
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def is_dangerous_variable(name: str) -> bool:
    """Tell whether a program that gets this variable may run something else than its words say.

    What only a project's own programs read (`CI`, `NODE_ENV`, `DEBUG`, `API_URL`) is harmless. So are those that
    name a compiler (`CC`); `is_dangerous_setting`, which looks at the value, takes only a compiler for one.
    """
    upper = name.upper()
    if not _PLAIN.fullmatch(name):
        return True
    if upper in _HARMLESS:
        return False
    return upper in _NAMES or upper.startswith(_BEGINNINGS) or upper.endswith(_ENDINGS)


# Values of dangerous variables that are harmless all the same; each has to match as a whole.
_COMPILER: Final = (
    r"(?:ccache |sccache )?(?:[\w.]+-)*(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|cpp|ld|lld|gold|ar|as|nm|ranlib|strip|objcopy"
    r"|gfortran|nvcc|flex|lex|bison|yacc|install|tcc|icc|icx|musl-gcc)(?:-?\d+(?:\.\d+)*)?"
)
_COMPILERS: Final = words_of(
    """
    CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY FC F77 HOSTCC HOSTCXX CXXCPP OBJC NVCC LEX YACC INSTALL
    """
)
_NODE_FLAG: Final = (
    r"--(?:max[-_]old[-_]space[-_]size=\d+|max[-_]semi[-_]space[-_]size=\d+|no-warnings|no-deprecation|trace-warnings"
    r"|trace-deprecation|trace-uncaught|unhandled-rejections=\w+|experimental-vm-modules|openssl-legacy-provider"
    r"|enable-source-maps|experimental-strip-types|no-experimental-\w+|stack-trace-limit=\d+|throw-deprecation)"
)
_RUST_FLAG: Final = (
    r"(?:-[DWA] ?[\w:-]+|-C ?(?:target-cpu|opt-level|debuginfo|debug-assertions|overflow-checks|lto|panic|codegen-units"
    r"|instrument-coverage|strip)(?:=[\w-]+)?|--cfg[= ][\w=\"]+)"
)
_VALUES: Final[Mapping[str, str]] = {
    **dict.fromkeys(_COMPILERS, rf"(?:{_COMPILER})?"),
    **dict.fromkeys(
        words_of("PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER GH_PAGER AWS_PAGER PSQL_PAGER BAT_PAGER"),
        "(?:cat)?",
    ),
    **dict.fromkeys(words_of("EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR"), "true|:"),
    **dict.fromkeys(words_of("GIT_ASKPASS SSH_ASKPASS"), "true|false|/bin/true|/bin/false"),
    "NODE_OPTIONS": rf"(?:{_NODE_FLAG}(?: +{_NODE_FLAG})*)?",
    **dict.fromkeys(("RUSTFLAGS", "RUSTDOCFLAGS"), rf"(?:{_RUST_FLAG}(?: +{_RUST_FLAG})*)?"),
    "MAKEFLAGS": r"-?(?:j ?\d*|s|k|i)+|--(?:jobs=\d+|silent|no-print-directory)",
    "GOFLAGS": r"(?:-mod=\w+|-count=\d+|-race|-v|-trimpath|-buildvcs=\w+)(?: +(?:-mod=\w+|-v|-race))*",
    "GOTOOLCHAIN": r"local|auto|go[\d.]+",
    "GIT_TRACE": r"[012]|true|false",
    "LESS": r"-?[A-Za-z]+",
    "GREP_OPTIONS": r"--color=\w+",
    "IFS": r"[ \t\n,:;|]*",
    "SHELL": r"/bin/(?:ba|da)?sh|/usr/bin/bash",
}
_PATTERNS: Final = {name: re.compile(text) for name, text in _VALUES.items()}


def is_dangerous_setting(name: str, value: str | None) -> bool:
    """Tell whether a program that gets this variable with this value (None: unknown) may run something else."""
    pattern = _PATTERNS.get(name)
    if pattern is None:
        return is_dangerous_variable(name)
    return value is None or not pattern.fullmatch(value)
