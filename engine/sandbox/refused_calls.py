"""The system calls that a box refuses, with their numbers. Values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

Machine = Literal["x86_64", "aarch64"]

# As `linux/audit.h` calls them: the machine, 64 bits, little endian.
AUDIT_MACHINES: Final[Mapping[Machine, int]] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Numbers above were added to Linux after this table was written.
LAST_NUMBER: Final = 470

# Name, number on x86-64 and on aarch64; -1: not there. From number 424 on, both use the same numbers.
# Change who may use a file, its times or its attributes by its path: Landlock does not restrict these.
_ATTRIBUTES_BY_PATH: Final = """
chmod 90 -1, fchmodat 268 53, fchmodat2 452 452, chown 92 -1, lchown 94 -1, fchownat 260 54, utime 132 -1, utimes 235 -1,
futimesat 261 -1, setxattr 188 5, lsetxattr 189 6, setxattrat 463 463, removexattr 197 14, lremovexattr 198 15,
removexattrat 466 466, file_setattr 469 469
"""
# The same of a file that is open. What can be opened, Landlock restricts.
_ATTRIBUTES_OF_OPEN_FILES: Final = """
fchmod 91 52, fchown 93 55, utimensat 280 88, fsetxattr 190 7, fremovexattr 199 16
"""
_SOCKETS: Final = "socket 41 198"
# Shared memory, semaphores and message queues: other processes of the user may use them, and they have no path.
_SHARED_OBJECTS: Final = """
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semtimedop 220 192, semctl 66 191, msgget 68 186,
msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181
"""
_OTHER_PROCESSES: Final = """
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, process_mrelease 448 448,
pidfd_getfd 438 438, kcmp 312 272, move_pages 279 239, migrate_pages 256 238
"""
# Only where the kernel's Landlock can't keep signals inside (before Linux 6.12).
SIGNALS: Final = """
kill 62 129, tkill 200 130, tgkill 234 131, pidfd_send_signal 424 424, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240
"""
# Mostly for root, since Landlock does not keep root from changing the machine; and ways around Landlock.
_MACHINE: Final = """
unshare 272 97, setns 308 268, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, move_mount 429 429,
open_tree 428 428, open_tree_attr 467 467, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433,
mount_setattr 442 442, name_to_handle_at 303 264, open_by_handle_at 304 265, fanotify_init 300 262, fanotify_mark 301 263,
keyctl 250 219, add_key 248 217, request_key 249 218, io_uring_setup 425 425, io_uring_enter 426 426,
io_uring_register 427 427, bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, reboot 169 142, kexec_load 246 104,
kexec_file_load 320 294, init_module 175 105, finit_module 313 273, delete_module 176 106, swapon 167 224, swapoff 168 225,
sethostname 170 161, setdomainname 171 162, settimeofday 164 170, clock_settime 227 112, clock_adjtime 305 266,
adjtimex 159 171, acct 163 89, quotactl 179 60, quotactl_fd 443 443, iopl 172 -1, ioperm 173 -1, syslog 103 116,
vhangup 153 58
"""

# What a box refuses in any case, in the order of the numbers' use: the more often a call is made, the later it may come.
ALWAYS_REFUSED: Final = ",".join((_ATTRIBUTES_BY_PATH, _SHARED_OBJECTS, _OTHER_PROCESSES, _MACHINE))
# What a box in which nothing can be changed refuses as well.
READER_REFUSED: Final = _ATTRIBUTES_OF_OPEN_FILES
NETWORK: Final = _SOCKETS
# What namespaces do not keep inside: the user's keys, calls that no filter sees, and files that have no name in the box
# (in newer kernels a user namespace is enough to open one by its handle: seen with 6.18).
NOT_IN_NAMESPACES: Final = """
keyctl 250 219, add_key 248 217, request_key 249 218, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427,
open_by_handle_at 304 265
"""
# The same, and what reaches far into the kernel, or takes a file from another process. Containers refuse these as well.
NOT_IN_SANDBOX: Final = f"""{NOT_IN_NAMESPACES},
bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, pidfd_getfd 438 438
"""


@attrs.frozen
class Condition:
    """A call that is refused only with certain arguments.

    Attributes:
        call: its name and numbers, as in the lists above.
        argument: the number of the argument, from 0.
        mask: refused if any of these bits of the argument's lower half is set; 0: if it is one of *values*.
        values: see *mask*; empty: refused unless the argument is 0.
        only: *values* are those that are not refused.
    """

    call: str
    argument: int
    mask: int = 0
    values: tuple[int, ...] = ()
    only: bool = False


# `CLONE_NEW…`: namespaces, in which a process would have all capabilities. CLONE_PARENT: a child of the engine's own.
_REFUSED_CHILDREN: Final = 0x7E02_0000 | 0x8000
# What can be asked of a terminal, a pipe and a file, and copying into a file that is open for writing. All others are
# refused: many file systems have some that change a file, or make a folder, through what was opened for reading.
# TCGETS, TCGETS2, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOQSIZE.
_TERMINAL_CONTROLS: Final = (0x5401, 0x802C542A, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x5460)
# FIGETBSZ, FIEMAP, FS_IOC_GETFLAGS and its 32-bit form, GETVERSION, FSGETXATTR, FICLONE, FICLONERANGE.
_FILE_CONTROLS: Final = (0x2, 0xC020660B, 0x80086601, 0x80046601, 0x80087601, 0x801C581F, 0x40049409, 0x4020940D)

# A pair of sockets for datagrams (SOCK_DGRAM, SOCK_RAW) can send to any other one by its path; one of streams can't. And
# only local ones.
SOCKET_PAIRS: Final = (
    Condition("socketpair 53 199", 1, mask=2),
    Condition("socketpair 53 199", 0, values=(1,), only=True),
)
CONDITIONS: Final = (
    *SOCKET_PAIRS,
    Condition("clone 56 220", 0, mask=_REFUSED_CHILDREN),
    Condition("ioctl 16 29", 1, values=(*_TERMINAL_CONTROLS, *_FILE_CONTROLS), only=True),
    # Of all the user's processes: PRIO_USER, IOPRIO_WHO_USER.
    Condition("setpriority 141 140", 0, values=(2,)),
    Condition("ioprio_set 251 30", 0, values=(3,)),
    # Of other processes: the process that calls is 0.
    Condition("prlimit64 302 261", 0),
    Condition("setpriority 141 140", 1),
    Condition("ioprio_set 251 30", 1),
    Condition("sched_setaffinity 203 122", 0),
    Condition("sched_setscheduler 144 119", 0),
    Condition("sched_setparam 142 118", 0),
    Condition("sched_setattr 314 274", 0),
)
# A process that leaves its group outlives a signal to all of it: one that forks and leaves again and again can't be caught.
GROUPS: Final = "setpgid 109 154"
# The engine starts a command as the leader of a session. Nobody else may begin one.
SESSIONS: Final = "setsid 112 157"
# Memory that is a file without a place: no process shows how much it has.
UNSEEN_MEMORY: Final = "memfd_create 319 279, memfd_secret 447 447"
# Which process a file signals, and how: F_SETOWN, F_SETSIG, F_SETOWN_EX. Refused where signals are.
SIGNALS_OF_FILES: Final = Condition("fcntl 72 25", 1, values=(8, 10, 15))
# Those that a network namespace keeps inside: IPv4, IPv6, netlink. What listens at a path, or in the machine that runs this
# virtual one (AF_VSOCK), is outside.
SOCKETS_INSIDE: Final = Condition("socket 41 198", 0, values=(2, 10, 16), only=True)
# The same with local ones: what listens at a path outside is hidden.
SOCKETS_OF_PROGRAMS: Final = Condition("socket 41 198", 0, values=(1, 2, 10, 16), only=True)
# Of the first process of the namespace, which is bubblewrap's own: not to be traced, read or written.
FIRST_PROCESS: Final = (
    Condition("ptrace 101 117", 1, values=(1,)),
    Condition("process_vm_readv 310 270", 0, values=(1,)),
    Condition("process_vm_writev 311 271", 0, values=(1,)),
)
# By path if its second argument is one, else of an open file.
TIMES_BY_PATH: Final = Condition("utimensat 280 88", 1)
# Its arguments are in memory, where a filter can't see them. Programs fall back to `clone`.
NOT_IMPLEMENTED: Final = "clone3 435 435"


def numbers(calls: str, machine: Machine) -> list[int]:
    """Return the numbers of *calls* on a machine, without those that are not there."""
    column = 1 if machine == "x86_64" else 2
    listed = (int(call.split()[column]) for call in calls.split(","))
    return [number for number in listed if number >= 0]
