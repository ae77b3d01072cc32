#!/usr/bin/env python3
"""Several hosts on one machine, out of Linux namespaces: to try what a program does on a cluster.

Root and the standard library only.

  hosts.py --hosts 2 -- sh -c 'torchrun --nnodes $HOSTS --node-rank $HOST_INDEX --nproc-per-node 2
                               --master-addr $HEAD_ADDR --master-port 29500 train.py'      the command, on every host
  hosts.py --hosts 2 --head -- mpirun -H host0:2,host1:2 ./app                             on host 0 alone

Each host has its own hostname (host0, host1, ...), boot id and machine id, process numbers, /proc, /sys, /dev/shm,
$TMPDIR (not /tmp), System V IPC, loopback and network card (10.77.0.1, .2, ...; all cards hang on one bridge that leads
nowhere else), and a monotonic clock that runs --clock-step seconds (1000) ahead of that of the host before.
Not its own: CPUs (--pin gives host N core N), the time of day (no namespace has that: all hosts agree on it to the
nanosecond), the clock of perf_event (native MPI programs: SCALANA_NATIVE_SAMPLES=signal, or --clock-step 0), devices,
and all files that no --private names. Ray needs --empty /tmp/ray.

Commands find in their environment: HOSTS, HOST_INDEX, HOST_NAME, HOST_ADDR, HEAD_NAME, HEAD_ADDR, HOSTFILE
("host0 slots=2" a line, see --slots), and on their PATH `on-host HOST COMMAND...`, which runs a command on another host
as ssh would: by a shell there, in the environment that hosts.py was started with, not that of the caller. It is called
`ssh` and `rsh` too, so that mpirun (Open MPI: as it is; MPICH: -launcher ssh), pdsh and deepspeed reach other hosts as
they always do.

When the time limit (--limit, 300 s) is over, or by Ctrl-C, the commands get a SIGTERM (SIGINT), and after --grace
seconds all processes of all hosts are killed; so they are when the commands have ended, or when hosts.py dies. Nothing
else is touched; namespaces and mounts go with their processes. The exit code is that of the first host whose command
failed, 124 past the time limit.
"""

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

from emulated_host import (
    NETWORK,
    NEWNET,
    address_of,
    become_host,
    die_with_parent,
    name_of,
    receive,
    run,
    send,
    unshare,
)

# ---- on-host, ssh


def on_host(state, words):
    """What ssh would do."""
    quiet = False
    while words and words[0].startswith("-"):
        word = words.pop(0)
        quiet |= word == "-n"
        if (
            word
            in ("-o", "-p", "-l", "-i", "-F", "-b", "-c", "-e", "-m", "-L", "-R", "-D", "-E", "-J", "-S", "-W", "-w")
            and words
        ):
            words.pop(0)
    if not words:
        sys.exit("usage: on-host HOST COMMAND...")
    with open(os.path.join(state, "names")) as file:
        names = json.load(file)
    name = words.pop(0).rpartition("@")[2]
    if name not in names:
        print(f"ssh: Could not resolve hostname {name}: Name or service not known", file=sys.stderr)
        sys.exit(255)
    if not words:
        sys.exit("on-host: there is no login shell here; name a command")
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.path.join(state, "sockets", str(names[name])))
    except OSError:
        print(f"ssh: connect to host {name} port 22: No route to host", file=sys.stderr)
        sys.exit(255)
    stdin = os.open(os.devnull, os.O_RDONLY) if quiet else 0
    send(connection, {"command": ["/bin/sh", "-c", " ".join(words)]}, [stdin, 1, 2])
    message, _ = receive(connection)
    if message is None:
        print(f"Connection to {name} closed by remote host.", file=sys.stderr)
        sys.exit(255)
    code = message["ended"]
    sys.exit(code if code >= 0 else 128 - code)


# ---- the machine, outside


class Machine:
    def __init__(self, args):
        self.args = args
        self.pids, self.waiters, self.lifelines, self.jobs = [], [], [], {}
        self.lock = threading.Lock()

    def __enter__(self):
        self.state = tempfile.mkdtemp(prefix="hosts-", dir="/run")
        os.chmod(self.state, 0o755)
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self):
        args, state = self.args, self.state
        for folder in ("sockets", "tmp"):
            os.mkdir(os.path.join(state, folder))
        names = {name_of(i, args): i for i in reversed(range(args.hosts))} | {
            address_of(i): i for i in range(args.hosts)
        }
        names |= {f"host{i}": i for i in range(args.hosts)}
        with open(os.path.join(state, "names"), "w") as file:
            json.dump(names, file)
        with open(os.path.join(state, "hostfile"), "w") as file:
            file.writelines(f"{name_of(i, args)} slots={args.slots}\n" for i in range(args.hosts))
        tools = os.path.join(state, "bin")
        os.mkdir(tools)
        script = os.path.join(tools, "on-host")
        with open(script, "w") as file:
            file.write(f"#!{os.path.realpath(sys.executable)} -IS\nimport sys\nsys.dont_write_bytecode = True\n")
            file.write(f"sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n")
            file.write(f"import hosts\nhosts.on_host({state!r}, sys.argv[1:])\n")
        os.chmod(script, 0o755)
        for other in ("ssh", "rsh"):
            os.symlink("on-host", os.path.join(tools, other))
        self._make_switch()
        pending = []
        for index in range(args.hosts):
            self.waiters.append(0)
            ready, says = os.pipe()
            lifeline, ours = os.pipe()
            wait, go = os.pipe()
            environ = {
                **os.environ,
                "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}",
                "HOSTS": str(args.hosts),
                "HOST_INDEX": str(index),
                "HOST_NAME": name_of(index, args),
                "HOST_ADDR": address_of(index),
                "HEAD_NAME": name_of(0, args),
                "HEAD_ADDR": address_of(0),
                "HOSTFILE": os.path.join(state, "hostfile"),
                "HOSTNAME": name_of(index, args),
                "TMPDIR": os.path.join(state, "tmp"),
            }
            pid = os.fork()
            if pid == 0:
                for descriptor in (
                    *self.lifelines,
                    ours,
                    ready,
                    go,
                    *(one for _, one, _ in pending),
                    *(one for *_, one in pending),
                ):
                    os.close(descriptor)
                try:
                    become_host(index, state, args, environ, says, lifeline, wait)
                except BaseException as error:
                    with contextlib.suppress(OSError):
                        os.write(says, f"host {index}: {error}\n".encode())
                finally:
                    os._exit(1)
            self.waiters[index] = pid
            self.lifelines.append(ours)
            for descriptor in (says, lifeline, wait):
                os.close(descriptor)
            pending.append((index, ready, go))
        for index, ready, go in pending:
            file = os.fdopen(ready)
            line = file.readline().strip()
            if not line.isdecimal():
                raise SystemExit(f"hosts.py: {line or 'a host did not start'}")
            self.pids.append(int(line))
            self._on_switch("ip", "link", "add", f"v{index}", "type", "veth", "peer", "name", "eth0", "netns", line)
            self._on_switch("ip", "link", "set", f"v{index}", "master", "br0", "up")
            os.write(go, b"g")
            os.close(go)
            line = file.readline().strip()
            if line != "up":
                hint = " (this kernel has no netem: no --delay)" if "qdisc kind is unknown" in line else ""
                raise SystemExit(f"hosts.py: {line or 'a host did not start'}{hint}")

    def _make_switch(self):
        """A network namespace with nothing in it but the bridge."""
        done, says = os.pipe()
        self.switch = os.fork()
        if self.switch == 0:
            die_with_parent()
            unshare(NEWNET)
            os.write(says, b"x")
            os.close(says)
            while True:
                signal.pause()
        os.close(says)
        os.read(done, 1)
        os.close(done)
        self._on_switch("ip", "link", "add", "br0", "type", "bridge")
        self._on_switch("ip", "addr", "add", NETWORK + "254/24", "dev", "br0")
        self._on_switch("ip", "link", "set", "br0", "up")

    def _on_switch(self, *command):
        run("nsenter", f"--net=/proc/{self.switch}/ns/net", *command)

    def __exit__(self, *_):
        for lifeline in self.lifelines:
            with contextlib.suppress(OSError):
                os.close(lifeline)
        for waiter in (*self.waiters, getattr(self, "switch", 0)):
            if waiter:
                with contextlib.suppress(OSError):
                    if waiter == getattr(self, "switch", 0):
                        os.kill(waiter, signal.SIGKILL)
                    deadline = time.monotonic() + 5
                    while os.waitpid(waiter, os.WNOHANG)[0] == 0:
                        if time.monotonic() > deadline:
                            os.kill(waiter, signal.SIGKILL)  # its host dies with it
                        time.sleep(0.01)
        shutil.rmtree(self.state, ignore_errors=True)
        if self.args.keep:
            for index in range(self.args.hosts):
                shutil.rmtree(os.path.join(self.args.keep, f"host{index}", ".work"), ignore_errors=True)

    def start(self, index, command, descriptors, cwd=None, environ=None):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.path.join(self.state, "sockets", str(index)))
        send(connection, {"command": command, "cwd": cwd, "environ": environ or {}}, descriptors)
        return connection

    def lose(self, index):
        """As if the plug were pulled: nobody gets a last word."""
        self._on_switch("ip", "link", "set", f"v{index}", "down")
        os.kill(self.pids[index], signal.SIGKILL)


def copy_lines(source, target, before, lock):
    with source:
        for line in source:
            with lock, contextlib.suppress(OSError):
                target.write(before + line + (b"" if line.endswith(b"\n") else b"\n"))
                target.flush()


def moment(text):
    """Seconds after the start, or the path of a file that will be there."""
    return text if os.sep in text else float(text)


def is_due(when, seconds):
    return os.path.exists(when) if isinstance(when, str) else when <= seconds


def carry_out(machine, args, command):
    began = time.monotonic()
    chosen = [0] if args.head else list(range(args.hosts))
    prefixed = not (args.head or args.raw)
    codes, connections, threads = {}, {}, []
    passed_on = {}
    came = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        passed_on[number] = signal.signal(number, lambda n, _: came.append(n))
    bell, ringing = os.pipe()
    for end in (bell, ringing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(ringing)

    def begin(index):
        descriptors, pipes = [0, 1, 2], []
        if prefixed:
            outer, inner, errors, inner_errors = *os.pipe(), *os.pipe()
            null = os.open(os.devnull, os.O_RDONLY)
            descriptors, pipes = [null, inner, inner_errors], [(outer, sys.stdout), (errors, sys.stderr)]
        connections[index] = machine.start(index, command, descriptors, os.getcwd())
        if prefixed:
            for descriptor in descriptors:
                os.close(descriptor)
            for pipe, target in pipes:
                before = f"{name_of(index, args)}| ".encode() if not args.same_name else f"host{index}| ".encode()
                thread = threading.Thread(
                    target=copy_lines, args=(os.fdopen(pipe, "rb", 0), target.buffer, before, machine.lock), daemon=True
                )
                thread.start()
                threads.append(thread)

    def pass_on(number, group=True):
        for index, connection in connections.items():
            if index not in codes:
                with contextlib.suppress(OSError):
                    send(connection, {"signal": int(number), "group": group})

    events = [(args.stagger * place, lambda i=i: begin(i)) for place, i in enumerate(chosen)]
    for when, host, line in args.at:
        index = int(host.removeprefix(args.name)) if not host.isdecimal() else int(host)
        events.append(
            (
                moment(when),
                lambda i=index, c=line: connections.setdefault(
                    f"at {i} {c}", machine.start(i, ["/bin/sh", "-c", c], [0, 1, 2])
                ),
            )
        )
    for text in args.lose:
        host, _, when = text.partition("@")
        index = int(host.removeprefix(args.name)) if not host.isdecimal() else int(host)
        events.append((moment(when), lambda i=index: machine.lose(i)))
    events.append((args.limit, lambda: came.append("limit")))
    poll, known = select.poll(), {}
    poll.register(bell, select.POLLIN)
    ending = None
    over = False
    while len([index for index in chosen if index in codes]) < len(chosen):
        now = time.monotonic() - began
        for event in [event for event in events if is_due(event[0], now)]:
            events.remove(event)
            event[1]()
        for index, connection in connections.items():
            if connection.fileno() not in known:
                known[connection.fileno()] = index
                poll.register(connection, select.POLLIN)
        while came:
            number = came.pop(0)
            over |= number == "limit"
            if ending is not None and number != "limit":
                return 128 + number  # the second time: at once
            ending = time.monotonic() + args.grace
            what = f"the limit of {args.limit:g} s is over" if number == "limit" else signal.Signals(number).name
            print(
                f"hosts.py: {what}; ending the hosts",
                file=sys.stderr,
            )
            pass_on(signal.SIGTERM if number == "limit" else number)
        if ending is not None and time.monotonic() > ending:
            break
        until = min([1.0, *(0.1 if isinstance(when, str) else max(when - now, 0.0) for when, _ in events)])
        for descriptor, _ in poll.poll(until * 1000 + 1):
            if descriptor == bell:
                with contextlib.suppress(BlockingIOError):
                    os.read(bell, 4096)
                continue
            index = known[descriptor]
            try:
                message, _ = receive(connections[index])
            except ConnectionError:
                message = None
            poll.unregister(descriptor)
            code = message["ended"] if message else -signal.SIGKILL
            codes[index] = code if code >= 0 else 128 - code
            if isinstance(index, int):
                if args.verbose or not args.head:
                    lost = "" if message else " (host lost)"
                    print(
                        f"hosts.py: {name_of(index, args)} ended with {codes[index]} after "
                        f"{time.monotonic() - began:.1f} s{lost}",
                        file=sys.stderr,
                    )
    for thread in threads:
        thread.join(0.5)
    if over:
        return 124
    return next((codes[index] for index in chosen if codes.get(index)), 0 if ending is None else 130)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2, help="how many (2)")
    parser.add_argument(
        "--head", action="store_true", help="run the command on host 0 alone, with its streams as they are"
    )
    parser.add_argument(
        "--private",
        action="append",
        default=[],
        metavar="PATH",
        help="a folder of which each host sees what is there now, and what it writes itself: no shared file system",
    )
    parser.add_argument(
        "--empty", action="append", default=[], metavar="PATH", help="a folder that begins empty on each host"
    )
    parser.add_argument("--keep", metavar="DIR", help="keep what hosts wrote below private folders, as DIR/host0/PATH")
    parser.add_argument(
        "--clock-step",
        type=float,
        default=1000.0,
        metavar="SECONDS",
        help="how far the monotonic clock of a host is ahead of that of the host before (1000; 0: they share one)",
    )
    parser.add_argument("--name", default="host", help="what names of hosts begin with (host)")
    parser.add_argument(
        "--same-name", metavar="NAME", help="all hosts have this name, as images do whose name nobody sets"
    )
    parser.add_argument("--slots", type=int, default=2, help="in HOSTFILE (2)")
    parser.add_argument("--delay", type=float, metavar="MS", help="of what a host sends (needs netem in the kernel)")
    parser.add_argument("--rate", metavar="RATE", help="of what a host sends, as tc says it (100mbit)")
    parser.add_argument("--pin", action="store_true", help="host N runs on core N alone (modulo the cores there are)")
    parser.add_argument(
        "--stagger",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="each host begins its command so much after the one before",
    )
    parser.add_argument(
        "--at",
        nargs=3,
        action="append",
        default=[],
        metavar=("WHEN", "HOST", "LINE"),
        help="run a line of shell on a host so many seconds after the start, or when there is a file of a path",
    )
    parser.add_argument(
        "--lose", action="append", default=[], metavar="HOST@WHEN", help="pull the plug of a host, likewise"
    )
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS", help="for all of it (300)")
    parser.add_argument(
        "--grace",
        type=float,
        default=15.0,
        metavar="SECONDS",
        help="between asking the commands to end, and killing them (15)",
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="hand on the streams as they are, without the name of the host before each line",
    )
    parser.add_argument("--verbose", action="store_true", help="say how the command ended")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command")
    if os.geteuid():
        parser.error("only root can make hosts")
    if not 1 <= args.hosts <= 200:
        parser.error("1 to 200 hosts")
    if args.keep:
        args.keep = os.path.abspath(args.keep)
        os.makedirs(args.keep, exist_ok=True)
    args.private = [os.path.realpath(path) for path in args.private]
    args.empty = [os.path.realpath(path) for path in args.empty]
    for path in (*args.private, *args.empty):
        if not os.path.isdir(path):
            parser.error(f"{path} is no folder: make it first")
        if args.keep and (args.keep + "/").startswith(path + "/"):
            parser.error(f"--keep {args.keep} lies in {path}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))
    with Machine(args) as machine:
        code = carry_out(machine, args, command)
    sys.exit(code)


if __name__ == "__main__":
    main()
