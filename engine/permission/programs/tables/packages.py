"""Package managers, and the commands that they start.

What they print depends on a project's settings (`.npmrc` names a server, a `Gemfile` is a program), so none only reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

# It starts a command from the PATH or from its own folders.
_exec: Final = partial(Program, permutes=False, tail="command")
# It runs the program of a package, which its words name; where an option names the package, it may be any program.
_package: Final = partial(Program, permutes=False, strict=True)
_NPX: Final = _package(
    options="""-c=code --call=code -p=code --package=code -y --yes --no --no-install -q --quiet --prefer-online --offline
        -w= --workspace= --prefix=folder --registry= --cache= -g --bun -v --version"""
)
# It is a shell, which without a terminal reads commands from standard input.
_SHELL: Final = Program(opaque="starts a shell")
_PIP: Final = Program(
    options="""--python=program --log=writes -r=reads --requirement=reads -c=reads --constraint=reads -t=writes
        --target=writes -d=writes --dest=writes -w=writes --wheel-dir=writes --prefix=writes --root=writes --src=writes"""
)
_RUN: Final = """
    --with= --with-editable= --with-requirements=reads -p= --python= --env-file=reads --extra= --group= --only-group=
    --package= --directory=folder --project= --index-url= -i= --default-index= --index= --color= --no-sync --frozen --locked
    --isolated --active --offline -q -v -n --quiet --verbose --all-extras --no-dev --dev --no-project --no-config
    --all-groups --no-group= --no-extra= -U --upgrade --exact --no-cache --refresh --all-packages --no-env-file
"""

PACKAGES: Final[Mapping[str, Program]] = {
    "npm": Program(
        permutes=False,
        code_words=r"--(script-shell|node-options|shell|userconfig|globalconfig)\b.*",
        options="--prefix=folder -C=folder -w= --workspace= --loglevel= --registry=",
        commands={
            **rows("exec x", _NPX),
            # Some settings are programs.
            **rows(
                "config set c",
                Program(
                    code_words=r"(script-shell|shell|editor|browser|git|viewer|init-module|node-gyp|globalconfig|userconfig|node-options)\b.*",
                    options="-g --global --location= -L=",
                ),
            ),
            **rows("explore edit", Program(opaque="starts a command")),
        },
    ),
    **rows("npx bunx pnpx", _NPX),
    **rows(
        "yarn yarnpkg",
        Program(
            permutes=False,
            options="--cwd=folder --script-shell=code --use-yarnrc=code",
            commands={
                "exec": _exec(options="-s -q --silent"),
                "dlx": _package(options="-p=code --package=code -q --quiet"),
                "node": Program(opaque="starts node"),
            },
        ),
    ),
    "pnpm": Program(
        permutes=False,
        options="""-C=folder --dir=folder -F= --filter= --script-shell=code --node-options=code --reporter= --loglevel=""",
        commands={
            "exec": _exec(options="-r --recursive --parallel --resume-from= --filter= -F= -c!code --shell-mode!code"),
            "dlx": _package(options="-p=code --package=code -s --silent --allow-build="),
        },
    ),
    "bun": Program(
        permutes=False,
        options="-e=code --eval=code -p=code --print=code -r=runs --preload=runs --cwd=folder --config=code -c=code --filter= --env-file=reads",
        commands={"x": _NPX, "exec": Program(opaque="starts a command")},
    ),
    "pip": _PIP,
    "pipx": Program(
        permutes=False, commands={"run": _package(options="--python= --no-cache --pip-args= --index-url= -q -v")}
    ),
    "uv": Program(
        permutes=False,
        options="--directory=folder --project= --config-file=code --cache-dir= --color=",
        commands={
            "run": Program(
                strict=True,
                permutes=False,
                reader="uv_run",
                options=_RUN + " -m!changes --module!changes -s!changes --script!changes --gui-script",
            ),
            "pip": _PIP,
            "tool": Program(permutes=False, commands={"run": _package(options=_RUN + " --from=code")}),
        },
    ),
    "uvx": _package(options=_RUN + " --from=code -V --version -h --help"),
    "poetry": Program(
        permutes=False,
        options="-C=folder --directory=folder -P= --project=",
        commands={"run": _exec(), "shell": _SHELL},
    ),
    "pipenv": Program(permutes=False, options="--python=", commands={"run": _exec(), "shell": _SHELL}),
    **rows(
        "pdm rye",
        Program(
            permutes=False,
            options="-p=folder --project=folder -c=code --config=code",
            commands={"run": _exec(options="-s --site-packages -p=folder -v -q", strict=True)},
        ),
    ),
    "bundle": Program(permutes=False, commands={"exec": _exec(options="--keep-file-descriptors --gemfile=reads")}),
    "gem": Program(options="--config-file=code"),
    "rake": Program(
        options="""-e=code --execute=code -p=code --execute-print=code -E=code --execute-continue=code -r=runs -f=runs
            --rakefile=runs -R=code --libdir=code -C=folder --directory=folder -j="""
    ),
    "rails": Program(permutes=False, commands=rows("runner r", Program(opaque="runs inline code, or a file"))),
    "mix": Program(
        permutes=False,
        commands={
            "run": Program(options="-e=code --eval=code -r=runs --require=runs", permutes=False),
            "cmd": Program(opaque="starts a command"),
        },
    ),
    "composer": Program(
        permutes=False,
        options="-d=folder --working-dir=folder",
        commands={"exec": Program(opaque="starts a command")},
    ),
}
