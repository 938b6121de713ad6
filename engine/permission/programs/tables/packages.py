"""Package managers: what they install, and the commands that they start."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import attrs

from engine.permission.programs.tables.program_spec import Program, rows

_PLAIN: Final = Program()
_reading: Final = partial(Program, reading="free")
# It starts a command from the PATH or from its own folders.
_exec: Final = partial(Program, permutes=False, tail="command")

# Commands that query a registry are excluded: a project's `.npmrc` selects the registry, and the keys it receives.
_NPM_READING: Final = "ls list ll la why explain root prefix bin"
_NPM: Final = Program(
    permutes=False,
    options="--prefix=folder -C=folder -w= --workspace= --loglevel= --registry= --script-shell=code --node-options=code --shell=code --userconfig=code --globalconfig=code -g -s -d -q --silent --global --workspaces -y --yes --no-audit",
    commands={
        **rows(
            "exec x",
            Program(
                options="-c=shell --call=shell -p= --package= -y --yes --no -w= --workspace= --workspaces --prefix=folder",
                permutes=False,
                reader="npx",
            ),
        ),
        **dict.fromkeys(_NPM_READING.split(), _reading()),
        **rows(
            """install i ci add update up upgrade uninstall remove rm un link unlink publish pack run run-script test t
tst start stop restart init create version audit fund dedupe prune rebuild cache config set get login
logout dist-tag token access deprecate owner team doctor help shrinkwrap star completion docs repo bugs
home ci it cit install-test install-ci-test query sbom pkg diff
view info show outdated search ping whoami""",
            Program(
                options="--script-shell=code --node-options=code --prefix= -w= --workspace= --registry= --tag= --otp= --loglevel= --omit= --include= --userconfig=code --globalconfig=code --shell=code -DEgOPSsyfdq --save-dev --silent --if-present --force --legacy-peer-deps --global --production --save --save-exact --no-save --ignore-scripts --dry-run --json --depth= --no-audit --no-fund --prefer-offline --workspaces"
            ),
        ),
        **rows("config set c", Program(reader="npm_config", options="-g --global --location= -L= --json")),
        "explore": Program(permutes=False, options="--shell=code", operands="plain", tail="command"),
        "edit": Program(options="--editor=code"),
    },
)
_NPX: Final = Program(
    reader="npx",
    permutes=False,
    options="-c=shell --call=shell -p= --package= -y --yes --no --no-install -q --quiet --ignore-existing --prefer-online --offline -w= --workspace= --prefix=folder --registry= --node-options=code -n=code --node-arg=code --shell=code --script-shell=code -s=code --shell-auto-fallback? --userconfig=code --cache= -g --bun -v --version",
)
_YARN: Final = Program(
    permutes=False,
    options="--cwd=folder -s --silent --verbose --script-shell=code --use-yarnrc=code",
    commands={
        # A project's `.yarnrc` names the program that runs instead.
        **rows("list info why outdated versions", _PLAIN),
        "exec": _exec(options="-s -q --silent"),
        "dlx": Program(permutes=False, options="-p= --package= -q --quiet", reader="npx"),
        "run": Program(permutes=False, options="--script-shell=code"),
        "node": _exec(options="", started="node"),
        "workspaces": _PLAIN,
        "workspace": _PLAIN,
    },
)
_PNPM: Final = Program(
    permutes=False,
    options="-C=folder --dir=folder -F= --filter= --script-shell=code -r --recursive -w --workspace-root -s --silent --shell-emulator --node-options=code --parallel --stream --reporter= --loglevel=",
    commands={
        # It runs a project's `.pnpmfile.cjs`.
        **rows("list ls ll why outdated", _PLAIN),
        "exec": _exec(
            options="-r --recursive --parallel -c --shell-mode --no-reporter-hide-prefix --resume-from= --filter= -F="
        ),
        "dlx": Program(
            permutes=False, options="-p= --package= -c --shell-mode -s --silent --allow-build=", reader="npx"
        ),
        "create": _PLAIN,
    },
)
_BUN: Final = Program(
    permutes=False,
    options="-e=code --eval=code -p=code --print=code -r=runs --preload=runs --cwd=folder --config=code -c=code --shell= --watch --hot -b --bun --silent --version!reading -v!reading --filter= --env-file=reads --inspect?",
    commands={
        **rows("x", _NPX),
        "run": Program(
            permutes=False,
            options="--bun -b --silent --shell= --filter= --cwd=folder --watch --hot -e=code --eval=code --preload=runs -r=runs",
        ),
        **rows(
            """install i add a remove rm update test build pm init create link unlink upgrade publish outdated audit
repl patch info why""",
            _PLAIN,
        ),
        "exec": Program(permutes=False, operands="shell"),
    },
)
_PIP: Final = Program(
    permutes=False,
    options="--python=program --isolated -q -v --quiet --verbose --no-input --proxy= --cert=reads --log=writes --cache-dir= --disable-pip-version-check --no-color -V --version",
    commands={
        **rows("list show freeze check index debug inspect help", _reading()),
        **rows(
            "install uninstall download wheel config cache search completion hash lock",
            Program(
                options="-r=reads --requirement=reads -c=reads --constraint=reads -t=writes --target=writes -d=writes --dest=writes -w=writes --wheel-dir=writes -e= --editable= -i= --index-url= --extra-index-url= -f= --find-links= --prefix=writes --root=writes --src=writes --python=program -U -q -v -I -y"
            ),
        ),
    },
)
_RUN: Final = "--with= --with-editable= --with-requirements=reads -p= --python= --env-file=reads --extra= --group= --only-group= --package= --directory=folder --project= --index-url= -i= --default-index= --index= --color= --config-file=code --cache-dir= --no-sync --frozen --locked --isolated --active --offline -q -v -n --quiet --verbose --all-extras --no-dev --dev --no-project --no-config --all-groups --no-group= --no-extra= --reinstall -U --upgrade --exact --no-cache --refresh --native-tls --allow-insecure-host= --prerelease= --resolution= --link-mode= --python-preference= --managed-python --all-packages --no-env-file"
_UV: Final = Program(
    permutes=False,
    options="--directory=folder --project= --config-file=code --cache-dir= --color= -q -v -n --quiet --verbose --offline --no-cache --no-config --native-tls --no-progress --python-preference= --allow-insecure-host= -V --version -h --help",
    commands={
        "run": Program(
            strict=True,
            permutes=False,
            reader="uv_run",
            options=_RUN + " -m!changes --module!changes -s!changes --script!changes --gui-script",
        ),
        "tool": Program(
            permutes=False,
            commands={
                "run": Program(strict=True, permutes=False, reader="npx", options=_RUN + " --from="),
                "list": _reading(),
                **rows("install uninstall upgrade update-shell dir", _PLAIN),
            },
        ),
        # It runs the interpreter of a project's `.venv`, even for a command that only reads.
        "pip": attrs.evolve(
            _PIP, commands={**_PIP.commands, **rows("list show freeze check index debug inspect help", _PLAIN)}
        ),
        **rows(
            """add remove sync lock export tree init version venv python cache self build publish help auth format""",
            _PLAIN,
        ),
    },
)
# It is a shell, which without a terminal reads commands from standard input.
_SHELL: Final = Program(reader="shell_from_stdin")
_POETRY: Final = Program(
    permutes=False,
    options="-C=folder --directory=folder -P= --project= -q -v -vv -vvv --no-interaction -n --no-plugins --no-cache --ansi --no-ansi --version -V",
    commands={
        "run": _exec(options=""),
        # It runs the interpreter of a project's `.venv`.
        **rows("show check about list search", _PLAIN),
        **rows(
            """install add remove update build publish init new lock config env export version cache self source""",
            _PLAIN,
        ),
        "shell": _SHELL,
    },
)
_running: Final = Program(
    permutes=False,
    commands={"run": _exec(options="-s --silent -v --verbose -q --quiet -p= --project= --no-site-packages --venv=")},
)
PACKAGES: Final[Mapping[str, Program]] = {
    "npm": _NPM,
    "npx": _NPX,
    "bunx": _NPX,
    "pnpx": _NPX,
    "yarn": _YARN,
    "yarnpkg": _YARN,
    "pnpm": _PNPM,
    "bun": _BUN,
    "corepack": Program(
        permutes=False,
        commands={
            **rows("enable disable prepare use install up pack hydrate cache", _PLAIN),
            "npm": _NPM,
            "yarn": _YARN,
            "pnpm": _PNPM,
        },
    ),
    "pip": _PIP,
    "pipx": Program(
        permutes=False,
        commands={
            "run": Program(
                permutes=False,
                reader="npx",
                options="--spec= --python= --no-cache --path --pypackages --pip-args= --index-url= -q -v --system-site-packages",
            ),
            "runpip": _PLAIN,
            "list": _reading(),
        },
    ),
    "uv": _UV,
    "uvx": Program(strict=True, permutes=False, reader="npx", options=_RUN + " --from= -V --version -h --help"),
    "poetry": _POETRY,
    "pipenv": Program(
        permutes=False,
        options="--python= -q -v --bare --clear --where --venv --rm",
        commands={"run": _exec(options="-q -v --quiet"), "install": _PLAIN, "shell": _SHELL},
    ),
    "pdm": Program(
        permutes=False,
        options="-p=folder --project=folder -q -v -c=code --config=code -I",
        commands={"run": _exec(options="-s --site-packages -p=folder -v -q --no-isolation")},
    ),
    "rye": _running,
    "hatch": Program(
        permutes=False,
        options="-e= --env= -p= -v -q --verbose --quiet --data-dir= --cache-dir= --config=code",
        commands={"run": Program(permutes=False, tail="shell"), "shell": _SHELL},
    ),
    "conda": Program(
        permutes=False,
        commands={
            "run": Program(
                strict=True,
                permutes=False,
                options="-n= --name= -p= --prefix= --cwd=folder -v --verbose --no-capture-output --live-stream --dev --debug-wrapper-scripts",
                tail="command",
            ),
            "list": _reading(),
            "info": _reading(),
        },
    ),
    "mamba": Program(
        permutes=False,
        commands={
            "run": Program(
                strict=True,
                permutes=False,
                options="-n= --name= -p= --prefix= --cwd=folder --no-capture-output --live-stream -a=",
                tail="command",
            )
        },
    ),
    "micromamba": Program(
        permutes=False,
        commands={
            "run": Program(
                strict=True,
                permutes=False,
                options="-n= --name= -p= --prefix= --cwd=folder --no-capture-output --live-stream -a= -r= -e=sets",
                tail="command",
            )
        },
    ),
    "bundle": Program(
        permutes=False,
        commands={
            "exec": _exec(options="--keep-file-descriptors --gemfile=reads"),
            # A `Gemfile` is a program.
            **rows("list show info outdated check platform", _PLAIN),
            **rows(
                """install update add remove init lock cache clean config doctor gem open binstubs package viz pristine""",
                _PLAIN,
            ),
        },
    ),
    "bundler": Program(permutes=False, commands={"exec": _exec(options="--keep-file-descriptors")}),
    "gem": Program(options="--config-file=code"),
    "rake": Program(
        options="-e=code --execute=code -p=code --execute-print=code -E=code --execute-continue=code -r=runs -f=runs --rakefile=runs -R=code --libdir=code -C=folder --directory=folder -j= -n -P -T? -AvqsW? --tasks? --trace?"
    ),
    "rails": Program(
        permutes=False,
        commands={**rows("runner r", Program(permutes=False, opaque="runs inline code, or a file"))},
    ),
    "mix": Program(
        permutes=False,
        commands={
            "run": Program(options="-e=code --eval=code -r=runs --require=runs", permutes=False),
            "cmd": _exec(options="--cd=folder --app= --shell"),
        },
    ),
    "composer": Program(
        permutes=False,
        options="-d=folder --working-dir=folder -n -q -v",
        commands={
            "exec": _exec(options="-l --list"),
            # It runs a project's plugins.
            **rows("show info outdated why validate licenses", _PLAIN),
        },
    ),
}
