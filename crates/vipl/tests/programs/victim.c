/* Serves clients that may do anything, one after the other, until one sends "end". Memory that they must not reach stays as
 * it is, and a client that keeps to the rules is served. */
#include "pair.h"

const char *run;

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    run = discriminator(argv[1]);
    struct nic nic;
    VIP_MEM_HANDLE closed;
    static char secret[4096];
    open_nic(&nic);
    VIP_MEM_ATTRIBUTES attributes = {nic.tag, VIP_FALSE, VIP_FALSE};
    memset(secret, 42, sizeof secret);
    OK(VipRegisterMem(nic.handle, secret, sizeof secret, &attributes, &closed));
    union address local = at(&nic, run);
    int clients = 0, ended = 0;
    while (!ended) {
        VIP_CONN_HANDLE request;
        VIP_VI_HANDLE vi = new_vi(&nic, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
        for (int k = 0; k < 4; k++)
            receive_bytes(&nic, vi, k, 100 * k, 100);
        OK(VipConnectWait(nic.handle, &local.net, LONG, NULL, NULL, &request));
        clients++;
        if (VipConnectAccept(request, vi) == VIP_SUCCESS) {
            while (state_of(vi) == VIP_STATE_CONNECTED) {
                VIP_DESCRIPTOR *done;
                if (VipRecvWait(vi, 10, &done) == VIP_SUCCESS && done->CS.Length == 3 &&
                    memcmp(done->DS[0].Local.Data.Address, "end", 3) == 0) {
                    send_bytes(&nic, vi, 10, 0, 0);
                    sent(vi);
                    ended = 1;
                }
            }
        }
        end_vi(vi);
        for (unsigned k = 0; k < sizeof secret; k++)
            CHECK(secret[k] == 42);
    }
    OK(VipDeregisterMem(nic.handle, secret, closed));
    close_nic(&nic);
    printf("served %d clients\n", clients);
    return 0;
}
