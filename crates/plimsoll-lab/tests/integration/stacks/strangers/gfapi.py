# SPDX-License-Identifier: Apache-2.0
"""Reads a byte of a file of a GlusterFS volume by its own library, from a server or, where the volume is a path,
by that volume file. Arguments: address, port, volume, path of the file, then options as name=value. Ends well where
it could."""

import ctypes
import os
import sys

address, port, volume, path = sys.argv[1:5]
api = ctypes.CDLL("libgfapi.so.0")
for function in (api.glfs_new, api.glfs_open):
    function.restype = ctypes.c_void_p
is_file = volume.startswith("/")
fs = ctypes.c_void_p(api.glfs_new(b"data" if is_file else volume.encode()))
if is_file:
    api.glfs_set_volfile(fs, volume.encode())
else:
    api.glfs_set_volfile_server(fs, b"tcp", address.encode(), int(port))
api.glfs_set_logging(fs, b"/dev/null", 0)
for option in sys.argv[5:]:
    name, value = option.split("=", 1)
    api.glfs_set_xlator_option(fs, b"*-client-*", b"transport.socket." + name.encode(), value.encode())
byte = ctypes.create_string_buffer(1)
is_read = False
if api.glfs_init(fs) == 0:
    fd = api.glfs_open(fs, path.encode(), os.O_RDONLY)
    is_read = bool(fd) and api.glfs_read(ctypes.c_void_p(fd), byte, 1, 0) == 1
# Without its own end, which waits for servers.
os._exit(0 if is_read else 1)
