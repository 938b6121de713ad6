"""Build tools, compilers, test runners and linters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_PLAIN: Final = Program()
_reading: Final = partial(Program, reading="free")
# It starts a command from the PATH or from its own folders.
_exec: Final = partial(Program, permutes=False, tail="command")

_CARGO: Final = Program(
    permutes=False,
    options="--config=code -Z= -C=folder --color= -v -q -vv --frozen --locked --offline --list -V --version",
    commands={
        **rows(
            """tree metadata search pkgid version locate-project verify-project info read-manifest help""",
            # A project's `.cargo/config.toml` and `rust-toolchain.toml` select the compiler, even for a command that only reads.
            Program(options="--config=code"),
        ),
        **rows(
            """build b check c test t run r bench doc d clean new init add remove rm update install uninstall publish
fmt clippy fix package vendor fetch owner yank login logout generate-lockfile report rustc rustdoc
nextest watch expand audit deny outdated edit bloat llvm-cov tarpaulin make xtask insta machete udeps
hack sqlx leptos tauri wasm criterion flamegraph release semver-checks set-version upgrade readme
zigbuild cross lambda binstall""",
            Program(
                options="--config=code --manifest-path=reads -p= --package= --target-dir= --features= -F= --target= --bin= --example= --test= --bench= --profile= -j= --jobs= --message-format= --color= -Z= --git= --branch= --tag= --rev= --path= --version= --root= --registry= --index= -x=code --exec=code -s=code --shell=code",
                permutes=True,
            ),
        ),
    },
)
_GO: Final = Program(
    permutes=False,
    dashes="single",
    options="-C=folder",
    commands={
        **rows(
            "build test install get clean bug",
            Program(
                dashes="single",
                options="-toolexec=code -exec=command -o=writes -overlay=code -modfile=reads -tags= -run= -bench= -count= -timeout= -ldflags= -gcflags= -asmflags= -gccgoflags=code -coverprofile=writes -cpuprofile=writes -memprofile=writes -p= -parallel= -mod= -covermode= -coverpkg= -pkgdir= -compiler= -cpu= -v -race -short -cover -json -x -n -a -u -t -d -i -c -work -trimpath -failfast -C=folder -vettool=program -benchmem -buildvcs= -vet=",
            ),
        ),
        "run": Program(
            dashes="single",
            permutes=False,
            options="-exec=command -toolexec=code -overlay=code -tags= -ldflags= -gcflags= -mod= -modfile=reads -race -v -x -n -a -work -trimpath -C=folder -p=",
        ),
        "vet": Program(dashes="single", options="-vettool=program -toolexec=code -tags= -json -v -x -n -mod= -c="),
        **rows(
            "version env doc",
            Program(reading="known", dashes="single", options="-m -json -v -all -src -short -w!changes -u!changes"),
        ),
        "list": Program(
            dashes="single",
            reading="free",
            options="-toolexec=code -overlay=code -f= -json -m -u -deps -e -mod= -test -export!changes -tags= -versions",
        ),
        "generate": Program(dashes="single", options="-run= -skip= -v -n -x"),
        "fmt": _PLAIN,
        "mod": _PLAIN,
        "work": _PLAIN,
        "tool": _PLAIN,
        "fix": _PLAIN,
        "help": _reading(),
        "telemetry": _PLAIN,
    },
)
_CC: Final = Program(
    reader="compiler",
    dashes="single",
    options="""-o=writes -wrapper=code -B=code -fplugin=code -specs=code -Xclang=code -load=code -fuse-ld=code --ld-path=code -no-canonical-prefixes -MF=writes
        -MT= -MQ= -I= -L= -D= -U= -l= -x= -include=reads -isystem= -iquote= -idirafter= -Xlinker=code -Xassembler= -Xpreprocessor= -T=reads -u= -z=
        -framework= -arch= -target= -isysroot= -dumpversion -dumpmachine -e= -aux-info=writes""",
)
_MAKE: Final = Program(
    reader="make",
    options="""-C=folder --directory=folder -f= --file= --makefile= -j? --jobs? -l? --load-average? --max-load? -o= --old-file= --assume-old=
        -W= --what-if= --new-file= --assume-new= -I= --include-dir= --eval=code -E=code -O? --output-sync? --debug? --shuffle? -BbdeikLmnpqrRsStvwh
        --always-make --dry-run --just-print --recon --keep-going --silent --quiet --touch --question --no-print-directory
        --print-directory --print-data-base --no-builtin-rules --no-builtin-variables --ignore-errors --trace --version --help
        --environment-overrides --warn-undefined-variables --check-symlink-times --stop --no-keep-going""",
)
_TERRAFORM: Final = Program(
    permutes=False,
    dashes="single",
    options="-chdir=folder -version -help",
    commands={
        **rows("show version output validate providers graph metadata", _PLAIN),
        **rows(
            """init plan apply destroy fmt import refresh state workspace taint untaint console force-unlock get login
logout test""",
            _PLAIN,
        ),
    },
)

BUILD: Final[Mapping[str, Program]] = {
    "cargo": _CARGO,
    "cross": _CARGO,
    "rustup": Program(permutes=False, commands={"run": _exec(options="--install", operands="plain"), "show": _PLAIN}),
    **rows(
        "rustc rustdoc clippy-driver",
        Program(
            options="-C=code --codegen=code --test-runtool=code -o=writes --out-dir=writes -Z=code --emit= --edition= --crate-type= --crate-name= -L= -l= --cfg= --extern= --target= --test -O -g -V --version -v --print= --explain= -A= -W= -D= -F=",
            operands="reads*",
        ),
    ),
    "go": _GO,
    "gofmt": Program(
        options="-w!changes -d -l -s -e -r= -cpuprofile=writes", dashes="single", operands="reads*", reading="free"
    ),
    **rows("gcc g++ cc c++ clang clang++ cpp tcc c99 c89 gfortran nvcc", _CC),
    **rows(
        "ld ld.lld ld.gold lld",
        Program(dashes="single", options="-plugin=code -dynamic-linker= -o=writes -T=reads -rpath="),
    ),
    **rows("make gmake remake bmake", _MAKE),
    "ninja": Program(
        options="-C=folder -f=runs -j= -k= -l= -n -v -d= -t= -w= --version --verbose --quiet", runs="build.ninja"
    ),
    "cmake": Program(
        dashes="single",
        reader="cmake",
        options="-P=runs -E=plain -S=reads -B=writes -G= -D= -U= -A= -T= -C=runs --build=writes --install= --preset= --target= --config= -t= -j= --parallel= --open= -L -LA -LAH -N -Wdev -Wno-dev --fresh --version --help --toolchain=runs --prefix= --trace --workflow --clean-first -v --verbose",
    ),
    "ctest": Program(
        options="-S=code -SP=code --script=code --build-and-test!code -R= -E= -L= -LE= -j= --test-dir=folder -C= -T= -M= -D= --timeout= --output-on-failure -V -VV -N --build-run-dir= --test-command=code -I= -O=writes --repeat= --preset= -Q --rerun-failed",
        dashes="single",
    ),
    "meson": _PLAIN,
    "bazel": Program(
        permutes=False,
        options="--bazelrc=code --output_base= --host_jvm_args=code --server_javabase=code",
        commands={
            "run": Program(options="--run_under=code --config=", permutes=False),
            **rows(
                "build test coverage",
                Program(
                    options="--run_under=code --script_path=writes --action_env= --workspace_status_command=code --config= -c= --jobs= --crosstool_top=code --shell_executable=code --override_repository=code --credential_helper=code --tls_client_key= --extra_toolchains=code"
                ),
            ),
            **rows(
                "query cquery aquery info version clean fetch sync mod help shutdown dump",
                Program(options="--workspace_status_command=code"),
            ),
        },
    ),
    "just": Program(
        permutes=True,
        options="-f=runs --justfile=runs -d=folder --working-directory=folder -c --command --shell=code --shell-arg=code --chooser=code --set -n -q -v -l --list --dry-run --evaluate --dump --unstable --summary --show= -s= --cygpath=code --choose!code --edit!changes -e --fmt!changes --init!changes",
        reader="just",
        runs="justfile Justfile .justfile",
    ),
    "task": Program(options="-t=runs --taskfile=runs -d=folder --dir=folder", runs="Taskfile.yml Taskfile.yaml"),
    **rows(
        "gradle gradlew",
        Program(
            options="-I=code --init-script=code -b=runs --build-file=runs -c=runs -g= -p=folder --project-dir=folder -D= -P= -x= --exclude-task= --console= --tests= --max-workers= --include-build=code --no-daemon --info --debug --stacktrace -q -t -i -s -m --offline --parallel --continue",
            runs="build.gradle build.gradle.kts settings.gradle",
        ),
    ),
    **rows(
        "mvn mvnw mvnd",
        Program(
            options="-f=runs --file=runs -s=code --settings=code -gs=code -t=code -D= -P= -pl= -rf= -T= -q -U -B -o -X -e -am -amd -N -DskipTests",
            dashes="single",
            runs="pom.xml",
        ),
    ),
    "ant": Program(
        options="-f=runs -buildfile=runs -file=runs -lib=code -listener=code -logger=code -inputhandler=code -main=code -D= -propertyfile=reads -q -v",
        dashes="single",
        runs="build.xml",
    ),
    **rows("sbt lein mill", _PLAIN),
    **rows(
        "java",
        Program(
            dashes="single",
            permutes=False,
            options="-agentlib=code -agentpath=code -javaagent=code -cp= -classpath= --class-path= -jar=runs -version!reading --version!reading -p= --module-path= -m= --module= --add-modules= --add-opens= --add-exports= -XX:OnError=code -XX:OnOutOfMemoryError=code",
            reader="java",
        ),
    ),
    **rows(
        "javac kotlinc scalac javadoc jar",
        Program(
            dashes="single",
            options="-J= -d=writes -cp= -classpath= -sourcepath= -processorpath=code --processor-path=code -processor=code -s=writes -source= -target= --release= -Xplugin=code",
            operands="",
        ),
    ),
    "dotnet": Program(
        permutes=False,
        commands={
            "exec": _exec(options=""),
            **rows(
                """build run test restore publish pack clean new add remove list sln tool nuget format ef watch msbuild
workload help store vstest""",
                _PLAIN,
            ),
        },
    ),
    "swift": Program(permutes=False, options="-e=code", commands=rows("build test run package", _PLAIN)),
    **rows(
        "tsc vue-tsc tsgo",
        Program(
            options="-p=reads --project=reads --outDir=writes --outFile=writes -t= --target= -m= --module= --noEmit -b --build -w --watch --init"
        ),
    ),
    **rows(
        "ts-node tsx ts-node-esm esno swc-node babel-node jiti sucrase-node coffee",
        Program(
            reader="interpreter",
            permutes=False,
            options="-e=code --eval=code -p=code --print=code -r=runs --require=runs --import=runs --loader=code -P=reads --project=reads -T --transpile-only --esm --cwd=folder -O= --tsconfig=reads --env-file=reads -v!reading --version!reading --files -i",
        ),
    ),
    "jest": Program(
        options="-c=plain --config=plain --rootDir= --testRunner=code --testEnvironment= --globalSetup=code --globalTeardown=code --setupFiles=code --runner=code --watchman --reporters= --coverageDirectory=writes --outputFile=writes -t= --testNamePattern= --testPathPattern= -w= --maxWorkers= --transform=code --preset= --resolver=code --testResultsProcessor=code --testSequencer=code --filter=code --prettierPath=code --ci --coverage --watch --watchAll --runInBand -i -u -b -o --verbose --silent --bail? --updateSnapshot --passWithNoTests"
    ),
    "mocha": Program(
        options="-r=runs --require=runs --import=runs --file=runs --config= -R= --reporter= --ui= -u= -g= --grep= -t= --timeout= --opts=code --node-option=code --loader=code --watch -w"
    ),
    **rows(
        """vitest eslint prettier stylelint biome oxlint webpack rollup vite esbuild next nuxt astro turbo nx lerna
ng playwright cypress""",
        Program(options="-o= --output-file=writes --outfile=writes"),
    ),
    "nyc": _exec(
        options="--reporter= -r= --include= --exclude= -x= -n= --all --silent -s --check-coverage --cwd=folder --require=runs --lines= --branches= --functions= --statements= --report-dir=writes --temp-dir=writes -t= --no-clean --cache?",
        strict=True,
    ),
    "c8": _exec(
        options="--reporter= -r= --include= -n= --exclude= -x= --all --src= --check-coverage --lines= --branches= --functions= --statements= --report-dir=writes -o=writes --temp-directory=writes --clean?",
        strict=True,
    ),
    "nodemon": Program(
        permutes=False,
        options="-x=shell --exec=shell -e= --ext= -w= --watch= -i= --ignore= -d= --delay= -q -V -L --legacy-watch --signal= -C -I --config=code -r=runs --require=runs --inspect? --verbose --quiet",
        operands="runs",
    ),
    "concurrently": Program(
        options="-n= --names= -c= --prefix-colors= -k --kill-others --kill-others-on-fail -p= --prefix= -m= --max-processes= -s= --success= -r --raw --hide= -g --group --timings --restart-tries= --restart-after= --teardown=shell --handle-input -i --default-input-target= --passthrough-arguments -P --name-separator= --no-color",
        operands="shell*",
        strict=True,
    ),
    **rows("npm-run-all run-s run-p wireit", _PLAIN),
    **rows("cross-env", Program(reader="env", permutes=False, strict=True, options="")),
    "cross-env-shell": Program(opaque="a shell reads its words"),
    "dotenv": Program(
        permutes=False,
        strict=True,
        options="-e=reads -f=reads --file=reads -o --override -v=sets -c? -p= -q= -i --quiet --debug --expand",
        reader="dotenv",
    ),
    "pytest": Program(
        options="-c=reads --config-file=reads --rootdir= -p= -k= -m= -n= -o= -W= --tb= --maxfail= --junitxml=writes --junit-xml=writes --basetemp=writes --cov? --cov-report= --cov-config=reads --durations= --timeout= --ignore= --deselect= --pdbcls=code --confcutdir= --pyargs --log-file=writes --numprocesses= --dist= -r= --ds= -xvqslh --lf --ff --collect-only --co --no-header --no-cov --pdb --sw --verbose --quiet --strict-markers"
    ),
    **rows("py.test", Program()),
    **rows(
        "tox nox",
        Program(
            options="-c=runs -f=runs --noxfile=runs -x=code --override=code -e= -s= --workdir=writes -p= -r -q -v -l"
        ),
    ),
    "coverage": Program(
        permutes=False,
        commands={
            "run": Program(
                permutes=False,
                reader="interpreter",
                options="-m=stops --module=stops -a --append --branch -p --parallel-mode --source= --include= --omit= --rcfile=code --data-file=writes --concurrency= --context= -L --timid --debug= --pylib",
            ),
            **rows(
                "report html xml json lcov combine erase annotate debug",
                Program(options="--rcfile=code -o=writes -d=writes"),
            ),
        },
    ),
    **rows(
        """mypy pyright ruff black isort flake8 pylint bandit autopep8 yapf pyflakes vulture codespell pre-commit""",
        Program(),
    ),
    "pylint": Program(options="--init-hook=code --load-plugins= --rcfile=code"),
    "mypy": Program(options="--python-executable=program --config-file=code"),
    **rows("clang-format clang-tidy", Program()),
    "sphinx-build": Program(options="-D= -c=code"),
    "watchman": Program(),
    **rows(
        """shellcheck shfmt hadolint yamllint markdownlint actionlint checkov trivy gitleaks""",
        Program(options="-w!changes"),
    ),
    "nginx": Program(options="-c=code -g=code -p=code"),
    "php-cs-fixer": Program(),
    "ansible": Program(opaque="its modules execute commands"),
    "ansible-playbook": Program(options="-i= -e= -l= -t= --ssh-common-args=code --ssh-extra-args=code -c="),
    "vagrant": Program(permutes=False, commands={"ssh": Program(options="-c=shell --command=shell", remote=True)}),
    **rows("terraform tofu", _TERRAFORM),
    "latex": _PLAIN,
    **rows(
        "pdflatex xelatex lualatex latexmk tex pdftex luatex",
        Program(
            dashes="single",
            options="-shell-escape!code --shell-escape!code -enable-write18!code -e=code -r=code -output-directory=writes -interaction= -jobname= -output-format=",
        ),
    ),
    "pandoc": Program(
        options="-F=program --filter=program -L=code --lua-filter=code --pdf-engine=program -d=code --defaults=code -o=writes --output=writes -f= -t= --from= --to= --template=reads --extract-media=writes --metadata-file=reads -H=reads -B=reads -A=reads -c= --css= -V= -M= -s --toc --standalone",
        operands="reads*",
    ),
    **rows(
        "ffmpeg ffprobe ffplay",
        Program(dashes="single", options="-i=reads -filter_complex_script=reads", operands=""),
    ),
}
