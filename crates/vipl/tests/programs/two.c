/* Two processes connect by discriminator; a message with immediate data goes there, and one comes back. */
#include <sys/wait.h>

#include "common.h"

static void end(struct nic *nic, VIP_VI_HANDLE vi)
{
    OK(VipDisconnect(vi));
    OK(VipDestroyVi(vi));
    close_nic(nic);
}

static void server(const char *name)
{
    struct nic nic;
    open_nic(&nic);
    VIP_VI_HANDLE vi = new_vi(&nic, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
    VIP_DESCRIPTOR *receive = one(&nic, 0, data(&nic, 0), 100);
    OK(VipPostRecv(vi, receive, nic.memory));
    union address local = at(&nic, name);
    serve(&nic, vi, &local);
    CHECK(received(vi) == receive);
    CHECK(receive->CS.Status == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE));
    CHECK(receive->CS.Length == 5 && receive->CS.ImmediateData == 77);
    CHECK(memcmp(data(&nic, 0), "hello", 5) == 0);
    VIP_DESCRIPTOR *send = one(&nic, 1, data(&nic, 0), 5);
    OK(VipPostSend(vi, send, nic.memory));
    CHECK(sent(vi) == send && send->CS.Status == VIP_STATUS_DONE && send->CS.Length == 5);
    end(&nic, vi);
}

static void client(const char *name)
{
    struct nic nic;
    open_nic(&nic);
    VIP_VI_HANDLE vi = new_vi(&nic, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
    VIP_DESCRIPTOR *receive = one(&nic, 0, data(&nic, 100), 100);
    OK(VipPostRecv(vi, receive, nic.memory));
    union address local = at(&nic, "client"), remote = at(&nic, name);
    call(vi, &local, &remote);
    memcpy(data(&nic, 0), "hello", 5);
    VIP_DESCRIPTOR *send = one(&nic, 1, data(&nic, 0), 5);
    send->CS.Control = VIP_CONTROL_IMMEDIATE;
    send->CS.ImmediateData = 77;
    OK(VipPostSend(vi, send, nic.memory));
    CHECK(sent(vi) == send);
    CHECK(received(vi) == receive && receive->CS.Status == (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE));
    CHECK(memcmp(data(&nic, 100), "hello", 5) == 0);
    end(&nic, vi);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const char *name = discriminator(argv[1]);
    pid_t child = fork();
    if (child == 0) {
        server(name);
        return 0;
    }
    client(name);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("two processes have exchanged messages\n");
    return 0;
}
