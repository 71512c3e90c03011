/* A server that is killed: what its client had sent and was not received fails, the rest is flushed, the program hears of
 * it; then the client connects to another server under the same address. */
#include <signal.h>
#include <sys/wait.h>

#include "pair.h"

const char *run;

static volatile int lost;

static void hear(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    if (error->ErrorCode == VIP_ERROR_CONN_LOST && error->ViHandle == *(VIP_VI_HANDLE *)context)
        lost++;
}

/* Serves: receives `count` messages and then nothing any more. */
static void serve_some(VIP_RELIABILITY_LEVEL level, int count, int report)
{
    struct nic nic;
    open_nic(&nic);
    VIP_VI_HANDLE vi = new_vi(&nic, level, NULL, NULL);
    for (int k = 0; k < count; k++)
        receive_bytes(&nic, vi, k, 0, 100);
    union address local = at(&nic, run);
    serve(&nic, vi, &local);
    for (int k = 0; k < count; k++)
        received(vi);
    CHECK(write(report, "x", 1) == 1);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    run = discriminator(argv[1]);
    for (int level = 0; level < 3; level++)
        for (int waiting = 0; waiting < 2; waiting++) {
            int report[2];
            char byte;
            CHECK(pipe(report) == 0);
            pid_t server = fork();
            if (server == 0)
                serve_some(LEVELS[level], 5, report[1]);
            struct nic nic;
            open_nic(&nic);
            VIP_VI_HANDLE vi = new_vi(&nic, LEVELS[level], NULL, NULL);
            union address local = at(&nic, "c"), remote = at(&nic, run);
            lost = 0;
            OK(VipErrorCallback(nic.handle, &vi, hear));
            receive_bytes(&nic, vi, 100, 0, 10);
            call(vi, &local, &remote);
            for (int k = 0; k < 8; k++)
                send_bytes(&nic, vi, k, 0, 100);
            for (int k = 0; k < 5; k++)
                sent(vi);
            CHECK(read(report[0], &byte, 1) == 1);
            kill(server, SIGKILL);
            VIP_DESCRIPTOR *done;
            if (waiting) /* the program sleeps meanwhile */
                failed_send(vi, VIP_STATUS_TRANSPORT_ERROR);
            else { /* it looks from time to time */
                VIP_RETURN code;
                while ((code = VipSendDone(vi, &done)) == VIP_NOT_DONE)
                    usleep(1000);
                IS(code, VIP_DESCRIPTOR_ERROR);
                CHECK(done->CS.Status == (VIP_STATUS_DONE | VIP_STATUS_TRANSPORT_ERROR));
            }
            failed_send(vi, VIP_STATUS_DESC_FLUSHED_ERROR);
            failed_send(vi, VIP_STATUS_DESC_FLUSHED_ERROR);
            failed_receive(vi, VIP_STATUS_DESC_FLUSHED_ERROR);
            CHECK(state_of(vi) == VIP_STATE_ERROR);
            for (int ms = 0; !lost; ms++) {
                CHECK(ms < LONG);
                usleep(1000);
            }
            CHECK(lost == 1);
            CHECK(waitpid(server, NULL, 0) == server);
            end_vi(vi);
            close_nic(&nic);
            close(report[0]);
            close(report[1]);
        }
    printf("killed servers were noticed\n");
    return 0;
}
