"""What runs inside of an emulated host (``hosts.py``): its first process, and how others talk to it."""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import uuid

LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET, NEWTIME = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000, 0x00000080
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
NETWORK = "10.77.0."
MAKES = {"clock": "/proc/self/timens_offsets"}


def check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags):
    check(LIBC.unshare(flags), "unshare")


def mount(source, target, kind="none", flags=0, data=""):
    check(
        LIBC.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()),
        f"mount {target}",
    )


def die_with_parent():
    check(LIBC.prctl(1, signal.SIGKILL, 0, 0, 0), "prctl")


def send(connection, message, descriptors=()):
    data = json.dumps(message).encode()
    head = struct.pack("I", len(data))
    if descriptors:
        socket.send_fds(connection, [head], list(descriptors))
    else:
        connection.sendall(head)
    connection.sendall(data)


def receive(connection):
    """A message and the descriptors that came with it; (None, []) at the end."""
    head, descriptors = b"", []
    while len(head) < 4:
        part, came, _, _ = socket.recv_fds(connection, 4 - len(head), 8)
        descriptors += came
        if not part:
            return None, descriptors
        head += part
    size, data = struct.unpack("I", head)[0], b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return None, descriptors
        data += part
    return json.loads(data), descriptors


class Host:
    """What runs as process 1 of a host: it starts what is asked for at a socket, and reaps what is orphaned."""

    def __init__(self, index, state, args, environ, lifeline):
        self.index, self.state, self.args, self.environ, self.lifeline = index, state, args, environ, lifeline
        self.name = name_of(index, args)
        self.asked = {}  # pid -> connection

    def set_up(self):
        socket.sethostname(self.name)
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        mount("proc", "/proc", "proc")
        groups = os.path.ismount("/sys/fs/cgroup")
        if groups:
            hold = os.path.join(self.state, "cgroup")
            os.makedirs(hold, exist_ok=True)
            mount("/sys/fs/cgroup", hold, flags=MS_BIND | MS_REC)
        mount("sysfs", "/sys", "sysfs")
        if groups:
            mount(hold, "/sys/fs/cgroup", flags=MS_BIND | MS_REC)
        mount("tmpfs", "/dev/shm", "tmpfs", data="mode=1777")
        mount("tmpfs", os.path.join(self.state, "tmp"), "tmpfs", data="mode=1777")
        own = f"{address_of(self.index)} {self.args.same_name}\n" if self.args.same_name else ""
        name = "host" if self.args.same_name else self.args.name
        hosts = "".join(f"{address_of(i)} {name}{i}\n" for i in range(self.args.hosts))
        self._put("/etc/hosts", f"127.0.0.1 localhost\n{own}{hosts}")
        self._put("/etc/hostname", f"{self.name}\n")
        self._put("/etc/resolv.conf", "# no name server\n")
        self._put("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
        self._put("/etc/machine-id", f"{uuid.uuid4().hex}\n")
        self._put("/proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        for path in self.args.private:
            self._make_private(path)
        for path in self.args.empty:
            mount("tmpfs", path, "tmpfs", data="mode=1777")
        run("ip", "link", "set", "lo", "up")
        run("ip", "addr", "add", f"{address_of(self.index)}/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        run("ip", "route", "add", "default", "via", NETWORK + "254")
        if self.args.delay:
            run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", f"{self.args.delay}ms")
        elif self.args.rate:
            run(
                "tc",
                "qdisc",
                "add",
                "dev",
                "eth0",
                "root",
                "tbf",
                "rate",
                self.args.rate,
                "burst",
                "256kbit",
                "latency",
                "200ms",
            )
        if self.args.pin:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[self.index % len(cores)]})

    def _put(self, path, text):
        if os.path.exists(path):
            mine = os.path.join(self.state, f"{path.strip('/').replace('/', '-')}.{self.index}")
            with open(mine, "w") as file:
                file.write(text)
            mount(mine, path, flags=MS_BIND)

    def _make_private(self, path):
        """What lies there is seen, what is written there is this host's."""
        base = os.path.join(self.args.keep or self.state, self.name if not self.args.same_name else f"host{self.index}")
        upper, work = base + path, os.path.join(self.state, f"work{self.index}", path.strip("/").replace("/", "-"))
        if self.args.keep:
            work = os.path.join(base, ".work", path.strip("/").replace("/", "-"))
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        shutil.copymode(path, upper)
        mount("overlay", path, "overlay", data=f"lowerdir={path},upperdir={upper},workdir={work}")

    def listen(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(self.state, "sockets", str(self.index)))
        listener.listen(64)
        return listener

    def serve(self, listener):
        bell, ringing = os.pipe()
        for end in (bell, ringing):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(ringing)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        poll = select.poll()
        for what in (listener, bell, self.lifeline):
            poll.register(what, select.POLLIN)
        waiting = {}
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.lifeline:
                    return
                if descriptor == bell:
                    with contextlib.suppress(BlockingIOError):
                        os.read(bell, 4096)
                    self._reap()
                elif descriptor == listener.fileno():
                    connection, _ = listener.accept()
                    waiting[connection.fileno()] = connection
                    poll.register(connection, select.POLLIN)
                elif not self._attend(waiting[descriptor]):
                    poll.unregister(descriptor)
                    waiting.pop(descriptor)  # the answer may still have to go there: kept by self.asked

    def _attend(self, connection):
        with contextlib.suppress(ConnectionError):
            message, descriptors = receive(connection)
            if message is None:
                return False
            if "signal" in message:
                for pid, to in list(self.asked.items()):
                    if to is connection:
                        with contextlib.suppress(OSError):
                            (os.killpg if message.get("group") else os.kill)(pid, message["signal"])
                return True
            self._start(connection, message, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        return False

    def _start(self, connection, message, descriptors):
        pid = os.fork()
        if pid:
            self.asked[pid] = connection
            return
        try:
            os.setsid()
            for number, descriptor in enumerate(descriptors[:3]):
                os.dup2(descriptor, number)
            os.closerange(3, 4096)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            environ = {**self.environ, **message.get("environ", {})}
            with contextlib.suppress(OSError):
                os.chdir(message.get("cwd") or environ.get("HOME", "/"))
            os.execvpe(message["command"][0], message["command"], environ)
        except OSError as error:
            os.write(2, f"{message['command'][0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)

    def _reap(self):
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                connection = self.asked.pop(pid, None)
                if connection is not None:
                    with contextlib.suppress(OSError):
                        send(connection, {"ended": os.waitstatus_to_exitcode(status)})


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(0, f"{' '.join(command)}: {done.stderr.strip()}")


def name_of(index, args):
    return args.same_name or f"{args.name}{index}"


def address_of(index):
    return f"{NETWORK}{index + 1}"


def become_host(index, state, args, environ, ready, lifeline, go):
    """The process that a host hangs on: outside of it, but for the namespaces that only its children enter."""
    die_with_parent()
    unshare(NEWNS | NEWUTS | NEWIPC | NEWNET | NEWPID | (NEWTIME if args.clock_step else 0))
    if args.clock_step:
        step = args.clock_step * index
        whole = int(step // 1)
        nanoseconds = int((step - whole) * 1e9)
        with open(MAKES["clock"], "w") as file:
            file.write(f"monotonic {whole} {nanoseconds}\nboottime {whole} {nanoseconds}\n")
    pid = os.fork()
    if pid == 0:
        try:
            die_with_parent()
            os.read(go, 1)
            os.close(go)
            host = Host(index, state, args, environ, lifeline)
            host.set_up()
            listener = host.listen()
            os.write(ready, b"up\n")
            os.close(ready)
            host.serve(listener)
            os._exit(0)  # which kills all that is left on this host
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.write(ready, f"host {index}: {error}\n".encode())
            os._exit(1)
    os.write(ready, f"{pid}\n".encode())
    os.close(ready)
    os.waitpid(pid, 0)
    os._exit(0)
