/* A server and a client on two hosts, with the keys that `barewire node keygen` makes.
 *
 *     two_hosts serve ADDRESS          on one host, such as 0.0.0.0:7400
 *     two_hosts call HOST:PORT/NAME    on the other, such as db1:7400/echo
 *     two_hosts                        both on this host, over TCP on its loopback, without keys
 */
#include "common.h"

#include <string.h>

static bw_node make_node(int security) {
    bw_node node;
    bw_node_config config = {
        .struct_bytes = sizeof config,
        .security = security,
        /* Without keys this is a demonstration: the two would find out that they are on one host. */
        .no_shortcut = security != BW_SECURITY_KEYS,
    };
    check(bw_node_new(&config, &node), "make a node");
    return node;
}

/* Serves one client after the other; says the address to `out`, if there is one. */
static void serve(int security, const char *own_name, const char *address, int out) {
    bw_node node = make_node(security);
    bw_listener listener;
    bw_port port;
    char text[128], buffer[4096];
    /* Whoever has proved to be a host that we trust may connect. */
    bw_listen_options options = {.struct_bytes = sizeof options, .anyone = 1};
    check(bw_node_listen(node, own_name, &options, &listener), "listen");
    check(bw_node_listen_on(node, address, &port), "open the port");
    int64_t len = check(bw_port_address(port, text, sizeof text), "the address");
    printf("serving %s/%s\n", text, own_name);
    fflush(stdout);
    if (out >= 0) {
        ensure(write(out, text, (size_t)len) == len, "tell the address");
    }
    for (;;) {
        bw_request request;
        bw_connection connection;
        bw_remote_peer peer;
        check(bw_node_next_request(node, BW_FOREVER, &request), "wait for a request");
        check(bw_request_accept(request, 0, &connection), "accept");
        int is_remote = (int)check(bw_connection_remote(connection, &peer), "ask who is there");
        printf("from %s\n", is_remote ? peer.address : "this host");
        fflush(stdout);
        while ((len = bw_connection_recv(connection, buffer, sizeof buffer, BW_FOREVER)) >= 0) {
            if (bw_connection_send(connection, buffer, (size_t)len, BW_FOREVER) < 0) {
                break;
            }
        }
        bw_connection_close(connection);
    }
}

static void call(int security, const char *name) {
    bw_node node = make_node(security);
    bw_connection connection;
    bw_remote_peer peer;
    char buffer[4096];
    check(bw_node_connect(node, name, patient(), &connection), "connect");
    if (check(bw_connection_remote(connection, &peer), "ask who is there") == 1) {
        printf("connected to %s (%s), over %s, %s\n", peer.address, peer.identity, peer.transport,
               peer.is_encrypted ? "encrypted" : "not encrypted");
    } else {
        printf("connected in shared memory: it is on this host\n");
    }
    for (int nth = 0; nth < 200; nth++) {
        int64_t sent = snprintf(buffer, sizeof buffer, "message %d", nth);
        char answer[64];
        check(bw_connection_send(connection, buffer, (size_t)sent, BW_FOREVER), "send");
        int64_t len = check(bw_connection_recv(connection, answer, sizeof answer, SECONDS(30)), "receive");
        ensure(len == sent && memcmp(buffer, answer, (size_t)len) == 0, "the answer");
    }
    check(bw_connection_finish(connection), "finish");
    ensure(bw_connection_recv(connection, buffer, sizeof buffer, SECONDS(30)) == BW_E_FINISHED, "the end");
    printf("200 messages came back\n");
    check(bw_connection_close(connection), "close the connection");
    check(bw_node_close(node), "close the node");
}

static void demonstrate(void) {
    int pipes[2];
    char out[16], own_name[64], text[256];
    ensure(pipe(pipes) == 0, "a pipe");
    snprintf(out, sizeof out, "%d", pipes[1]);
    snprintf(own_name, sizeof own_name, "two-hosts-c-%d", (int)getpid());
    pid_t server = start("serve-insecure", own_name, "127.0.0.1:0", out, NULL);
    close(pipes[1]);
    ssize_t len = read(pipes[0], text, 128);
    ensure(len > 0, "the address of the server");
    snprintf(text + len, sizeof text - (size_t)len, "/%s", own_name);
    call(BW_SECURITY_INSECURE, text);
    stop(server);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        serve(BW_SECURITY_KEYS, "echo", argv[2], -1);
    } else if (argc == 5 && strcmp(argv[1], "serve-insecure") == 0) {
        serve(BW_SECURITY_INSECURE, argv[2], argv[3], atoi(argv[4]));
    } else if (argc == 3 && strcmp(argv[1], "call") == 0) {
        call(BW_SECURITY_KEYS, argv[2]);
    } else if (argc == 1) {
        demonstrate();
    } else {
        fprintf(stderr, "usage: two_hosts [serve ADDRESS | call HOST:PORT/NAME]\n");
        return 2;
    }
    return 0;
}
