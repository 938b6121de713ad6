"""Containers, clusters, clouds and the system: they start commands on other machines or as another user."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_PLAIN: Final = Program()
_reading: Final = partial(Program, reading="free")

_EXECUTED: Final = "-d --detach --detach-keys= -e= --env= --env-file=reads -i --interactive --privileged -t --tty -u= --user= -w= --workdir= -T --no-TTY --index= -it --latest --no-deps"
_RUN: Final = """
    -a= --attach= --add-host= --annotation= --blkio-weight= --blkio-weight-device= --cap-add= --cap-drop= --cgroup-parent= --cgroupns=
    --cidfile=writes -c= --cpu-count= --cpu-percent= --cpu-period= --cpu-quota= --cpu-rt-period= --cpu-rt-runtime= --cpu-shares=
    --cpus= --cpuset-cpus= --cpuset-mems= -d --detach --detach-keys= --device= --device-cgroup-rule= --device-read-bps=
    --device-read-iops= --device-write-bps= --device-write-iops= --disable-content-trust --dns= --dns-option= --dns-search=
    --domainname= --entrypoint=program -e= --env= --env-file=reads --expose= --gpus= --group-add= --health-cmd= --health-interval=
    --health-retries= --health-start-period= --health-timeout= --health-start-interval= -h= --hostname= --init -i --interactive --ip=
    --ip6= --ipc= --isolation= --kernel-memory= -l= --label= --label-file=reads --link= --link-local-ip= --log-driver= --log-opt=
    --mac-address= -m= --memory= --memory-reservation= --memory-swap= --memory-swappiness= --mount= --name= --net= --network=
    --network-alias= --no-healthcheck --oom-kill-disable --oom-score-adj= --pid= --pids-limit= --platform= --privileged -p= --publish=
    -P --publish-all --pull= -q --quiet --read-only --restart= --rm --runtime= --security-opt= --shm-size= --sig-proxy --stop-signal=
    --stop-timeout= --storage-opt= --sysctl= --tmpfs= -t --tty --ulimit= -u= --user= --userns= --uts= -v= --volume= --volume-driver=
    --volumes-from= -w= --workdir= --replace --pod= --secret= --systemd= --arch= --os= --tls-verify?
"""
_exec: Final = partial(Program, strict=True, permutes=False, tail="command", remote=True)
_ENTERED: Final = _exec(options=_EXECUTED, operands="plain")
_RUNNING: Final = _exec(options=_RUN, operands="plain")
_COMPOSE: Final = Program(
    permutes=False,
    options="-f=reads --file=reads -p= --project-name= --profile= --env-file=reads --project-directory=folder --parallel= --ansi= --progress= --compatibility --dry-run --all-resources -v --verbose --version",
    commands={
        "exec": _ENTERED,
        "run": _exec(
            options=_EXECUTED
            + "--build --cap-add= --cap-drop= --entrypoint=program -l= --label= --name= -P --service-ports -p= --publish= --pull= --quiet-pull --remove-orphans --rm --use-aliases -v= --volume= -q --quiet",
            operands="plain",
        ),
        **rows(
            "ps logs config images top ls port version events convert stats volumes",
            _PLAIN,
        ),
        **rows(
            """up down build start stop restart pull push rm kill create pause unpause cp watch attach wait scale commit
export publish bridge""",
            _PLAIN,
        ),
    },
)
_DOCKER_READING: Final = "ps images logs inspect version info top port diff history search stats events"
_DOCKER: Final = Program(
    permutes=False,
    options="--config=code -c= --context= -D --debug -H= --host= -l= --log-level= --tls --tlscacert=reads --tlscert=reads --tlskey=reads --tlsverify -v --version --url= --connection= --identity= --root= --namespace= -n=",
    commands={
        "exec": _ENTERED,
        **rows("run create", _RUNNING),
        "container": Program(
            permutes=False,
            commands={
                "exec": _ENTERED,
                **rows("run create", _RUNNING),
                **rows("ls list ps logs inspect top port diff stats", _reading()),
            },
        ),
        "compose": _COMPOSE,
        **dict.fromkeys(_DOCKER_READING.split(), _reading()),
        "build": Program(
            options="-f=reads --file=reads -t= --tag= --build-arg= --target= --platform= -o=plain --output= --secret= --ssh= --iidfile=writes --cache-from= --cache-to= --progress= --label= --network= --metadata-file=writes -q --no-cache --pull --push --load",
            operands="reads?",
        ),
        "cp": Program(hosts=True, operands="reads writes", options="-a -L -q --archive --follow-link"),
        "save": Program(options="-o=writes --output=writes"),
        "export": Program(options="-o=writes --output=writes"),
        "load": Program(options="-i=reads --input=reads"),
        "image": Program(permutes=False, commands=rows("ls list inspect history", _reading())),
        "network": Program(permutes=False, commands=rows("ls list inspect", _reading())),
        "volume": Program(permutes=False, commands=rows("ls list inspect", _reading())),
        "unshare": Program(permutes=False, strict=True, options="--rootless-netns", tail="command"),
    },
)
_KUBECTL_GLOBAL: Final = " -n= --namespace= --context= --kubeconfig=code --cluster= --user= --token= --as= --as-group= -s= --server= --request-timeout= -v= --v= --cache-dir= --certificate-authority=reads --client-key=reads --client-certificate=reads --insecure-skip-tls-verify? --password= --username= --profile= --profile-output=writes --tls-server-name= --match-server-version? --warnings-as-errors? "
_KUBECTL: Final = Program(
    permutes=False,
    options=_KUBECTL_GLOBAL,
    commands={
        "exec": Program(
            strict=True,
            reader="exec_in",
            remote=True,
            options=_KUBECTL_GLOBAL
            + "-c= --container= -i --stdin? -t --tty? -q --quiet? -f=reads --filename=reads --pod-running-timeout= -it -ti",
        ),
        "run": Program(
            strict=True,
            reader="exec_in",
            remote=True,
            options=_KUBECTL_GLOBAL
            + "--image= --rm? -i --stdin? -t --tty? --restart= --env= --port= -l= --labels= --overrides= --override-type= --command? --dry-run? -o= --output= --image-pull-policy= --attach? --expose? --pod-running-timeout= --privileged? -q --quiet? --annotations= --field-manager= --leave-stdin-open? --grace-period= --timeout= --wait? --force?",
        ),
        "debug": Program(
            strict=True,
            reader="exec_in",
            remote=True,
            options=_KUBECTL_GLOBAL
            + "--image= -it -i -t --stdin? --tty? --target= -c= --container= --copy-to= --share-processes? --profile= --env= -q --attach? --same-node? --replace? --set-image= --image-pull-policy= --arguments-only?",
        ),
        **rows(
            """get describe logs top explain api-resources api-versions version cluster-info events""",
            _reading(),
        ),
        "config": Program(),
        "cp": Program(
            hosts=True, operands="reads writes", options=_KUBECTL_GLOBAL + "-c= --container= --no-preserve? --retries="
        ),
        **rows(
            "apply create delete replace patch",
            Program(
                options=_KUBECTL_GLOBAL
                + "-f=reads --filename=reads -k=reads --kustomize=reads -o= -l= -p= --type= --patch-file=reads --from-file=reads --from-env-file=reads --image="
            ),
        ),
        "diff": Program(options="-f=reads --filename=reads -k=reads"),
        "edit": Program(),
        "kustomize": Program(
            options="--enable-helm --helm-command=program --enable-exec!code --enable-alpha-plugins!code -o=writes",
            operands="reads?",
        ),
    },
)
_wrapper: Final = partial(Program, strict=True, permutes=False, tail="command")
_SU: Final = "-l --login -m -p --preserve-environment -P --pty -f --fast -w= --whitelist-environment= -G= --supp-group= -g= --group= -h --help -V --version -T --no-pty"

CONTAINERS: Final[Mapping[str, Program]] = {
    **rows("docker podman nerdctl", _DOCKER),
    **rows("docker-compose podman-compose", _COMPOSE),
    **rows("kubectl oc k3s-kubectl", _KUBECTL),
    "helm": Program(
        options="--post-renderer=program --kubeconfig=code -f=reads --values=reads --set= --set-string= --set-file= -n= --namespace= --version= --repo= --kube-context= --timeout=",
        permutes=True,
    ),
    "minikube": Program(
        permutes=False,
        commands={
            "kubectl": Program(permutes=False, tail="command", started="kubectl"),
            "ssh": Program(permutes=False, tail="shell", remote=True),
        },
    ),
    **rows(
        "lxc incus",
        Program(
            permutes=False,
            commands={"exec": _exec(options="-t -T -n --cwd= --env= --user= --group= --mode=", operands="plain")},
        ),
    ),
    "lxc-attach": _exec(
        options="-n= --name= -e --elevated-privileges? -s= -v= --set-var= --clear-env --keep-env -u= -g="
    ),
    "systemd-nspawn": _exec(
        options="-D= --directory= -b -M= --machine= -u= --user= --chdir= -E= --bind= --bind-ro= -q --private-network --image= -i= -x --as-pid2"
    ),
    "machinectl": Program(opaque="may start a shell on another machine"),
    "chroot": _wrapper(displaced=True, options="--groups= --userspec= --skip-chdir --help --version", operands="plain"),
    **rows("proot schroot fakechroot", Program(opaque="its options are not in the tables")),
    "nsenter": _wrapper(
        displaced=True,
        options="-a --all -t= --target= -m? --mount? -u? --uts? -i? --ipc? -n? --net? -N= --net-socket= -p? --pid? -C? --cgroup? -U? --user? -T? --time? -S= --setuid= -G= --setgid= --preserve-credentials --keep-caps -r? --root? -w? --wd? -W= --wdns= -e --env -F --no-fork -Z --follow-context -c --join-cgroup -h -V",
    ),
    "unshare": _wrapper(
        options="-m? --mount? -u? --uts? -i? --ipc? -n? --net? -p? --pid? -U? --user? -C? --cgroup? -T? --time? --mount-proc? --map-user= --map-group= -r --map-root-user -c --map-current-user --map-auto --map-users= --map-groups= --propagation= --setgroups= -R=code --root=code -w=folder --wd=folder -S= --setuid= -G= --setgid= --keep-caps --monotonic= --boottime= -f --fork --kill-child? --load-interp=code -l=code --forward-signals -h -V"
    ),
    **rows("bwrap", Program(reader="bwrap", displaced=True)),
    "firejail": _wrapper(
        options="--private? --net= --noprofile --quiet --profile=code --seccomp? --caps? --read-only= --blacklist= --whitelist= --noroot --nogroups --name= --env=sets --x11? --debug --allusers --tmpfs= --private-tmp --private-dev --overlay? --appimage --ip= --dns= --timeout= --rlimit-as= --shell=code --output=writes --output-stderr=writes"
    ),
    "su": Program(
        reader="su",
        strict=True,
        options=_SU + " -c=shell --command=shell --session-command=shell -s=program --shell=program",
    ),
    "runuser": Program(
        reader="su",
        strict=True,
        options=_SU + " -c=shell --command=shell --session-command=shell -s=program --shell=program -u= --user=",
    ),
    **rows("sg", Program(strict=True, permutes=False, options="-l", operands="plain", tail="text")),
    "newgrp": Program(reader="shell_from_stdin", options="-l"),
    **rows("login", Program(opaque="starts a shell")),
    "pkexec": _wrapper(options="--user= --disable-internal-agent --keep-cwd --version --help"),
    "run0": _wrapper(
        options="-u= --user= -g= --group= --unit= --property= --slice= -D= --chdir= --setenv=sets --background= --nice= --pipe --pty"
    ),
    **rows("gosu su-exec setuidgid", _wrapper(options="", operands="plain")),
    "setpriv": _wrapper(
        options="--reuid= --regid= --clear-groups --keep-groups --init-groups --groups= --inh-caps= --ambient-caps= --bounding-set= --no-new-privs --nnp --securebits= --reset-env --pdeathsig= --selinux-label= --apparmor-profile= --ruid= --euid= --rgid= --egid= --ptracer= --landlock-access= --landlock-rule= --seccomp-filter= -d"
    ),
    "capsh": Program(opaque="its options start shells"),
    "runcon": _wrapper(options="-c -t= -u= -r= -l= --compute --type= --user= --role= --range=", operands="plain"),
    "systemd-run": _wrapper(
        options="--user --system --scope -u= --unit= -p= --property= --description= --slice= --slice-inherit -r --remain-after-exit --send-sighup --service-type= --uid= --gid= --nice= --working-directory=folder -d --same-dir -E=sets --setenv=sets -t --pty -P --pipe -q --quiet -G --collect --wait -S --shell --no-block --no-ask-password --on-active= --on-boot= --on-startup= --on-unit-active= --on-calendar= --timer-property= --path-property= --socket-property= -H=code --host=code -M=code --machine=code --expand-environment? --job-mode= --background= --json= --ignore-failure"
    ),
    "systemd-inhibit": _wrapper(options="--what= --who= --why= --mode= --list --no-pager --no-legend"),
    "systemd-cat": _wrapper(
        options="-t= --identifier= -p= --priority= --stderr-priority= --level-prefix= --namespace="
    ),
    **rows(
        """systemctl journalctl service launchctl sysctl loginctl timedatectl hostnamectl localectl""",
        _PLAIN,
    ),
    **rows(
        "apt apt-get apt-cache aptitude",
        Program(
            options="-o=code --option=code -c=code --config-file=code -t= --target-release= -y -q -s -d -f -m -u -V -a= --yes --quiet --no-install-recommends --assume-yes --assume-no --install-suggests --fix-broken --allow-unauthenticated --allow-downgrades --reinstall --purge --download-only --simulate --dry-run --no-upgrade --only-upgrade --installed --upgradable --all-versions",
            permutes=True,
        ),
    ),
    **rows(
        "dpkg dpkg-deb dpkg-query",
        Program(
            options="--pre-invoke=shell --post-invoke=shell --root=code --admindir=code --instdir=code --status-logger=shell -i -l -L -s -S -r -P --force-all -R --install --remove --purge --configure -a -x -X -e -I -c -b"
        ),
    ),
    **rows(
        "rpm rpmbuild rpm2cpio",
        Program(
            options="-E=code --eval=code --pipe=shell --define=code -D=code --macros=code --rcfile=code --load=code --dbpath= --root=code"
        ),
    ),
    **rows(
        """yum dnf microdnf zypper pacman apk brew port snap flatpak emerge xbps-install choco winget scoop""",
        Program(options="-c=code --config=code --hookdir=code"),
    ),
    **rows(
        "nix nix-shell nix-build nix-env nix-instantiate nix-store",
        Program(
            reader="nix",
            options="--run=shell --command=shell -c=code --expr=code -E=code -p= --packages= -A= --attr= --pure -i=program -f=runs --file=runs --argstr= --arg= -I= --option= --extra-experimental-features= --impure -j= -K -k -v",
        ),
    ),
    "guix": Program(opaque="its options are not in the tables"),
    **rows(
        """aws az gcloud gh glab doctl heroku flyctl fly vercel netlify firebase supabase wrangler railway sfdx sf
pulumi cdk sam sls serverless sst eksctl kind k3d skaffold kustomize argocd flux istioctl vault consul
nomad packer waypoint crictl ctr buildah skopeo hugo jekyll mc s3cmd ufw wp ansible-lint cf stern k9s
kubectx kubens doctor""",
        _PLAIN,
    ),
    "gh": Program(
        permutes=False,
        commands={
            "alias": Program(
                permutes=False,
                commands={
                    "set": Program(opaque="sets an alias, which may execute commands"),
                    "import": Program(opaque="sets aliases, which may execute commands"),
                },
            ),
            "extension": _PLAIN,
            "api": Program(),
            "config": Program(options="", operands=""),
        },
    ),
    "buildah": Program(
        permutes=False,
        commands={
            "run": _exec(
                options="--user= --volume= -v= -e= --env= --workingdir= --isolation= -t --tty", operands="plain"
            )
        },
    ),
    "toolbox": Program(
        permutes=False,
        commands={
            "run": _exec(options="-c= --container= -d= -r="),
            "enter": Program(reader="shell_from_stdin", options="-c= --container= -d= --distro= -r= --release="),
        },
    ),
    "distrobox": Program(opaque="starts commands on another machine"),
    "vault": Program(),
    "act": Program(),
}
