"""Containers, clusters and the system: they start commands in other places."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_EXECUTED: Final = """
    -d --detach --detach-keys= -e= --env= --env-file=reads -i --interactive --privileged -t --tty -u= --user= -w= --workdir=
    -T --no-TTY --index= --no-deps
"""
_RUN: Final = """
    -a= --attach= --add-host= --cap-add= --cap-drop= --cidfile=writes --cpus= -d --detach --device= --dns= --entrypoint=program
    -e= --env= --env-file=reads --expose= --gpus= -h= --hostname= --init -i --interactive --ip= --ipc= -l= --label= --link=
    --log-driver= --log-opt= -m= --memory= --mount= --name= --net= --network= --network-alias= --no-healthcheck --pid=
    --platform= --privileged -p= --publish= -P --publish-all --pull= -q --quiet --read-only --restart= --rm --security-opt=
    --shm-size= --stop-timeout= --sysctl= --tmpfs= -t --tty --ulimit= -u= --user= --userns= -v= --volume= --volumes-from=
    -w= --workdir= --pod=
"""
# An option that is not listed may take a value; then it is unknown which word is the command.
_exec: Final = partial(Program, strict=True, permutes=False, tail="command", remote=True, operands="plain")
_INSIDE: Final = {"exec": _exec(options=_EXECUTED), **rows("run create", _exec(options=_RUN))}
_COMPOSE: Final = Program(
    permutes=False,
    options="-f=reads --file=reads -p= --project-name= --profile= --env-file=reads --project-directory=folder --ansi= --progress=",
    commands={
        "exec": _exec(options=_EXECUTED),
        "run": _exec(
            options=_RUN + " -T --build --no-deps --service-ports --use-aliases --remove-orphans --quiet-pull"
        ),
    },
)
_KUBECTL_GLOBAL: Final = """
    -n= --namespace= --context= --cluster= --user= --token= --as= --as-group= -s= --server=
    --request-timeout= -v= --v= --profile-output=writes
"""
_FILES: Final = "-f=reads --filename=reads -k=reads --kustomize=reads -o= -l="

CONTAINERS: Final[Mapping[str, Program]] = {
    **rows(
        "docker podman nerdctl",
        Program(
            permutes=False,
            options="""--config=code -c= --context= -H= --host= -l= --log-level= --tlscacert=reads --tlscert=reads
                --tlskey=reads --url= --connection= --identity= --root= --namespace= -n=""",
            commands={
                **_INSIDE,
                "container": Program(permutes=False, commands=_INSIDE),
                "compose": _COMPOSE,
                "build": Program(
                    options="-f=reads --file=reads -t= --tag= --build-arg= --target= --platform= -o= --iidfile=writes",
                    operands="reads?",
                ),
                "cp": Program(hosts=True, operands="reads writes"),
                "unshare": Program(opaque="starts a command"),
            },
        ),
    ),
    **rows("docker-compose podman-compose", _COMPOSE),
    **rows(
        "kubectl oc",
        Program(
            permutes=False,
            # Its settings name programs that it starts to log in.
            code_words=r"--kubeconfig.*",
            options=_KUBECTL_GLOBAL,
            commands={
                **rows("exec run debug", Program(reader="exec_in", remote=True, options=_KUBECTL_GLOBAL)),
                "cp": Program(hosts=True, operands="reads writes", options=_KUBECTL_GLOBAL + "-c= --container="),
                **rows("apply create delete replace diff", Program(options=_KUBECTL_GLOBAL + _FILES)),
                "kustomize": Program(options="--helm-command=program --enable-exec!code --enable-alpha-plugins!code"),
            },
        ),
    ),
    "helm": Program(options="--post-renderer=program --kubeconfig=code -f=reads --values=reads"),
    **rows("apt apt-get aptitude", Program(options="-o=code --option=code -c=code --config-file=code -t=")),
    **rows(
        "dpkg dpkg-query", Program(code_words=r"--(pre-invoke|post-invoke|root|admindir|instdir|status-logger)\b.*")
    ),
    **rows("yum dnf pacman apk", Program(options="-c=code --config=code --hookdir=code")),
    "gh": Program(
        permutes=False,
        commands={
            "alias": Program(opaque="may set an alias, which executes commands"),
            "extension": Program(opaque="may run an extension"),
        },
    ),
}
