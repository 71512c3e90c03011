/* Echo over ONC RPC (libtirpc), with the code that rpcgen makes of echo.x; without a port mapper.
 *   onc_rpc server PORT            serves until a client asks for the end
 *   onc_rpc client PORT CALLS      makes calls, compares what comes back, prints a sum
 *   onc_rpc endless PORT           makes calls until one fails, and fails then
 *   onc_rpc end PORT               asks for the end */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "common.h"
#include "echo.h"

/* What rpcgen makes for the server. */
extern void echo_program_1(struct svc_req *request, SVCXPRT *transport);

echo_bytes *echo_back_1_svc(echo_bytes *bytes, struct svc_req *request) {
    (void)request;
    /* The answer is encoded before the question is freed. */
    return bytes;
}

void *echo_end_1_svc(void *nothing, struct svc_req *request) {
    static char answer;
    (void)nothing;
    (void)request;
    svc_exit();
    return &answer;
}

static struct sockaddr_in address_of(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void serve(const char *port) {
    struct sockaddr_in address = address_of(port);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "the port is free");
    check(listen(listener, 16) == 0, "listen");
    SVCXPRT *transport = svc_vc_create(listener, 0, 0);
    check(transport != NULL, "a transport");
    /* Protocol 0: no port mapper is told. */
    check(svc_register(transport, ECHO_PROGRAM, ECHO_VERSION, echo_program_1, 0), "svc_register");
    svc_run();
}

static uint64_t call(CLIENT *client, uint64_t from, uint64_t number, size_t size) {
    static unsigned char data[ECHO_BYTES_MAX];
    fill(data, size, number);
    echo_bytes sent = {.number = number, .data = {.data_len = (u_int)size, .data_val = (char *)data}};
    echo_bytes *came = echo_back_1(&sent, client);
    if (came == NULL) clnt_perror(client, "echo");
    check(came != NULL, "an answer");
    check(came->number == number && came->data.data_len == size, "the number and the size come back");
    check(size == 0 || memcmp(came->data.data_val, data, size) == 0, "the same bytes come back");
    uint64_t all = sum(from, came->data.data_val, size);
    clnt_freeres(client, (xdrproc_t)xdr_echo_bytes, (char *)came);
    /* The next answer is decoded into the same place. */
    memset(came, 0, sizeof *came);
    return all;
}

static CLIENT *connected(const char *port) {
    struct sockaddr_in address = address_of(port);
    int any = RPC_ANYSOCK;
    CLIENT *client = clnttcp_create(&address, ECHO_PROGRAM, ECHO_VERSION, &any, 0, 0);
    if (client == NULL) clnt_pcreateerror("echo");
    check(client != NULL, "a client");
    struct timeval limit = {.tv_sec = 60};
    clnt_control(client, CLSET_TIMEOUT, (char *)&limit);
    return client;
}

static void ask_for_the_end(const char *port) {
    CLIENT *client = connected(port);
    check(echo_end_1(NULL, client) != NULL, "the end is answered");
    clnt_destroy(client);
}

static void ask_endlessly(const char *port) {
    CLIENT *client = connected(port);
    for (uint64_t i = 0;; i++) {
        call(client, SUM_START, i, size_of(i));
        if (i == 200) say_busy();
    }
}

static void ask(const char *port, uint64_t calls) {
    CLIENT *client = connected(port);
    uint64_t all = SUM_START;
    for (uint64_t i = 0; i < 400; i++) all = call(client, all, i, size_of(i));
    double since = seconds();
    for (uint64_t i = 0; i < calls; i++) all = call(client, all, i, 100);
    figure("calls of 100 B a second", (double)calls, since);
    since = seconds();
    for (uint64_t i = 0; i < calls / 100; i++) all = call(client, all, i, ECHO_BYTES_MAX);
    figure("calls of 1 MB a second", (double)(calls / 100), since);
    clnt_destroy(client);
    printf("all %llx\n", (unsigned long long)all);
}

int main(int count, char **words) {
    /* Who writes to an end that was killed is told so by the call. */
    signal(SIGPIPE, SIG_IGN);
    check(count > 2, "onc_rpc server PORT | onc_rpc client PORT CALLS | onc_rpc endless PORT | onc_rpc end PORT");
    if (strcmp(words[1], "server") == 0) {
        serve(words[2]);
    } else if (strcmp(words[1], "endless") == 0) {
        ask_endlessly(words[2]);
    } else if (strcmp(words[1], "end") == 0) {
        ask_for_the_end(words[2]);
    } else {
        check(count > 3, "onc_rpc client PORT CALLS");
        ask(words[2], strtoull(words[3], NULL, 10));
    }
    return 0;
}
