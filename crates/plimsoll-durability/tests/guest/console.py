#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tells the guest at a socket a command, and prints the lines that it answers with, until '# ends'."""

import socket
import sys


def main():
    path, command = sys.argv[1:]
    prefix = "have " if command == "have" else "ack "
    with socket.socket(socket.AF_UNIX) as guest:
        guest.connect(path)
        lines = guest.makefile("rw")
        lines.write(command + "\n")
        lines.flush()
        for line in lines:
            if line.startswith("# ends"):
                return
            if line.startswith(prefix):
                print(line.strip(), flush=True)
    raise SystemExit("the guest has ended")


if __name__ == "__main__":
    main()
