"""Programs that start the command in their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_wrapper: Final = partial(Program, strict=True, permutes=False, tail="command")
_env: Final = partial(Program, strict=True, permutes=False, reader="env")

_SUDO: Final = """
    -A|--askpass -b|--background -B|--bell -E --preserve-env? -e|--edit!code -H|--set-home -h!code --help -i|--login
    -K|--remove-timestamp -k|--reset-timestamp -l|--list -n|--non-interactive -N|--no-update -P|--preserve-groups
    -S|--stdin -s|--shell -v|--validate -V|--version -C|--close-from= -D|--chdir=folder -g|--group= --host=
    -p|--prompt= -R|--chroot=code -r|--role= -t|--type= -T|--command-timeout= -U|--other-user= -u|--user=
"""
_HELP: Final = " --help --version"

WRAPPERS: Final[Mapping[str, Program]] = {
    "sudo": _env(options=_SUDO),
    "doas": _env(options="-n -L -s -C=code -u= -a="),
    "env": _env(
        options="""
            -i|--ignore-environment -0|--null -v|--debug -u|--unset= -C|--chdir=folder -S|--split-string=split
            -a|--argv0= -P=code --block-signal? --default-signal? --ignore-signal? --list-signal-handling
        """
        + _HELP
    ),
    "nice": _wrapper(options="-n|--adjustment= -0123456789 --0 --1 --2 --5 --10 --15 --20" + _HELP),
    "nohup": _wrapper(options=_HELP),
    "timeout": _wrapper(
        options="-k|--kill-after= -s|--signal= -v|--verbose -f|--foreground -p|--preserve-status" + _HELP,
        operands="plain",
    ),
    "stdbuf": _wrapper(options="-i|--input= -o|--output= -e|--error=" + _HELP),
    "setsid": _wrapper(options="-c|--ctty -f|--fork -w|--wait -hV" + _HELP),
    "ionice": _wrapper(options="-c|--class= -n|--classdata= -t|--ignore -p|--pid= -P|--pgid= -u|--uid= -hV" + _HELP),
    "chrt": _wrapper(
        options="""-a|--all-tasks -b|--batch -d|--deadline -f|--fifo -i|--idle -o|--other -r|--rr -e|--ext
            -R|--reset-on-fork -v|--verbose -m|--max -p|--pid -T|--sched-runtime= -P|--sched-period=
            -D|--sched-deadline= -hV"""
        + _HELP,
        operands="plain",
    ),
    "taskset": _wrapper(options="-a|--all-tasks -c|--cpu-list -p|--pid -hV" + _HELP, operands="plain"),
    "time": _wrapper(options="-a|--append -f|--format= -o|--output=writes -p|--portability -v|--verbose -q|--quiet -l"),
    "flock": _wrapper(
        options="""-s|--shared -x|--exclusive -e -n|--nb|--nonblock -u|--unlock -o|--close -F|--no-fork --verbose
            -w|--wait|--timeout= -E|--conflict-exit-code= -hV"""
        + _HELP,
        operands="writes",
        tail="either",
    ),
    "xargs": Program(
        strict=True,
        permutes=False,
        reader="xargs",
        options="""-0|--null -r|--no-run-if-empty -t|--verbose -p|--interactive -x|--exit -o|--open-tty --show-limits
            -a|--arg-file=reads -d|--delimiter= -E= -e? --eof? -I= -i? --replace? -L= -l? --max-lines? -n|--max-args=
            -P|--max-procs= -s|--max-chars= --process-slot-var= -J= -R= -S="""
        + _HELP,
    ),
    "find": Program(reader="find"),
    "gfind": Program(reader="find"),
    **rows(
        "fd fdfind",
        Program(
            reader="fd",
            options="""-H|--hidden -I|--no-ignore -u|--unrestricted -s|--case-sensitive -i|--ignore-case -g|--glob
            -F|--fixed-strings -a|--absolute-path -l|--list-details -L|--follow -p|--full-path -d|--max-depth=
            --min-depth= -t|--type= -e|--extension= -S|--size= --changed-within= --changed-before= -o|--owner=
            --e!changes -E|--exclude= -c|--color= -j|--threads= -0|--print0 -q|--quiet -1 --max-results= --base-directory=folder
            --search-path=reads -C= --format= --and= --exact-depth= --ignore-file=reads --batch-size= -V -h
            --regex --no-ignore-vcs --no-ignore-parent --one-file-system --prune --strip-cwd-prefix?"""
            + _HELP,
            reading="free",
        ),
    ),
    # ---- shells and commands of their own ----
    "watch": Program(
        strict=True,
        permutes=False,
        reader="watch",
        options="""-b|--beep -c|--color -C|--no-color -d? --differences? -e|--errexit -g|--chgexit -n|--interval= -p|--precise
            -q|--equexit= -r|--no-rerun -s=writes --shotsdir=writes -t|--no-title -w|--no-wrap -x|--exec -f|--follow -hv"""
        + _HELP,
    ),
    "script": Program(
        strict=True,
        options="""-a|--append -c|--command=shell -e|--return -f|--flush --force -I|--log-in=writes -O|--log-out=writes
            -B|--log-io=writes -T|--log-timing=writes -m|--logging-format= -E|--echo= -o|--output-limit= -q|--quiet -t?
            --timing? -hV"""
        + _HELP,
        reader="script",
    ),
    "scriptreplay": Program(),
    "scriptlive": Program(opaque="replays input to a shell"),
    "busybox": Program(permutes=False, strict=True, options="--help --list --list-full --install!code", tail="command"),
    **rows("toybox coreutils", Program(permutes=False, strict=True, options="--help", tail="command")),
    "ld.so": _wrapper(
        options="""--list --verify --inhibit-cache --library-path=code --glibc-hwcaps-prepend= --glibc-hwcaps-mask= --inhibit-rpath=
            --audit=code --preload=code --argv0= --list-tunables --list-diagnostics"""
        + _HELP
    ),
    "parallel": Program(opaque="makes shell commands from its input"),
    "sem": Program(opaque="makes shell commands"),
    "rush": Program(opaque="makes shell commands from its input"),
    # ---- observers ----
    "strace": _wrapper(
        options="""-a|--columns= -b|--detach-on= -c|--summary-only -C|--summary -D -d|--debug -e= --trace= --signal= --status= --abbrev=
            --verbose= --raw= --read= --write= --fault= --inject= --kvm= -E=sets --env=sets -f|--follow-forks -F -h -i|--instruction-pointer
            -I= --interruptible= -k|--stack-traces -n|--syscall-number -N -o=writes --output=writes -A|--output-append-mode -p= --attach=
            -P= --trace-path= -q|--quiet? -r|--relative-timestamps? -s= --string-limit= -S= --summary-sort-by= -t -T -tt -ttt -u= --user=
            -U= -v --no-abbrev -V -w -x -X= -xx -y -Y -yy -z|--successful-only -Z|--failed-only --output-separately --decode-fds? --timestamps?
            --syscall-times? --seccomp-bpf --tips? --version --help --argv0= --decode-pids="""
    ),
    "ltrace": _wrapper(
        options="-a= -A= -b -c -C -d -D= -e= -F=code -f -h -i -l= -L -n= -o=writes -p= -r -s= -S -t -T -u= -V -w= -x= --output=writes"
    ),
    "valgrind": _wrapper(
        options="""--tool= --leak-check= --track-origins= --show-leak-kinds= --error-exitcode= --log-file=writes --suppressions=reads -q -v
            --quiet --verbose --num-callers= --trace-children= --xml= --xml-file=writes --gen-suppressions= --undef-value-errors=
            --callgrind-out-file=writes --massif-out-file=writes --track-fds= --child-silent-after-fork= --errors-for-leak-kinds= --log-fd="""
    ),
    "perf": Program(
        permutes=False,
        options="--no-pager -p --paginate --debug= --exec-path?code --buildid-dir= -v --version",
        commands={
            "stat": _wrapper(
                options="""-e= --event= -a -d -r= --repeat= -p= --pid= -t= --tid= -C= --cpu= -o=writes --output=writes -I= --interval-print= -x=
                    --field-separator= -n --null -v -A -B -i -g -G= -M= --pre=shell --post=shell -D= --delay= --timeout= --append --log-fd=
                    --per-core --per-socket --per-thread --table --summary --no-big-num"""
            ),
            **rows(
                "record trace mem kmem lock sched bench",
                _wrapper(
                    options="""-e= --event= -a -p= --pid= -t= --tid= -C= --cpu= -o=writes --output=writes -F= --freq= -c= --count= -g --call-graph= -q
                        -v -s -T -n -i -D= -m= -b -d --all-cpus --quiet"""
                ),
            ),
            **rows(
                "report annotate script list diff top buildid-cache archive evlist",
                Program(
                    options="-s=code --script=code -g= --objdump=program --addr2line=program --input=reads -i=reads"
                ),
            ),
        },
    ),
    "hyperfine": Program(
        strict=True,
        options="""-w= --warmup= -m= --min-runs= -M= --max-runs= -r= --runs= -s=shell --setup=shell --reference=shell -p=shell --prepare=shell
            -C=shell --conclude=shell -c=shell --cleanup=shell -P= --parameter-scan= -D= --parameter-step-size= -L= --parameter-list= --style=
            -S=program --shell=program -N -i --ignore-failure? -u= --time-unit= --export-asciidoc=writes --export-csv=writes
            --export-json=writes --export-markdown=writes --export-orgmode=writes --show-output --output= --input= -n= --command-name= --sort=
            --reference-name= --min-benchmarking-time="""
        + _HELP,
        operands="shell*",
    ),
    "entr": _wrapper(options="-a -c -d -n -p -r -s!code -z -x"),
    **rows("inotifywait fswatch", Program(options="-o=writes --outfile=writes --fromfile=reads")),
    "watchexec": Program(opaque="starts commands when files change"),
    "reflex": Program(opaque="starts commands when files change"),
    "chokidar": Program(opaque="starts commands when files change"),
    # ---- with a changed surrounding ----
    **rows("chronic ifne unbuffer eatmydata catchsegv ts-exec mispipe", _wrapper(options="-v -e -n -p")),
    **rows("torsocks torify tsocks", _wrapper(options="-q -i -p -d -a= -u= -P= --isolate --quiet --debug")),
    **rows("proxychains proxychains4", _wrapper(options="-q -f=code")),
    **rows(
        "tini dumb-init catatonit",
        _wrapper(options="-s -g -v -vv -vvv -p= -w -e= -c --single-child -r= --rewrite= --quiet-exit --verbose"),
    ),
    **rows(
        "fakeroot",
        _wrapper(options="-l=code --lib=code --faked=code -s=writes -i=reads -u -b= -h -v --unknown-is-real"),
    ),
    "rlwrap": _wrapper(
        options="-a? -A? -b= -c -C= -e= -E= -f=reads -g= -H= -i -I -l=writes -m? -M= -n -N -o -O= -p? -P= -q= -r -R -s= -S= -t= -T -w= -W? -X -z=code"
    ),
    "prlimit": _wrapper(
        options="-p= --pid= -o= --output= --noheadings --raw --verbose -c? --core? -d? --data? -e? --nice? -f? --fsize? -i? -l? -m? -n? --nofile? -q? -r? -s? --stack? -t? --cpu? -u? --nproc? -v? --as? -x? -y?"
    ),
    "cpulimit": _wrapper(
        options="-p= --pid= -e= --exe= -P= --path= -l= --limit= -z --lazy -i --include-children -v --verbose -b --background -f --foreground -c="
    ),
    **rows("cgexec", _wrapper(options="-g= --sticky")),
    "numactl": _wrapper(
        options="-i= --interleave= -p= --preferred= -N= --cpunodebind= -C= --physcpubind= -m= --membind= -l --localalloc -b --balancing -s --show -H --hardware -a --all"
    ),
    "choom": _wrapper(options="-n= --adjust= -p= --pid= -hV"),
    **rows(
        "setarch linux i386 i686 x86_64 uname26 aarch64",
        _wrapper(
            options="-v --verbose -R --addr-no-randomize -F -Z -L -X -B -I -S -T -3 --4gb --uname-2.6 --list -hV --3gb --fdpic-funcptrs --32bit"
        ),
    ),
    "arch": Program(reading="free", permutes=False, tail="command"),
    "xvfb-run": _wrapper(
        options="-a --auto-servernum -e= --error-file=writes -f=writes --auth-file=writes -h -l --listen-tcp -n= --server-num= -p= --xauth-protocol= -s= --server-args= -w= --wait="
    ),
    **rows(
        "dbus-run-session dbus-launch",
        _wrapper(
            options="--config-file=code --dbus-daemon=program --exit-with-session --sh-syntax --csh-syntax --autolaunch= --close-stderr"
        ),
    ),
    "caffeinate": _wrapper(options="-d -i -m -s -u -t= -w="),
    "logsave": _wrapper(options="-a -s -v", operands="writes"),
    "start-stop-daemon": Program(opaque="starts a program by its options"),
    **rows(
        """daemon daemonize cronolog setsebool execlineb chpst softlimit envdir envuidgid runsv s6-setuidgid
multilog""",
        Program(opaque="starts commands by its words"),
    ),
    **rows(
        """xterm gnome-terminal konsole urxvt rxvt alacritty kitty wezterm foot st terminator x-terminal-emulator
tilix""",
        Program(opaque="starts a shell, or a command by its options"),
    ),
    "direnv": Program(
        permutes=False,
        commands={
            "exec": _wrapper(options="", operands="plain"),
            **rows("allow deny status reload version hook export edit", Program()),
        },
    ),
    "mise": Program(
        permutes=False,
        options="-C=folder --cd=folder -q -v -y",
        commands={
            **rows("exec x", Program(reader="exec_in", options="-c=shell --command=shell -j= --raw -C=folder")),
            **rows(
                """install use run ls list current activate plugins settings trust which where prune upgrade outdated set
unset env doctor tasks version self-update reshim""",
                Program(),
            ),
        },
    ),
    "rtx": Program(permutes=False, commands={"exec": Program(reader="exec_in", options="-c=shell --command=shell")}),
    **rows(
        "asdf pyenv rbenv nodenv goenv jenv plenv nodebrew",
        Program(permutes=False, commands={"exec": _wrapper(options="")}),
    ),
    **rows(
        "fnm volta nvm",
        Program(permutes=False, commands={**rows("exec run", Program(opaque="starts a command"))}),
    ),
    **rows(
        "aws-vault",
        Program(
            permutes=False,
            options="--backend= --debug --keychain= --prompt=",
            commands={
                "exec": Program(
                    reader="exec_in",
                    options="-n --no-session -d= --duration= -j --json -s --server --ecs-server --region= --mfa-token= -b --stdout --lazy",
                )
            },
        ),
    ),
    **rows(
        """op doppler infisical chamber teller envconsul vaultenv sops saml2aws granted envchain with-contenv""",
        Program(opaque="may start a command by its words"),
    ),
    "alternatives": Program(),
    "pee": Program(operands="shell*", strict=True),
    "zrun": _wrapper(options=""),
    "asciinema": Program(
        permutes=False,
        commands={
            "rec": Program(
                options="-c=shell --command=shell -e= -t= -i= -y -q --stdin --append --raw --overwrite",
                operands="writes?",
            )
        },
    ),
    "lerna": Program(
        permutes=False,
        commands={
            "exec": _wrapper(
                options="--scope= --ignore= --stream --parallel --concurrency= --since? --no-bail --no-prefix --no-private --include-dependents --include-dependencies"
            )
        },
    ),
    **rows(
        "logrotate anacron monit incrond openvpn pppd dhclient", Program(opaque="runs commands from its configuration")
    ),
    "ip": Program(
        permutes=False,
        options="-46sdhoaNrjptVcb -family= -f= -n=code -netns=code -batch=code -color? -json -brief -br -details -all -stats",
        commands={
            "netns": Program(
                permutes=False,
                commands={"exec": _wrapper(options="", operands="plain"), "list": Program(reading="free")},
            ),
            "vrf": Program(permutes=False, commands={"exec": _wrapper(options="", operands="plain")}),
        },
        dashes="single",
    ),
}
