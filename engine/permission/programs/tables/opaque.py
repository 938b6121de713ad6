"""Programs that may run any command, of which nothing more is known: each use of them is asked about.

They are rare among the commands of developers. (A program in no table at all starts no commands of its own.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

OPAQUE: Final[Mapping[str, Program]] = {
    **rows(
        """
        act alacritty anacron ansible ansible-playbook arch at aws-vault batch buildah busybox bwrap capsh caffeinate
        catatonit catchsegv chamber choom chpst chronic chroot chrt concurrently conda coreutils cpulimit cross-env-shell
        daemon daemonize dbus-launch dbus-run-session distrobox doas doppler dotenv dumb-init eatmydata entr envchain
        envconsul envdir envuidgid execlineb fakechroot fakeroot firejail flock foot gnome-terminal gosu gpg-agent granted
        guix hatch hyperfine i386 i686 ifne incus infisical kexec kitty konsole ld.so linux logsave lxc lxc-attach
        machinectl mamba micromamba minikube mispipe mosh newgrp nix nix-build nix-env nix-instantiate nix-shell nix-store
        nodemon nsenter numactl nyc c8 op parallel pee perf pkexec prlimit proot proxychains proxychains4 reflex rlogin
        rlwrap remsh rsh rtx run-parts run0 runcon runsv runuser rush rxvt s6-setuidgid saml2aws schroot scriptlive
        scriptreplay script sem setarch setpriv setsebool setuidgid sg slogin softlimit sops sshpass ssh-agent autossh st
        start-stop-daemon strace ltrace su su-exec systemd-cat systemd-inhibit systemd-nspawn systemd-run taskset teller
        terminator tilix tini toolbox torify torsocks toybox ts-exec tsocks uname26 unbuffer unshare urxvt valgrind
        vaultenv wezterm with-contenv watch watchexec chokidar wireit x-terminal-emulator x86_64 xterm xvfb-run zrun
        """,
        Program(opaque="may start any command"),
    ),
    **rows(
        """
        abcl bb bpython bsh casperjs ccl chez clisp clj clojure coffee csh csi d8 dc duk ecl electron elixir elvish erl
        esno evcxr expect fish forth gforth ghc ghci gjs gnuplot gore gp gprolog graalpy groovy gsi gst guile hermes icon
        idl iex io ipdb ipython irb itclsh jiti joker js jsc jshell julia kotlin littler luajit lumo m4 maxima matlab
        micropython mksh mujs mzscheme nbb njs nu ocaml ocamlrun octave octave-cli osascript pdb perl6 petite phantomjs
        planck powershell pry pudb pwsh pythonw qjs r racket raku rakudo rdmd regina rexx rhino runghc runhaskell sage
        sbcl scala scheme scilab snobol4 spitbol sucrase-node swc-node babel-node ts-node-esm swipl tclsh tcsh utop wish
        wren xonsh yap yash cabal opam stack gs ghostscript bpftrace dtrace
        """,
        Program(opaque="runs program text"),
    ),
    **rows(
        """
        ack ag apropos ar borg brz bzr chg composite convert cpio crontab ctags cvs darcs dhclient diff3 dmsetup duckdb duplicity ed elvis
        emacs emacsclient ex exim exim4 fossil ftp fzf gdb gdbserver cgdb gvim helix hg hx identify info incrond joe kak ldconfig
        ld lftp lldb logrotate mail mailx magick mogrify mongo mongosh monit montage mutt nano nginx nmap nvi nvim
        objcopy openvpn pandoc pdflatex latexmk lualatex xelatex pico postfix pppd procmail ranlib red rename restic rpm
        rpmbuild rview rvim s-nail screen sdiff sendmail sftp smbclient socat ssh-add strip svn tcpdump tig tmux tshark unison
        vagrant vi view vile vim vimdiff visudo wireshark zless asciinema login
        """,
        Program(opaque="its options, its input or its settings may execute commands"),
    ),
    # Of these, only a few commands start others.
    **rows(
        "direnv mise asdf pyenv rbenv nodenv goenv jenv fnm volta nvm lerna",
        Program(strict=True, permutes=False, commands=rows("exec x run", Program(opaque="starts a command"))),
    ),
}
