"""Build tools, compilers and test runners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_GO_BUILD: Final = Program(
    dashes="single",
    options="""-toolexec=code -exec=command -o=writes -overlay=code -modfile=reads -tags= -run= -bench= -count= -timeout=
        -ldflags= -gcflags= -asmflags= -gccgoflags=code -coverprofile=writes -cpuprofile=writes -memprofile=writes -p=
        -mod= -covermode= -coverpkg= -C=folder -vettool=program""",
)

BUILD: Final[Mapping[str, Program]] = {
    "cargo": Program(
        options="""--config=code -C=folder -Z= --color= --manifest-path=reads -p= --package= --bin= --example= --test= --bench=
            --features= -F= --target= --profile= -j="""
    ),
    "rustup": Program(permutes=False, commands={"run": Program(opaque="starts a command")}),
    **rows(
        "rustc rustdoc",
        Program(
            options="""-C=code --codegen=code --test-runtool=code -o=writes --out-dir=writes -Z=code --emit= --edition=
                --crate-type= --crate-name= -L= -l= --cfg= --extern= --target=""",
            operands="reads*",
        ),
    ),
    "go": Program(
        permutes=False,
        dashes="single",
        options="-C=folder",
        commands={
            **rows("build test install get vet list", _GO_BUILD),
            "env": Program(dashes="single", reading="known", options="-json"),
            "doc": Program(dashes="single", reading="known", options="-all -src -short -u"),
            # The words behind the file are the program's.
            "run": Program(dashes="single", permutes=False, options=_GO_BUILD.options),
        },
    ),
    **rows(
        "gcc g++ cc c++ clang clang++ cpp gfortran",
        Program(
            # `-B` is the folder of the compiler's parts, `@file` contains options, and linkers load plugins.
            code_words=r"-B.*|@.*|-Wl,.*plugin.*",
            dashes="single",
            options="""-o=writes -wrapper=code -fplugin=code -specs=code -Xclang=code -load=code -fuse-ld=code --ld-path=code
                -MF=writes -MT= -MQ= -I= -L= -D= -U= -l= -x= -include=reads -isystem= -iquote= -idirafter= -Xlinker=code
                -Xassembler= -Xpreprocessor= -T=reads -u= -z= -framework= -arch= -target= -isysroot= -e= -aux-info=writes""",
        ),
    ),
    **rows(
        "make gmake",
        Program(
            reader="make",
            options="""-C=folder --directory=folder -f= --file= --makefile= -j? --jobs? -l? --load-average? -o= --old-file=
                -W= --what-if= --new-file= -I= --include-dir= --eval=code -E=code -O? --output-sync? --debug? --shuffle?""",
        ),
    ),
    "ninja": Program(options="-C=folder -f=runs -j= -k= -l= -d= -t= -w=", runs="build.ninja"),
    "cmake": Program(
        dashes="single",
        # Its tools, scripts, and variables whose values are programs or files with commands.
        code_words=r"-E|-P.*|-C.*|-D\w+_COMPILER(:\w+)?=(?!(/usr/bin/)?(gcc|g\+\+|cc|c\+\+|clang|clang\+\+|gfortran|nvcc)(-\d+)?$).*"
        r"|-D\w*(_LAUNCHER|MAKE_PROGRAM|TOP_LEVEL_INCLUDES|_INCLUDE\w*|_COMMAND|_LINKER|_RULE\w*)\b(?!=s?ccache$).*",
        options="-S=reads -B=writes -G= -D= -U= -A= -T= --build=writes --install= --preset= --target= --config= -t= -j= --toolchain=runs",
        runs="CMakeLists.txt",
    ),
    "ctest": Program(
        code_words=r"-S.*|--script.*|--build-and-test|--test-command.*",
        dashes="single",
        options="--test-dir=folder -C=",
    ),
    "task": Program(strict=True, runs="Taskfile.yml Taskfile.yaml"),
    # Without options: with `--command` and others it starts a command.
    "just": Program(strict=True, runs="justfile Justfile .justfile"),
    **rows(
        "gradle gradlew",
        Program(
            options="-I=code --init-script=code -b=runs --build-file=runs -p=folder --project-dir=folder -D= -P= -x= --include-build=code",
            runs="build.gradle build.gradle.kts settings.gradle",
        ),
    ),
    **rows(
        "mvn mvnw",
        Program(options="-f=runs -s=code -gs=code -t=code -D= -P= -pl= -rf= -T=", dashes="single", runs="pom.xml"),
    ),
    "java": Program(
        dashes="single",
        permutes=False,
        code_words=r"@.*|-?-?javaagent.*|-agent.*|-XX:(OnError|OnOutOf|Flags).*|-Xrun.*|.*\.java",
        options="-cp= -classpath= --class-path= -jar=runs -p= --module-path= -m= --module= --add-modules= --add-opens= --add-exports=",
    ),
    **rows(
        "javac kotlinc", Program(dashes="single", options="-d=writes -processorpath=code -processor=code -s=writes")
    ),
    "swift": Program(permutes=False, options="-e=code"),
    **rows(
        "tsc vue-tsc", Program(options="-p=reads --project=reads --outDir=writes --outFile=writes -t= --target= -m=")
    ),
    **rows(
        "pytest py.test",
        Program(
            options="""-c=reads --config-file=reads --rootdir= -p= -k= -m= -n= -o= -W= --junitxml=writes --junit-xml=writes
                --basetemp=writes --cov-config=reads --pdbcls=code --log-file=writes -r="""
        ),
    ),
    **rows("tox nox", Program(options="-c=runs -f=runs --noxfile=runs -x=code --override=code -e= -s= -p=")),
    "pylint": Program(options="--init-hook=code --rcfile=code"),
    "mypy": Program(options="--python-executable=program --config-file=code"),
    **rows("vitest eslint prettier esbuild", Program(options="-o= --output-file=writes --outfile=writes")),
}
