// SPDX-License-Identifier: Apache-2.0
// Preloaded into clients that somebody else wrote: every socket of theirs is bound to the interface that the
// variable BOUND_TO names. Any user may do so.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int socket(int domain, int type, int protocol)
{
    int made = syscall(SYS_socket, domain, type, protocol);
    const char *interface = getenv("BOUND_TO");
    if (made >= 0 && interface && (domain == AF_INET || domain == AF_INET6))
        setsockopt(made, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface) + 1);
    return made;
}
