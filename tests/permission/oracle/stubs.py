"""A sandbox where every program is a stub that only writes down how it was started."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Final

HOME: Final = "/home/dev"
PROJECT: Final = "/home/dev/project"
HERE: Final = Path(__file__).resolve().parent
LIBRARIES: Final = ("/usr/lib", "/usr/lib64", "/usr/share", "/usr/libexec", "/usr/include", "/etc/alternatives")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Programs that start others and do nothing else: their stubs start the real ones, after they wrote it down.
WRAPPERS: Final = _words("""
bash sh dash env xargs find nice nohup timeout stdbuf setsid ionice chrt taskset flock setarch linux64 prlimit
setpriv choom printf test [ expr seq basename dirname pwd
""")
# What a developer has. What isn't here is not found, as it would be on a real machine.
NAMES: Final = _words("""
git gh make cmake cargo rustc go npm npx yarn pnpm node deno bun python python3 pip pip3 uv poetry pytest ruff
mypy black tox java javac mvn gradle dotnet ruby gem bundle rake php composer perl lua gcc g++ clang cc ld ar
docker podman kubectl helm terraform aws curl wget nc ssh scp rsync tar gzip gunzip zip unzip sed awk gawk mawk
grep egrep rg ag fd jq yq tr cut sort uniq head tail wc cat tee tac rev paste comm join diff patch cmp column
fold nl od xxd ls ln cp mv rm rmdir mkdir touch chmod chown stat file du df realpath readlink mktemp dd install
truncate shred date cal uname hostname whoami id groups who uptime free ps top kill pkill pgrep killall sleep
true false yes echo which whereis man less more vim vi nano emacs ed sudo doas su chroot unshare nsenter
systemctl service journalctl crontab at batch screen tmux watch parallel script strace ltrace gdb valgrind time
hyperfine entr openssl gpg base64 md5sum sha1sum sha256sum cksum sum split csplit shuf factor numfmt printenv
tty stty clear reset tput logger mail sendmail telnet ftp sftp ping host dig nslookup ip ifconfig netstat ss
lsof mount umount apt apt-get dpkg brew yum dnf pacman apk snap flatpak psql mysql sqlite3 redis-cli mongo
pg_dump busybox socat expect tclsh ffmpeg convert pandoc latex pdflatex eslint prettier tsc jest vitest webpack
vite next rails django-admin flask celery uvicorn gunicorn just task ninja meson bazel buck pre-commit black
isort flake8 pylint coverage nox hatch pdm victim evil a b c foo bar baz tool run build test.sh sync nproc arch
getent locale iconv tsort runuser pkexec fakeroot proot firejail bwrap xvfb-run dbus-run-session eatmydata
cpulimit trickle torsocks
""") + _words(" ".join(f"p{number}" for number in range(100)))
FILES: Final = {
    f"{PROJECT}/README.md": "# Project\n\nsome text\n",
    f"{PROJECT}/Makefile": "all:\n\techo made\n",
    f"{PROJECT}/list.txt": "one\ntwo words\na[$(victim list)]\n",
    f"{PROJECT}/a.txt": "alpha\n",
    f"{PROJECT}/b.txt": "beta\n",
    f"{PROJECT}/my file.txt": "spaced\n",
    f"{PROJECT}/-rf": "a file with a bad name\n",
    f"{PROJECT}/app.log": "12:00 ok fine\n12:01 error bad\n",
    f"{PROJECT}/package.json": '{"name": "x", "scripts": {"test": "jest"}}\n',
    f"{PROJECT}/env.sh": "victim from-env.sh\nFOO=1\n",
    f"{PROJECT}/src/main.py": "def main(): pass\n",
    f"{PROJECT}/src/app.ts": "export const x = 1\n",
    f"{PROJECT}/src/util/deep.py": "x = 1\n",
    f"{PROJECT}/tests/test_main.py": "def test(): pass\n",
    f"{PROJECT}/docs/guide.md": "guide\n",
    f"{PROJECT}/.env": "SECRET=1\n",
    f"{PROJECT}/.gitignore": "*.log\n",
    f"{HOME}/.bashrc": "victim from-bashrc\n",
    f"{HOME}/.profile": "",
    f"{HOME}/other/notes.txt": "other\n",
    f"{HOME}/.ssh/id_rsa": "secret\n",
    "/tmp/old.txt": "old\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/profile": "victim from-profile\n",
    "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\ndev:x:1000:1000::/home/dev:/bin/bash\n",
    "/out/kept.txt": "kept\n",
    "/dev/shm/kept": "kept\n",
}
FOLDERS: Final = (f"{PROJECT}/build", f"{PROJECT}/sp ace", "/var/tmp", "/opt", "/root")
SCRIPTS: Final = {f"{PROJECT}/run.sh": "#!/bin/bash\ntrue\n"}


@functools.cache
def why_not() -> str:
    """Return what this machine lacks for the sandbox; empty: nothing."""
    for program in ("bash", "bwrap", "cc"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    tried = subprocess.run([*_bwrap(), "--ro-bind", "/", "/", "true"], capture_output=True, check=False)
    return f"bwrap does not work here: {tried.stderr.decode(errors='replace').strip()}" if tried.returncode else ""


def build(folder: Path, *, real: Collection[str] = ()) -> None:
    """Make what the sandbox is made of in *folder*: the stubs, the runner, and the files that scripts find.

    Args:
        folder: an empty one.
        real: names of further programs that are run for real, after they were written down.
    """
    for part in ("bin", "wrapped", "fixture"):
        (folder / part).mkdir()
    for source in ("stub", "runner"):
        _compile(HERE / f"{source}.c", folder / source)
    for name in {*NAMES, *WRAPPERS, *real}:
        (folder / "bin" / name).hardlink_to(folder / "stub")
    for name in {*WRAPPERS, *real}:
        program = shutil.which(name, path="/usr/bin:/bin:/usr/sbin")
        if program is not None:
            (folder / "wrapped" / name).symlink_to(f"/real/{Path(program).resolve().name}")
    for path, text in (FILES | SCRIPTS).items():
        file = folder / "fixture" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if path in SCRIPTS else 0o644)
    for path in FOLDERS:
        (folder / "fixture" / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (folder / "fixture" / PROJECT.lstrip("/") / "link.txt").symlink_to("/out/kept.txt")


def command(folder: Path, *, seconds: float) -> list[str]:
    """Return the command that starts the runner in the sandbox.

    Args:
        folder: what `build` made.
        seconds: how long one script may run.
    """
    libraries = [argument for path in LIBRARIES if Path(path).exists() for argument in ("--ro-bind", path, path)]
    links = [
        argument
        for target, name in (
            ("usr/bin", "/bin"),
            ("usr/bin", "/sbin"),
            ("bin", "/usr/sbin"),
            ("../bin", "/usr/local/bin"),
            ("usr/lib", "/lib"),
            ("usr/lib64", "/lib64"),
        )
        for argument in ("--symlink", target, name)
    ]
    binds = (("bin", "/usr/bin"), ("wrapped", "/wrapped"), ("fixture", "/fixture"), ("runner", "/runner"))
    parts = [argument for part, at in binds for argument in ("--ro-bind", str(folder / part), at)]
    return [
        *_bwrap(),
        *libraries,
        *parts,
        *("--ro-bind", "/usr/bin", "/real", "--dir", "/usr/local", *links),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/log", "--dir", "/home"),
        *("/runner", str(seconds)),
    ]


def _bwrap() -> list[str]:
    flags = "--unshare-all --as-pid-1 --die-with-parent --new-session --clearenv --uid 1000 --gid 1000"
    return ["bwrap", *flags.split(), "--chdir", "/"]


def _compile(source: Path, into: Path) -> None:
    flags = ["-O1", "-static", "-o", str(into), str(source)]
    done = subprocess.run(["cc", *flags], capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise RuntimeError(f"cc {' '.join(flags)}: {done.stderr.decode(errors='replace')}")
