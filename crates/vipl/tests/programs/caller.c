/* Calls a server that may do anything, so often, and says what each call gave. */
#include "pair.h"

const char *run;

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    run = discriminator(argv[1]);
    struct nic nic;
    open_nic(&nic);
    union address local = at(&nic, "c"), remote = at(&nic, run);
    for (int k = 0; k < atoi(argv[2]); k++) {
        VIP_VI_HANDLE vi = new_vi(&nic, VIP_SERVICE_RELIABLE_DELIVERY, NULL, NULL);
        VIP_RETURN code;
        /* The first server says nothing. The others say something, sooner or later on a busy machine. */
        VIP_ULONG longest_ms = k == 0 ? 500 : 60000;
        while ((code = VipConnectRequest(vi, &local.net, &remote.net, longest_ms, NULL)) == VIP_NO_MATCH)
            usleep(1000);
        CHECK(code == VIP_SUCCESS || state_of(vi) == VIP_STATE_IDLE);
        printf("%d\n", (int)code);
        end_vi(vi);
    }
    close_nic(&nic);
    return 0;
}
