/* Sockets of Multipath TCP (IPPROTO_MPTCP), whose other end may use TCP alone. See torture.h. */
#include "torture.h"

#include <netinet/in.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

bool has_multipath(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* Of both ends, whether they ask for it. Where it cannot be had, they say the same without. */
static int a_socket(bool is_multipath)
{
    return MUST(socket(family(), SOCK_STREAM, is_multipath && has_multipath() ? IPPROTO_MPTCP : 0));
}

static void say_protocol(int fd)
{
    int protocol;
    socklen_t size = sizeof protocol;
    MUST(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size));
    say("protocol: %d", protocol);
}

static void serve(bool is_multipath)
{
    int listener = a_socket(is_multipath);
    listen_by(listener, 1);
    int fd = accept_one(listener);
    say_protocol(fd);
    warm_up(fd);
    talk(fd, 50);
    say_protocol(fd);
    finish(fd);
}

static void ask(bool is_multipath)
{
    int fd = a_socket(is_multipath);
    dial_by(fd);
    warm_up(fd);
    talk(fd, 50);
    say_protocol(fd);
    finish(fd);
}

static void serve_multipath(int unused)
{
    (void)unused;
    serve(true);
}

static void serve_plainly(int unused)
{
    (void)unused;
    serve(false);
}

static void ask_multipath(int unused)
{
    (void)unused;
    ask(true);
}

static void ask_plainly(int unused)
{
    (void)unused;
    ask(false);
}

const struct torture_case multipath_cases[] = {
    {"multipath-server", serve_multipath, ask_plainly, OWN_SOCKETS | INTERNET},
    {"multipath-client", serve_plainly, ask_multipath, OWN_SOCKETS | INTERNET},
    {"multipath-both", serve_multipath, ask_multipath, OWN_SOCKETS | INTERNET},
    {NULL, NULL, NULL, 0},
};
