"""What a thread of this host is blocked in, as the kernel says: nothing is sent to its process or stops it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from scalana.live.kernel_files import text_of

_CALLS = {
    "x86_64": {
        0: "read", 1: "write", 7: "poll", 17: "read", 18: "write", 19: "read", 20: "write", 23: "select", 35: "sleep",
        42: "connect", 43: "accept", 44: "send", 45: "receive", 46: "send", 47: "receive", 61: "wait", 72: "lock",
        73: "lock", 74: "sync", 75: "sync", 202: "futex", 230: "sleep", 232: "epoll", 247: "wait", 257: "open",
        270: "select", 271: "poll", 281: "epoll", 288: "accept", 295: "read", 296: "write", 441: "epoll",
    },
    "aarch64": {
        22: "epoll", 25: "lock", 32: "lock", 56: "open", 63: "read", 64: "write", 65: "read", 66: "write", 72: "select",
        73: "poll", 82: "sync", 83: "sync", 95: "wait", 98: "futex", 101: "sleep", 115: "sleep", 202: "accept",
        203: "connect", 206: "send", 207: "receive", 211: "send", 212: "receive", 242: "accept", 260: "wait",
    },
}  # fmt: skip
"""Calls of the kernel in which a thread may be for long, by the number that each has on a machine."""
_OF_FILE = {
    "read": "reading", "write": "writing", "connect": "connecting", "accept": "waiting for a connection to",
    "send": "sending to", "receive": "receiving from", "lock": "waiting for the lock of", "sync": "writing back",
}  # fmt: skip
"""Those whose first argument is an open file, in words."""
_OTHERS = {
    "poll": "waiting for files or sockets", "select": "waiting for files or sockets",
    "epoll": "waiting for files or sockets", "sleep": "sleeping", "wait": "waiting for a child process",
    "futex": "waiting for a lock or another thread", "open": "opening a file",
}  # fmt: skip
_PLACES = {
    "futex": "futex", "pipe_read": "read", "pipe_write": "write", "poll": "poll", "select": "select", "ep_": "epoll",
    "epoll": "epoll", "nanosleep": "sleep", "wait": "wait", "accept": "accept", "recvmsg": "receive", "lock": "lock",
}  # fmt: skip
"""Parts of the names of functions of the kernel that wait, for where calls are not shown: for other users' processes
and, on many systems, for processes that are no descendants."""
_STATES = {"T": "stopped by a signal", "t": "stopped by a debugger", "Z": "dead", "X": "dead"}
_RUNNING, _IN_KERNEL = "R", "D"


@dataclass(frozen=True, slots=True)
class Blocked:
    """What the kernel says of a thread."""

    words: str
    """What it is blocked in; empty where it runs, or nothing can be seen."""
    is_stopped: bool = False
    """Whether somebody has stopped or ended its process."""


def blocked_in(pid: int, tid: int) -> Blocked:
    """What a thread is blocked in. All that is read may be gone, or another user's: then it is not known."""
    state = _state(pid, tid)
    if state in _STATES:
        return Blocked(_STATES[state], True)
    if state == _RUNNING:
        return Blocked("")
    call, arguments = _call(pid, tid)
    words = _OTHERS.get(call) or {name: f"{does} a file or socket" for name, does in _OF_FILE.items()}.get(call, "")
    if call in _OF_FILE and arguments:
        words = f"{_OF_FILE[call]} {_file(pid, arguments[0])}"
        words += _holder(pid, arguments[0]) if call == "lock" else ""
    if call == "wait" and arguments and 0 < arguments[0] < 1 << 22:
        words = f"waiting for process {arguments[0]}"
    if state == _IN_KERNEL:
        words = f"{words or 'inside the kernel'}, where no signal reaches it"
    return Blocked(words)


def futex_of(pid: int, tid: int) -> int:
    """The address at which a thread waits for another one; 0 where it does not, or this is not known."""
    call, arguments = _call(pid, tid)
    return arguments[0] if call == "futex" and arguments else 0


def _state(pid: int, tid: int) -> str:
    text = text_of(f"/proc/{pid}/task/{tid}/stat")
    return text.rpartition(")")[2].strip()[:1]


def _call(pid: int, tid: int) -> tuple[str, list[int]]:
    """The call of the kernel that a thread is in, and its arguments."""
    words = text_of(f"/proc/{pid}/task/{tid}/syscall").split()
    if not words or not words[0].isdecimal():
        place = text_of(f"/proc/{pid}/task/{tid}/wchan")
        return next((call for part, call in _PLACES.items() if part in place), ""), []
    known = _CALLS.get(platform.machine(), {})
    return known.get(int(words[0]), ""), [int(word, 16) for word in words[1:7]]


def _file(pid: int, number: int) -> str:
    """An open file of a process, as users know it."""
    try:
        target = os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return f"file descriptor {number}"
    kind, _, inode = target.partition(":[")
    if kind == "socket":
        return _peer(pid, inode.rstrip("]")) or "a socket"
    return {"pipe": "a pipe"}.get(kind, target)


def _peer(pid: int, inode: str) -> str:
    """The other end of a socket of TCP."""
    for table in ("tcp", "tcp6"):
        for line in text_of(f"/proc/{pid}/net/{table}").splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[9] == inode:
                address, _, port = words[2].partition(":")
                return f"{_address(address)}:{int(port, 16)}"
    return ""


def _address(text: str) -> str:
    """An address of the kernel's tables, whose words are little-endian."""
    data = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    if len(data) == 4 or data[:12] == bytes(10) + b"\xff\xff":
        return ".".join(map(str, data[-4:]))
    return "[" + ":".join(data[at : at + 2].hex() for at in range(0, 16, 2)) + "]"


def _holder(pid: int, number: int) -> str:
    """Which process holds the lock of an open file."""
    try:
        inode = os.stat(f"/proc/{pid}/fd/{number}").st_ino
    except OSError:
        return ""
    for line in text_of("/proc/locks").splitlines():
        words = line.split()  # 1: FLOCK ADVISORY WRITE 1234 08:01:131087 0 EOF
        if "->" not in words and len(words) > 5 and words[5].rpartition(":")[2] == str(inode):
            return f", which process {words[4]} holds"
    return ""
