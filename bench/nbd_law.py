#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk in memory whose times follow a law, served over NBD on a Unix socket.

    bench/nbd_law.py SOCKET BYTES [--servers N] [--mean-ms M] [--stall SHARE:MS] [--pause EVERY_S:MS]
                     [--drift SHARE_PER_MINUTE]

Requests wait in one queue for N servers; each takes an exponential time of mean M. `--stall` makes that
share of the requests take MS longer, each by itself; `--pause` stops all servers for MS every EVERY_S
seconds; `--drift` makes all times longer (or, negative, shorter) by that share a minute.
It ends with its terminal or by SIGTERM; nothing is left.
"""

import argparse
import asyncio
import random
import struct
import time

MAGIC, OPTION, REPLY = 0x4E42444D41474943, 0x49484156454F5054, 0x3E889045565A9
REQUEST, ANSWER = 0x25609513, 0x67446698
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
FLAGS = 1 | 4 | 256  # Has flags, can flush, several connections see the same.


class Disk:
    def __init__(self, args):
        self.args, self.data = args, bytearray(args.bytes)
        self.began = time.monotonic()
        self.free = asyncio.Semaphore(args.servers)
        self.random = random.Random(1)

    async def serve(self):
        """The time in which a server has a request, and the pause of all if there is one."""
        async with self.free:
            now = time.monotonic() - self.began
            took = self.random.expovariate(1e3 / self.args.mean_ms)
            took *= max(1 + self.args.drift * now / 60, 0.05)
            share, stall_ms = self.args.stall
            if self.random.random() < share:
                took += stall_ms / 1e3
            every, pause_ms = self.args.pause
            if every:
                # What would end within a pause ends that much later.
                left = every - now % every
                took += pause_ms / 1e3 if took > left else max(pause_ms / 1e3 - now % every, 0)
            await asyncio.sleep(took)

    async def answer(self, request, writer, body):
        kind, handle, offset, length = request
        if kind in (READ, WRITE):
            await self.serve()
        if kind == WRITE:
            self.data[offset : offset + length] = body
        writer.write(struct.pack(">IIQ", ANSWER, 0, handle))
        if kind == READ:
            writer.write(self.data[offset : offset + length])

    async def client(self, reader, writer):
        try:
            writer.write(struct.pack(">QQH", MAGIC, OPTION, 3))
            await reader.readexactly(4)
            if not await self.negotiate(reader, writer):
                return
            tasks = set()
            while True:
                head = await reader.readexactly(28)
                magic, _, kind, *rest = struct.unpack(">IHHQQI", head)
                if magic != REQUEST or kind == DISCONNECT:
                    return
                body = await reader.readexactly(rest[2]) if kind == WRITE else b""
                task = asyncio.ensure_future(self.answer((kind, *rest), writer, body))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def negotiate(self, reader, writer):
        while True:
            _, option, length = struct.unpack(">QII", await reader.readexactly(16))
            await reader.readexactly(length)
            reply = struct.Struct(">QIII")
            if option in (6, 7):  # INFO, GO
                writer.write(reply.pack(REPLY, option, 3, 12))
                writer.write(struct.pack(">HQH", 0, len(self.data), FLAGS))
                writer.write(reply.pack(REPLY, option, 1, 0))
                if option == 7:
                    return True
            elif option == 2:  # ABORT
                writer.write(reply.pack(REPLY, option, 1, 0))
                return False
            else:
                writer.write(reply.pack(REPLY, option, 0x80000001, 0))


def pair(text):
    first, second = text.split(":")
    return float(first), float(second)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("socket")
    parser.add_argument("bytes", type=int)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--mean-ms", type=float, default=2.0)
    parser.add_argument("--stall", type=pair, default=(0.0, 0.0))
    parser.add_argument("--pause", type=pair, default=(0.0, 0.0))
    parser.add_argument("--drift", type=float, default=0.0)
    disk = Disk(parser.parse_args())
    server = await asyncio.start_unix_server(disk.client, disk.args.socket)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
