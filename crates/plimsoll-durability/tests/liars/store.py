# SPDX-License-Identifier: Apache-2.0
"""A tiny key-value server for testing `plimsoll durability`: honest disciplines, and lies.

    store.py version
    store.py prepare BEHAVIOUR      in an empty $DATA
    store.py serve BEHAVIOUR        on $DATA, at $RUN/sock, in the foreground
    store.py ready
    store.py ack BEHAVIOUR [DEFECT] $CLIENTS writers, until it is ended
    store.py have [DEFECT]
    store.py list                   the names of the behaviours

A DEFECT is one of the witness, not of the server. What each behaviour must show is in expected.toml.
Nothing but the standard library of Python 3.11.
"""
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
import zlib

RATE = 200  # writes a second that all writers together attempt


# --- files ------------------------------------------------------------------------------------------------


def sync_dir(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def write_all(fd, blob, at):
    if os.pwrite(fd, blob, at) != len(blob):
        raise OSError("short write")


def create(path, blob):
    """A file that is safe, with its name."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    write_all(fd, blob, 0)
    os.fsync(fd)
    os.close(fd)
    sync_dir(os.path.dirname(path))


def read(path):
    with open(path, "rb") as file:
        return file.read()


class LogFile:
    """Checksummed records, appended. Opening it cuts off a torn tail. Nothing is synced by append()."""

    HEAD = struct.Struct("<IHI")  # checksum of all that follows, length of the key, of the value (GONE: deleted)
    GONE = 0xFFFFFFFF

    def __init__(self, path, flags=0, room=0, empty=False):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
        self.lock = threading.Lock()
        self.records = []
        self.end = 0
        if not empty:
            self.scan(os.pread(self.fd, os.fstat(self.fd).st_size, 0))
        os.ftruncate(self.fd, self.end)
        if room > self.end:
            os.posix_fallocate(self.fd, 0, room)
        os.fsync(self.fd)
        sync_dir(os.path.dirname(path))

    def __del__(self):
        os.close(self.fd)

    @classmethod
    def record(cls, key, value):
        head = struct.pack("<HI", len(key), cls.GONE if value is None else len(value))
        body = head + key + (value or b"")
        return struct.pack("<I", zlib.crc32(body)) + body

    def scan(self, blob):
        size = self.HEAD.size
        while self.end + size <= len(blob):
            crc, klen, vlen = self.HEAD.unpack_from(blob, self.end)
            start = self.end + size
            stop = start + klen + (0 if vlen == self.GONE else vlen)
            if klen == 0 or stop > len(blob) or zlib.crc32(blob[self.end + 4 : stop]) != crc:
                break
            self.records.append((blob[start : start + klen], None if vlen == self.GONE else blob[start + klen : stop]))
            self.end = stop

    def append(self, key, value):
        record = self.record(key, value)
        with self.lock:
            write_all(self.fd, record, self.end)
            self.end += len(record)

    def sync(self):
        os.fdatasync(self.fd)


# --- behaviours -------------------------------------------------------------------------------------------


class Store:
    """What is told to `have` is always self.mem: as a server would, from its memory, loaded at the start."""

    workload = "once"
    haste = 1  # times the usual rate at which the witness tries

    def __init__(self, data):
        self.data = data
        self.mem = {}
        self.lock = threading.Lock()

    def path(self, *names):
        return os.path.join(self.data, *names)

    def names(self, prefix):
        """The numbers N of the files `prefix.N`."""
        found = [name.split(".")[1] for name in os.listdir(self.data) if name.startswith(prefix + ".")]
        return sorted(int(n) for n in found if n.isdigit())

    def prepare(self):
        pass

    def recover(self):
        pass

    def replay(self, log):
        for key, value in log.records:
            self.remember(key, value)
        log.records = []

    def remember(self, key, value):
        if value is None:
            self.mem.pop(key, None)
        else:
            self.mem[key] = value

    def background(self):
        """Runs in a thread of its own."""

    def put(self, key, value):
        """Returns when the write is to be acknowledged. A value of None deletes."""
        raise NotImplementedError

    def stop(self):
        """At SIGTERM."""


class Log(Store):
    """HONEST. One log; fdatasync before the acknowledgement."""

    flags = 0
    room = 0

    def recover(self):
        self.log = LogFile(self.path("log"), self.flags, self.room)
        self.replay(self.log)

    def put(self, key, value):
        self.log.append(key, value)
        self.sync()
        self.remember(key, value)

    def sync(self):
        self.log.sync()


class LogMixed(Log):
    """HONEST. As log, with keys written again, deleted, and written after they were deleted."""

    workload = "mixed"


class LateAck(Log):
    """HONEST. Acknowledges long after the write is safe: newer values than acknowledged ones are found."""

    workload = "mixed"

    def sync(self):
        self.log.sync()
        time.sleep(0.02)


class ODsync(Log):
    """HONEST. The log is opened with O_DSYNC, and nothing is ever synced."""

    flags = os.O_DSYNC

    def sync(self):
        pass


class Fallocated(Log):
    """HONEST. The log has unwritten extents in advance; fdatasync."""

    room = 16 << 20


class GroupCommit(Log):
    """HONEST. One fdatasync for all that was appended before it began."""

    def __init__(self, data):
        super().__init__(data)
        self.changed = threading.Condition()
        self.appended = self.safe = 0

    def put(self, key, value):
        with self.changed:
            self.log.append(key, value)
            self.remember(key, value)
            self.appended += 1
            mine = self.appended
            self.changed.notify_all()
            while self.safe < mine:
                self.changed.wait()

    def background(self):
        while True:
            with self.changed:
                while self.appended == self.safe:
                    self.changed.wait()
            safe = self.commit()
            with self.changed:
                self.safe = safe
                self.changed.notify_all()

    def commit(self):
        time.sleep(0.005)
        safe = self.appended
        self.log.sync()
        return safe


class GroupCommitRace(GroupCommit):
    """LIE. Acknowledges also what was appended after the group's fdatasync had begun."""

    def commit(self):
        time.sleep(0.002)
        self.log.sync()
        time.sleep(0.02)
        return self.appended


class DropsFlushes(Log):
    """LIE. Never syncs."""

    def sync(self):
        pass


class SyncsEveryTenth(Log):
    """LIE. Syncs at the first write and then at each tenth."""

    count = 0

    def sync(self):
        self.count += 1
        if self.count % 10 == 1:
            self.log.sync()


class AcksEarly(Log):
    """LIE. Acknowledges at once, syncs some 50 ms later."""

    def sync(self):
        pass

    def background(self):
        while True:
            time.sleep(0.05)
            self.log.sync()

    def stop(self):
        self.log.sync()


class FromMemory(Log):
    """LIE. Collects 32 KiB in the process before it writes, as stdio does; then syncs."""

    def __init__(self, data):
        super().__init__(data)
        self.waiting = []

    def put(self, key, value):
        with self.lock:
            self.waiting.append((key, value))
            self.remember(key, value)
            if sum(len(k) + len(v) for k, v in self.waiting) >= 32 << 10:
                self.flush()

    def flush(self):
        for key, value in self.waiting:
            self.log.append(key, value)
        self.waiting = []
        self.log.sync()

    def stop(self):
        with self.lock:
            self.flush()


class SyncsWrongFile(Log):
    """LIE. Writes the contents into one log and an entry into another, and syncs the other."""

    def recover(self):
        super().recover()
        self.index = LogFile(self.path("index"))

    def sync(self):
        self.index.append(b"written", b"%d" % self.log.end)
        self.index.sync()


class Resurrects(Log):
    """LIE. Deletions go to a file of their own, which is not synced."""

    workload = "deletes"

    def recover(self):
        super().recover()
        self.graves = LogFile(self.path("graves"))
        self.replay(self.graves)

    def put(self, key, value):
        if value is None:
            self.graves.append(key, None)
            self.remember(key, None)
        else:
            super().put(key, value)


class Legs(Store):
    """Several logs; `synced` are synced before the acknowledgement, `read` are read at the start."""

    legs = ("a", "b")
    synced = (0, 1)
    read = (0, 1)

    def recover(self):
        self.logs = [LogFile(self.path("log-" + leg)) for leg in self.legs]
        for i in self.read:
            self.replay(self.logs[i])

    def put(self, key, value):
        self.write(key, value)
        for i in self.synced:
            self.logs[i].sync()
        self.remember(key, value)

    def write(self, key, value):
        for log in self.logs:
            log.append(key, value)


class Mirrors(Legs):
    """HONEST. Two logs with the same contents, both synced; recovery from either."""


class OneMirror(Legs):
    """HONEST. Only the first of two mirrors is synced, but recovery reads both."""

    synced = (0,)


class OtherMirror(Legs):
    """LIE. Only the first of two mirrors is synced, and recovery reads the second."""

    synced = (0,)
    read = (1,)


class OneShard(Legs):
    """LIE. Keys are spread over three logs, of which only one is synced."""

    legs = ("a", "b", "c")
    synced = (0,)
    read = (0, 1, 2)

    def write(self, key, value):
        self.logs[zlib.crc32(key) % 3].append(key, value)


class HalfStripe(Legs):
    """LIE. Each value is striped over two logs, of which one is synced. What is missing is read as zeros."""

    synced = (0,)

    def recover(self):
        super().recover()
        first, second = (dict(LogFile(self.path("log-" + leg)).records) for leg in self.legs)
        self.mem = {
            key: first[key][4:] + second.get(key, bytes(struct.unpack("<I", first[key][:4])[0])) for key in first
        }

    def write(self, key, value):
        half = len(value) // 2
        self.logs[1].append(key, value[half:])
        self.logs[0].append(key, struct.pack("<I", len(value) - half) + value[:half])


class HeaderBeforeLog(Log):
    """LIE. Syncs a header with the number of records, not the log; refuses a log shorter than its header says."""

    def prepare(self):
        create(self.path("header"), bytes(512))

    def recover(self):
        super().recover()
        self.count = len(self.mem)
        self.header = os.open(self.path("header"), os.O_RDWR)
        (told,) = struct.unpack("<Q", os.pread(self.header, 8, 0))
        if told > self.count:
            self.refuse(f"corrupt: {told} records expected, {self.count} found")

    def refuse(self, why):
        sys.exit(why)

    def put(self, key, value):
        with self.lock:
            self.log.append(key, value)
            self.count += 1
            write_all(self.header, struct.pack("<Q", self.count).ljust(512, b"\0"), 0)
        os.fdatasync(self.header)
        self.remember(key, value)


class HangsAfterCut(HeaderBeforeLog):
    """LIE. As header_before_log, but where that one refuses, this one is never ready."""

    def refuse(self, why):
        print(why, file=sys.stderr, flush=True)
        while True:
            time.sleep(1)


class RefusesAfterCrash(Log):
    """LIE. Everything is safe, but it does not start after anything but an orderly end."""

    def recover(self):
        if os.path.exists(self.path("running")):
            sys.exit("was not ended in order: run the repair")
        super().recover()
        create(self.path("running"), b"1")

    def stop(self):
        os.unlink(self.path("running"))
        sync_dir(self.data)


class StartsEmpty(Log):
    """LIE. The log is safe, but without its index, which is never synced, it starts as new.

    The index gets a new name each time: ext4 writes out a file that replaces another of the same name."""

    def recover(self):
        found = [n for n in self.names("index") if read(self.path(f"index.{n}")) == b"index\n"]
        if not found and os.path.exists(self.path("log")):
            os.unlink(self.path("log"))
        super().recover()
        self.last = max(self.names("index"), default=0)
        self.index()

    def index(self):
        old, self.last = self.last, self.last + 1
        with open(self.path(f"index.{self.last}"), "wb") as file:
            file.write(b"index\n")
        for n in self.names("index"):
            if n <= old:
                os.unlink(self.path(f"index.{n}"))

    def background(self):
        while True:
            time.sleep(0.1)
            self.index()


class Checkpoints(Store):
    """HONEST. A log; now and then all is written to a checkpoint, and a new log begun."""

    sync_checkpoint = True

    def recover(self):
        self.number = max(self.names("checkpoint"), default=0)
        if self.number:
            self.replay(LogFile(self.path(f"checkpoint.{self.number}")))
        for n in self.names("log"):
            if n >= self.number:
                self.replay(LogFile(self.path(f"log.{n}")))
                self.number = n
        self.open()

    def open(self):
        self.log = LogFile(self.path(f"log.{self.number}"))
        self.count = len(self.log.records)
        self.log.records = []

    def put(self, key, value):
        with self.lock:
            log = self.log
            log.append(key, value)
            self.remember(key, value)
            self.count += 1
            if self.count >= max(40, len(self.mem) // 2):
                self.rotate()
        log.sync()

    def rotate(self):
        self.number += 1
        self.open()
        temporary = self.path("temporary")
        with open(temporary, "wb") as file:
            for key, value in self.mem.items():
                file.write(LogFile.record(key, value))
            file.flush()
            if self.sync_checkpoint:
                os.fsync(file.fileno())
        os.rename(temporary, self.path(f"checkpoint.{self.number}"))
        sync_dir(self.data)
        for kind in ("checkpoint", "log"):
            for n in self.names(kind):
                if n < self.number:
                    os.unlink(self.path(f"{kind}.{n}"))


class CheckpointUnsynced(Checkpoints):
    """LIE. Removes the old log when the checkpoint that replaces it has a name, but no safe contents."""

    sync_checkpoint = False


class Files(Store):
    """HONEST. A file for each key: temporary file, fsync, rename, fsync of the directory."""

    checksum = True
    sync_file = True
    sync_directory = True
    rename = True

    def prepare(self):
        os.mkdir(self.path("keys"))
        sync_dir(self.data)

    def recover(self):
        for name in os.listdir(self.path("keys")):
            if name.startswith(".") or name.endswith(".tmp"):
                os.unlink(self.path("keys", name))
                continue
            value = self.decode(read(self.path("keys", name)))
            if value is not None:
                self.mem[name.encode()] = value

    def encode(self, value):
        return struct.pack("<II", zlib.crc32(value), len(value)) + value if self.checksum else value

    def decode(self, blob):
        if not self.checksum:
            return blob
        if len(blob) >= 8:
            crc, size = struct.unpack_from("<II", blob)
            value = blob[8 : 8 + size]
            if len(value) == size and zlib.crc32(value) == crc:
                return value
        return None

    def put(self, key, value):
        name = self.path("keys", key.decode())
        path = name + ".tmp" if self.rename else name
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        write_all(fd, self.encode(value), 0)
        if self.sync_file:
            os.fsync(fd)
        os.close(fd)
        if self.rename:
            os.rename(path, name)
        if self.sync_directory:
            sync_dir(self.path("keys"))
        self.remember(key, value)


class NewFiles(Files):
    """HONEST on ext4, xfs and btrfs: the fsync of a new file makes its name safe too."""

    rename = False
    sync_directory = False


class SkipsDirectorySync(Files):
    """LIE. Temporary file, fsync, rename, but no fsync of the directory."""

    sync_directory = False


class RenamesBeforeSync(Files):
    """LIE. Temporary file, rename, fsync of the directory, but none of the file. Serves what it finds."""

    checksum = False
    sync_file = False


class Recycles(Files):
    """LIE. Overwrites a file of a pool, fdatasync, renames it to the key's name; no fsync of the directory.

    The overwriting changes no metadata, so that no fdatasync carries the renames to the disk by chance."""

    POOL = 1000

    def prepare(self):
        import ctypes

        super().prepare()
        os.mkdir(self.path("pool"))
        for n in range(self.POOL):
            with open(self.path("pool", str(n)), "wb") as file:
                file.write(bytes(2048))
        fd = os.open(self.data, os.O_RDONLY)
        ctypes.CDLL(None).syncfs(fd)
        os.close(fd)

    def recover(self):
        super().recover()
        self.pool = [self.path("pool", name) for name in os.listdir(self.path("pool"))]

    def put(self, key, value):
        try:
            path, flags = self.pool.pop(), os.O_RDWR
        except IndexError:
            path, flags = self.path("pool", key.decode()), os.O_RDWR | os.O_CREAT
        fd = os.open(path, flags, 0o600)
        write_all(fd, self.encode(value), 0)
        os.fdatasync(fd)
        os.close(fd)
        os.rename(path, self.path("keys", key.decode()))
        self.remember(key, value)


SLOT = 4096
SLOTS = 512


class Slots(Store):
    """HONEST. Two preallocated files of checksummed slots, written alternately for each key; fdatasync."""

    workload = "again"
    flags = 0
    newest = True
    HEAD = struct.Struct("<4sIQHI")  # magic, checksum of all that follows, generation, lengths

    def prepare(self):
        for leg in "ab":
            create(self.path("slots." + leg), bytes(SLOT * SLOTS))

    def recover(self):
        self.place = {}  # key: [slot, generation]
        self.free = []
        self.fds = [os.open(self.path("slots." + leg), os.O_RDWR | self.flags) for leg in "ab"]
        blobs = [read(self.path("slots." + leg)) for leg in "ab"]
        for slot in range(SLOTS):
            found = [self.decode(blob[slot * SLOT : slot * SLOT + SLOT]) for blob in blobs]
            found = sorted((copy for copy in found if copy), reverse=self.newest)
            if not found:
                self.free.append(slot)
                continue
            generation, key, value = found[0]
            self.place[key] = [slot, max(copy[0] for copy in found)]
            self.mem[key] = value
        self.free.reverse()

    def encode(self, generation, key, value):
        body = struct.pack("<QHI", generation, len(key), len(value)) + key + value
        blob = b"SLOT" + struct.pack("<I", zlib.crc32(body)) + body
        if len(blob) > SLOT:
            raise OSError("too large")
        return blob.ljust(SLOT, b"\0")

    def decode(self, blob):
        magic, crc, generation, klen, vlen = self.HEAD.unpack_from(blob)
        size = self.HEAD.size
        if magic != b"SLOT" or size + klen + vlen > SLOT or zlib.crc32(blob[8 : size + klen + vlen]) != crc:
            return None
        return generation, blob[size : size + klen], blob[size + klen : size + klen + vlen]

    def next(self, key):
        """The slot of the key, and the generation that is to be written: 1 for a new key."""
        with self.lock:
            if key not in self.place:
                if not self.free:
                    raise OSError("full")
                self.place[key] = [self.free.pop(), 0]
            self.place[key][1] += 1
            return self.place[key]

    def put(self, key, value):
        slot, generation = self.next(key)
        self.write((generation - 1) % 2, slot * SLOT, self.encode(generation, key, value))
        self.remember(key, value)

    def write(self, leg, at, blob):
        write_all(self.fds[leg], blob, at)
        os.fdatasync(self.fds[leg])


class DirectDsync(Slots):
    """HONEST. As slots, with O_DIRECT and O_DSYNC."""

    flags = os.O_DIRECT | os.O_DSYNC

    def write(self, leg, at, blob):
        import mmap

        with mmap.mmap(-1, SLOT) as aligned:
            aligned[:] = blob
            write_all(self.fds[leg], aligned, at)


class DirectUnflushed(DirectDsync):
    """LIE. As direct_dsync without O_DSYNC: the disk has each write, but was never told to flush."""

    flags = os.O_DIRECT


class Mapped(Slots):
    """HONEST. As slots, through a mapping and msync."""

    def recover(self):
        import mmap

        super().recover()
        self.maps = [mmap.mmap(fd, SLOT * SLOTS) for fd in self.fds]

    def write(self, leg, at, blob):
        self.maps[leg][at : at + SLOT] = blob
        self.maps[leg].flush(at, SLOT)


class ServesOldCopy(Slots):
    """LIE. As slots, but after a start it serves the older of the two copies."""

    newest = False


class SyncsEveryOther(Slots):
    """LIE. As slots, but only one of the two files is ever synced."""

    def write(self, leg, at, blob):
        write_all(self.fds[leg], blob, at)
        if leg == 0:
            os.fdatasync(self.fds[leg])


class InPlace(Slots):
    """A single copy of each value, overwritten, whose checksum is not looked at."""

    def decode(self, blob):
        magic, _, generation, klen, vlen = self.HEAD.unpack_from(blob)
        size = self.HEAD.size
        if magic != b"SLOT":
            return None
        return generation, blob[size : size + klen], blob[size + klen : size + klen + vlen]


class TornInPlace(InPlace, DirectDsync):
    """LIE. Overwrites a single copy without checksum or journal. Each write is one request to the disk, and is
    flushed before it is acknowledged: but until then the acknowledged value is neither here nor there."""

    flags = os.O_DIRECT
    haste = 5

    def __init__(self, data):
        super().__init__(data)
        self.changed = threading.Condition()
        self.begun = self.ended = 0

    def put(self, key, value):
        slot, generation = self.next(key)
        self.write(0, slot * SLOT, self.encode(generation, key, value))
        with self.changed:
            mine = self.begun + 1
            while self.ended < mine:
                self.changed.wait()
        self.remember(key, value)

    def background(self):
        while True:
            time.sleep(0.04)
            with self.changed:
                self.begun += 1
            os.fdatasync(self.fds[0])
            with self.changed:
                self.ended = self.begun
                self.changed.notify_all()


class MixesInPlace(InPlace):
    """LIE. Overwrites halves in two files without checksum or journal; acknowledges, and later syncs the two by turns.

    A key's first value is synced before it is acknowledged."""

    HALF = 1500

    def recover(self):
        super().recover()
        second = read(self.path("slots.b"))  # has no heads: Slots.recover() finds nothing there
        for key, (slot, _) in self.place.items():
            value = self.mem[key]
            rest = second[slot * SLOT : slot * SLOT + SLOT]
            self.mem[key] = value[4:] + rest[: struct.unpack("<I", value[:4])[0]]

    def put(self, key, value):
        slot, generation = self.next(key)
        first, rest = value[: self.HALF], value[self.HALF :]
        write_all(self.fds[0], self.encode(generation, key, struct.pack("<I", len(rest)) + first), slot * SLOT)
        write_all(self.fds[1], rest, slot * SLOT)
        if generation == 1:
            os.fdatasync(self.fds[1])
            os.fdatasync(self.fds[0])
        self.remember(key, value)

    def background(self):
        while True:
            for fd in self.fds:
                os.fdatasync(fd)
                time.sleep(0.015)

    def stop(self):
        for fd in self.fds:
            os.fdatasync(fd)


BEHAVIOURS = {
    # honest
    "log": Log,
    "log_mixed": LogMixed,
    "late_ack": LateAck,
    "group_commit": GroupCommit,
    "odsync": ODsync,
    "fallocated": Fallocated,
    "mirrors": Mirrors,
    "one_mirror": OneMirror,
    "checkpoints": Checkpoints,
    "files": Files,
    "new_files": NewFiles,
    "slots": Slots,
    "direct_dsync": DirectDsync,
    "mapped": Mapped,
    # lies
    "drops_flushes": DropsFlushes,
    "syncs_every_tenth": SyncsEveryTenth,
    "acks_early": AcksEarly,
    "from_memory": FromMemory,
    "group_commit_race": GroupCommitRace,
    "syncs_wrong_file": SyncsWrongFile,
    "skips_directory_sync": SkipsDirectorySync,
    "recycles": Recycles,
    "renames_before_sync": RenamesBeforeSync,
    "one_shard": OneShard,
    "half_stripe": HalfStripe,
    "other_mirror": OtherMirror,
    "resurrects": Resurrects,
    "serves_old_copy": ServesOldCopy,
    "syncs_every_other": SyncsEveryOther,
    "direct_unflushed": DirectUnflushed,
    "torn_in_place": TornInPlace,
    "mixes_in_place": MixesInPlace,
    "checkpoint_unsynced": CheckpointUnsynced,
    "starts_empty": StartsEmpty,
    "header_before_log": HeaderBeforeLog,
    "hangs_after_cut": HangsAfterCut,
    "refuses_after_crash": RefusesAfterCrash,
}


# --- the wire: frames of a length and contents ------------------------------------------------------------


def send(sock, blob):
    sock.sendall(struct.pack("<I", len(blob)) + blob)


def receive(sock):
    def exactly(n):
        blob = b""
        while len(blob) < n:
            more = sock.recv(n - len(blob))
            if not more:
                raise ConnectionError("closed")
            blob += more
        return blob

    return exactly(struct.unpack("<I", exactly(4))[0])


def serve(behaviour):
    store = BEHAVIOURS[behaviour](os.environ["DATA"])

    def end(*_):
        store.stop()
        os._exit(0)

    store.recover()
    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=store.background, daemon=True).start()
    os.chdir(os.environ["RUN"])
    if os.path.exists("sock"):
        os.unlink("sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("sock")
    listener.listen(128)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=session, args=(store, sock), daemon=True).start()


def session(store, sock):
    try:
        while True:
            request = receive(sock)
            try:
                if request[:1] in b"PD":
                    (klen,) = struct.unpack_from("<H", request, 1)
                    key = request[3 : 3 + klen]
                    store.put(key, request[3 + klen :] if request[:1] == b"P" else None)
                elif request[:1] == b"L":
                    for key, value in list(store.mem.items()):
                        send(sock, struct.pack("<H", len(key)) + key + value)
            except OSError as error:
                if isinstance(error, ConnectionError):
                    raise
                print(f"{type(store).__name__}: {error}", file=sys.stderr, flush=True)
                send(sock, b"-" + str(error).encode())
                continue
            send(sock, b"")
    except ConnectionError:
        sock.close()


def connect():
    os.chdir(os.environ["RUN"])
    sock = socket.socket(socket.AF_UNIX)
    sock.connect("sock")
    return sock


# --- the witness ------------------------------------------------------------------------------------------


def digest(value):
    import hashlib

    return b"-" if value is None else hashlib.sha256(value).hexdigest()[:32].encode()


def say(line):
    """One write, so that lines of several writers do not mix."""
    try:
        while line:
            line = line[os.write(1, line) :]
    except BrokenPipeError:
        os._exit(0)


class Witness:
    def __init__(self, behaviour, defect):
        self.workload = BEHAVIOURS[behaviour].workload
        self.haste = BEHAVIOURS[behaviour].haste
        self.defect = defect
        self.clients = int(os.environ["CLIENTS"])
        self.seed = os.environ["SEED"]
        self.lock = threading.Lock()
        self.count = 0

    def run(self):
        def end(*_):
            os._exit(0)

        signal.signal(signal.SIGTERM, signal.SIG_IGN if self.defect == "stubborn" else end)
        if self.defect == "silent":
            while True:
                time.sleep(1)
        for n in range(self.clients):
            threading.Thread(target=self.writer, args=(n, connect()), daemon=True).start()
        while True:
            time.sleep(1)

    def writer(self, n, sock):
        dice = random.Random(f"{self.seed} {n}")
        live, dead = [], []
        keys = max(2, 24 // self.clients)
        i = 0
        while True:
            time.sleep(dice.uniform(0.5, 1.5) * self.clients / RATE / self.haste)
            kind = {"once": "new", "again": "old" if i >= keys else "new"}.get(self.workload)
            if self.workload == "deletes":
                kind = "delete" if live and i % 3 == 2 else "new"
            if self.workload == "mixed":
                kind = dice.choice(["new", "new", "old", "old", "delete", "revive"])
                if (kind == "revive" and not dead) or (kind in ("old", "delete") and not live):
                    kind = "new"
            if kind == "new":
                key = b"k%s-%d-%d" % (self.seed.encode(), n, i)
                live.append(key)
            elif kind == "old":
                key = dice.choice(live)
            elif kind == "delete":
                key = live.pop(dice.randrange(len(live)))
                dead.append(key)
            else:
                key = dead.pop(dice.randrange(len(dead)))
                live.append(key)
            i += 1
            if self.defect == "longkey":
                key = key.ljust(201, b"x")
            elif self.defect == "longest":
                key = key.ljust(200, b"x")
            value = None
            if kind != "delete":
                value = dice.randbytes(dice.randint(100, 1500) if self.workload == "once" else dice.randint(2500, 3500))
            summed = digest(value)
            if self.defect == "longest":
                summed = summed.ljust(128, b"x")
            if self.workload != "once":
                with self.lock:
                    say(b"try %s %s\n" % (key, summed))
            try:
                send(sock, (b"D" if value is None else b"P") + struct.pack("<H", len(key)) + key + (value or b""))
                reply = receive(sock)
            except ConnectionError:
                with self.lock:
                    say(b"# the server has gone\n")
                return
            if reply:
                with self.lock:
                    say(b"# refused: %s\n" % reply)
                continue
            with self.lock:
                self.count += 1
                self.tell(key, summed)

    def tell(self, key, summed):
        """Prints an acknowledgement, with the defect, if any: at first all is well."""
        line = b"ack %s %s\n" % (key, summed)
        bad = self.count > 20 and self.count % 5 == 0
        other = digest(b"%d" % self.count)
        match self.defect:
            case "twice" if bad:
                say(line + line)
            case "rubbish" if bad:
                say(line + b"all is well with %s\n" % key)
            case "blank" if bad:
                say(b"ack %s x %s\n" % (key, summed))
            case "unsubmitted" if bad:
                say(line + b"ack never%s %s\n" % (key, other))
            case "othersum" if bad:
                say(b"ack %s %s\n" % (key, other))
            case "longsum":
                say(b"ack %s %s\n" % (key, summed.ljust(129, b"x")))
            case "longline" if bad:
                say(line + b"ack " + b"x" * (4 << 20) + b" " + summed + b"\n")
            case "control" if bad:
                say(b"ack \x1b[31m%s\x07 %s\n" % (key, summed))
            case "utf8" if bad:
                say(b"ack %s\xff\xfe\xc3\x28 %s\n" % (key, summed))
            case "endless" if bad:
                while True:
                    say(b"ack " * 16384)
            case "comments":
                say(b"# %s\n" % (b"y" * (self.count % 100)) + line)
            case "noisy":
                say(line)
                os.write(2, b"the witness is well\n" * 1000)
            case "partial":
                half = len(line) // 2
                say(line[:half])
                time.sleep(0.01)
                say(line[half:])
            case "ends" if bad:
                say(line)
                os._exit(3)
            case _:
                say(line)


def have(defect):
    sock = connect()
    send(sock, b"L")
    count = 0
    while True:
        blob = receive(sock)
        if not blob:
            break
        (klen,) = struct.unpack_from("<H", blob)
        key, summed = blob[2 : 2 + klen], digest(blob[2 + klen :])
        if defect == "longest":
            summed = summed.ljust(128, b"x")
        count += 1
        if count > 10:
            match defect:
                case "fails":
                    sys.exit(1)
                case "hangs":
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    while True:
                        time.sleep(1)
                case "endless":
                    while True:
                        say(b"have " * 16384)
                case "forever":
                    while True:
                        say(b"have %s %s\n" % (key, summed))
                case "control":
                    key = b"\x1b]0;owned\x07" + key
                case "utf8":
                    key = b"\xff\xfe\xc3\x28" + key
                case "rubbish":
                    say(b"all is well\n")
                case "forgets":
                    continue
        say(b"have %s %s\n" % (key, summed))


def main(what, behaviour="log", defect=""):
    if what == "version":
        print("liar 1.0")
    elif what == "list":
        print("\n".join(BEHAVIOURS))
    elif what == "prepare":
        BEHAVIOURS[behaviour](os.environ["DATA"]).prepare()
    elif what == "serve":
        serve(behaviour)
    elif what == "ready":
        sock = connect()
        send(sock, b"?")
        receive(sock)
    elif what == "ack":
        Witness(behaviour, defect).run()
    elif what == "have":
        have(behaviour)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
