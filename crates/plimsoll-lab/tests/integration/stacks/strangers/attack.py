# SPDX-License-Identifier: Apache-2.0
"""What another user tries: every server of a stack, by every client that Debian has for it, with sockets as they
are and bound to each interface. `doors PLACE ADDRESS…`, as root, prints what listens; `attack`, as anybody, reads
that with `shim`, `interfaces` and more added, and prints a line for each thing it gained, then how many it tried."""

import concurrent.futures
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 4


def marked(place):
    """Processes that the stack in this place started."""
    for path in glob.glob("/proc/[0-9]*"):
        try:
            environ = open(path + "/environ", "rb").read()
            arguments = open(path + "/cmdline", "rb").read()
            if b"PLIMSOLL" in environ and place.encode() in environ + arguments:
                yield path
        except OSError:
            pass


def listening(path):
    """Addresses and ports of a process, in the network that it sees."""
    own = set()
    for fd in glob.glob(path + "/fd/*"):
        try:
            own.add(os.readlink(fd))
        except OSError:
            pass
    for line in open(path + "/net/tcp").readlines()[1:] + open(path + "/net/tcp6").readlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in own:
            address, port = words[1].split(":")
            # The last four bytes of an IPv6 address hold that of IPv4, or nothing where all are served.
            yield ".".join(str(byte) for byte in reversed(bytes.fromhex(address[-8:]))), int(port, 16)


def doors(place, addresses):
    found = set()
    for path in marked(place):
        try:
            program = open(path + "/comm").read().strip()
            for address, port in listening(path):
                at = addresses + ["127.0.0.1"] if address == "0.0.0.0" else [address]
                found.update((one, port, program) for one in at)
        except OSError:
            pass
    journals = glob.glob(place + "/journals/*") + glob.glob(place + "/journals/*/*")
    text = "".join(open(one, errors="replace").read() for one in journals if os.path.isfile(one))
    targets = sorted(set(re.findall(r"iqn\.[0-9a-z.:-]+", text)))
    certificates = glob.glob(place + "/stacks/*/tls/*/cert.pem")
    bricks = glob.glob(place + "/stacks/*/n*/bricks/*")
    # Places are told: what keeps others out is not that they do not know them.
    return {
        "doors": sorted(found),
        "targets": targets,
        "certificates": [os.path.dirname(one) for one in certificates],
        "bricks": bricks,
        "keyrings": glob.glob(place + "/stacks/*/client.admin.keyring"),
    }


def started(command, interface, shim):
    environ = dict(os.environ)
    if interface:
        environ |= {"LD_PRELOAD": shim, "BOUND_TO": interface}
    nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(["timeout", str(PATIENCE_S), *command], env=environ, **nothing)


def ends_well(command, interface, shim):
    return started(command, interface, shim).wait() == 0


def opens(blockdev, interface, shim):
    """Whether QEMU's client opens a disk or file. It writes its number once it has, and removes that when it ends."""
    with tempfile.TemporaryDirectory() as place:
        pidfile = place + "/pid"
        client = started(
            ["qemu-storage-daemon", "--blockdev", blockdev + ",node-name=d", "--pidfile", pidfile], interface, shim
        )
        is_open = False
        while client.poll() is None and not is_open:
            is_open = os.path.exists(pidfile)
            time.sleep(0.05)
        client.terminate()
        client.wait()
        return is_open


def connects(address, port, interface):
    with socket.socket() as client:
        client.settimeout(PATIENCE_S)
        if interface:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
        client.connect((address, port))
    return True


def broadcasts(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
        client.sendto(b"x", ("255.255.255.255", 111))
    return True


def multicasts(interface):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("ff02::1", 111, 0, socket.if_nametoindex(interface)))
    return True


def certified(directory):
    files = {"ssl-own-cert": "cert.pem", "ssl-private-key": "key.pem", "ssl-ca-list": "ca.pem"}
    return [f"{option}={directory}/{file}" for option, file in files.items()]


def forged(name):
    """A certificate in this name, of nobody's authority."""
    at = tempfile.mkdtemp()
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    subprocess.run([*make, "-keyout", at + "/key.pem", "-out", at + "/cert.pem"], check=True, stderr=subprocess.DEVNULL)
    shutil.copy(at + "/cert.pem", at + "/ca.pem")
    return at


def volume_file(address, port, brick):
    """A volume file that asks no management daemon."""
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        options = {"remote-host": address, "remote-port": port, "remote-subvolume": brick, "transport-type": "socket"}
        lines = [f"option {name} {value}" for name, value in options.items()]
        file.write("\n".join(["volume data-client-0", "type protocol/client", *lines, "end-volume", ""]))
    return file.name


def gluster_clients(address, port, program, given):
    """Ways into a volume: with no certificate and with its own, where that can be read. From inside the network also
    with forged ones, and past the management daemon."""
    inside = given["inside"]
    for volume in sorted({os.path.basename(brick) for brick in given["bricks"]}):
        ways = {"without a certificate": []}
        for certificate in given["certificates"]:
            if os.path.basename(certificate) == volume:
                ways["with its certificate"] = certified(certificate)
        if inside:
            ways["without TLS"] = ["ssl-enabled=off"]
            for name in ("node", volume):
                ways[f"forging {name}"] = ["ssl-enabled=on", *certified(forged(name))]
        for way, options in ways.items():
            if program == "glusterd":
                yield f"libgfapi {way}, {volume}", gfapi(given, address, port, volume, options)
            for brick in given["bricks"] if inside and program == "glusterfsd" else []:
                file = volume_file(address, port, brick)
                yield f"libgfapi {way}, brick of {volume}", gfapi(given, address, port, file, options)


def gfapi(given, address, port, volume, options):
    return ["/usr/bin/python3", "-c", given["gfapi"], address, str(port), volume, "/secret", *options]


def ceph_clients(address, port, given):
    """Ways into a cluster: asking for no proof of who asks, with a key of nobody's, and with the key of its
    administrator, where that can be read."""
    monitor = ["rados", "--conf", "/dev/null", "-m", f"{address}:{port}", "--name", "client.admin"]
    ways = {
        "librados without a key": ["--auth-client-required", "none"],
        "librados with another key": ["--key", "AQBAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw=="],
    }
    for keyring in given["keyrings"]:
        ways["librados with its key"] = ["--keyring", keyring]
    for way, options in ways.items():
        yield way, [*monitor, *options, "lspools"]


def clients(address, port, program, given):
    """What opens what a server of this kind has: a name, and what QEMU's client is told or a command."""
    if program in ("nbdkit", "qemu-storage-da"):
        yield "libnbd", ["nbdinfo", "--size", f"nbd://{address}:{port}"]
    elif program == "tgtd":
        for target in given["targets"]:
            who = "initiator-name=iqn.2026-01.lab.plimsoll:stranger"
            yield "libiscsi", f"driver=iscsi,transport=tcp,portal={address}:{port},target={target},lun=1,{who}"
    elif program.startswith("ganesha") and port == 2049:
        where = f"server.type=inet,server.host={address},path=/export/secret,user=0,group=0"
        yield "libnfs", f"driver=nfs,{where}"
    elif program.startswith("gluster"):
        yield from gluster_clients(address, port, program, given)
    elif program == "ceph-mon":
        yield from ceph_clients(address, port, given)


def attempts(given):
    """Each as a name and what to do."""
    shim, closed = given["shim"], given["closed"]
    for interface in [None, *given["interfaces"]]:
        way = f"from {interface}" if interface else "plainly"
        for address, port, program in given["doors"]:
            if address.startswith(closed):
                yield f"connect {address}:{port} {way}", lambda a=address, p=port, i=interface: connects(a, p, i)
            for name, what in clients(address, port, program, given):
                is_command = isinstance(what, list)
                yield (
                    f"{name} {address}:{port} {way}",
                    lambda w=what, i=interface, run=ends_well if is_command else opens: run(w, i, shim),
                )
    for interface in given["bridges"]:
        yield f"broadcast {interface}", lambda i=interface: broadcasts(i)
        yield f"multicast {interface}", lambda i=interface: multicasts(i)


def succeeds(attempt):
    name, what = attempt
    try:
        return name if what() else None
    except OSError:
        return None


def attack(given):
    every = list(attempts(given))
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        for gained in filter(None, pool.map(succeeds, every)):
            print("gained", gained)
    print("tried", len(every))


if sys.argv[1] == "doors":
    print(json.dumps(doors(sys.argv[2], sys.argv[3:])))
else:
    attack(json.load(sys.stdin))
