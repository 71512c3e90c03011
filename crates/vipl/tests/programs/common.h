/* What the programs share: a NIC with registered memory, VIs, descriptors, and checks that say where they failed. */
#ifndef VIPL_TESTS_COMMON_H
#define VIPL_TESTS_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vipl.h"

/* Only a program that hangs takes as long, in milliseconds. */
enum { LONG = 60000, AREA = 1 << 20, DATA = 1 << 16 };

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: process %d: %s\n", __FILE__, __LINE__, (int)getpid(), #condition);               \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

#define IS(call, expected)                                                                                            \
    do {                                                                                                              \
        VIP_RETURN code_ = (call);                                                                                    \
        if (code_ != (expected)) {                                                                                    \
            fprintf(stderr, "%s:%d: process %d: %s gives %d, not %s\n", __FILE__, __LINE__, (int)getpid(), #call,     \
                    (int)code_, #expected);                                                                           \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

#define OK(call) IS(call, VIP_SUCCESS)

/* A NIC, a tag, and an area of registered memory: descriptors in its first half, data in the second. */
struct nic {
    VIP_NIC_HANDLE handle;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_PROTECTION_HANDLE tag;
    char *area;
    VIP_MEM_HANDLE memory;
};

__attribute__((unused)) static void open_nic(struct nic *nic)
{
    OK(VipOpenNic("barewire0", &nic->handle));
    OK(VipQueryNic(nic->handle, &nic->attributes));
    OK(VipCreatePtag(nic->handle, &nic->tag));
    CHECK(posix_memalign((void **)&nic->area, 4096, AREA) == 0);
    memset(nic->area, 0, AREA);
    VIP_MEM_ATTRIBUTES attributes = {nic->tag, VIP_TRUE, VIP_TRUE};
    OK(VipRegisterMem(nic->handle, nic->area, AREA, &attributes, &nic->memory));
}

__attribute__((unused)) static void close_nic(struct nic *nic)
{
    OK(VipDeregisterMem(nic->handle, nic->area, nic->memory));
    OK(VipDestroyPtag(nic->handle, nic->tag));
    OK(VipCloseNic(nic->handle));
    free(nic->area);
}

/* A VI with this reliability and these completion queues, or none. */
__attribute__((unused)) static VIP_VI_HANDLE new_vi(struct nic *nic, VIP_RELIABILITY_LEVEL level, VIP_CQ_HANDLE sends,
                                                    VIP_CQ_HANDLE receives)
{
    VIP_VI_ATTRIBUTES attributes = {level, 1 << 16, NULL, nic->tag, VIP_TRUE, level != VIP_SERVICE_UNRELIABLE};
    VIP_VI_HANDLE vi;
    OK(VipCreateVi(nic->handle, &attributes, sends, receives, &vi));
    return vi;
}

__attribute__((unused)) static VIP_VI_STATE state_of(VIP_VI_HANDLE vi)
{
    VIP_VI_STATE state;
    VIP_VI_ATTRIBUTES attributes;
    VIP_BOOLEAN sends, receives;
    OK(VipQueryVi(vi, &state, &attributes, &sends, &receives));
    return state;
}

/* An address with room for every discriminator. */
union address {
    VIP_NET_ADDRESS net;
    char room[64];
};

/* The address of this NIC with a discriminator. */
__attribute__((unused)) static union address at(struct nic *nic, const char *discriminator)
{
    union address address;
    memset(&address, 0, sizeof address);
    address.net.HostAddressLen = nic->attributes.NicAddressLen;
    address.net.DiscriminatorLen = strlen(discriminator);
    char *bytes = address.room + 4;
    memcpy(bytes, nic->attributes.LocalNicAddress, nic->attributes.NicAddressLen);
    memcpy(bytes + nic->attributes.NicAddressLen, discriminator, strlen(discriminator));
    return address;
}

/* A discriminator that no other run of the tests has. */
__attribute__((unused)) static const char *discriminator(const char *run)
{
    static char text[17];
    snprintf(text, sizeof text, "%.14s", run);
    return text;
}

/* The descriptor of this number, empty. */
__attribute__((unused)) static VIP_DESCRIPTOR *descriptor(struct nic *nic, int number)
{
    VIP_DESCRIPTOR *of = (VIP_DESCRIPTOR *)(nic->area + 64 * number);
    memset(of, 0, sizeof *of);
    return of;
}

/* The data area from this byte on. */
__attribute__((unused)) static char *data(struct nic *nic, int offset)
{
    return nic->area + AREA / 2 + offset;
}

/* A descriptor with one data segment. */
__attribute__((unused)) static VIP_DESCRIPTOR *one(struct nic *nic, int number, void *bytes, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *of = descriptor(nic, number);
    of->CS.SegCount = 1;
    of->CS.Length = length;
    of->DS[0].Local.Data.Address = bytes;
    of->DS[0].Local.Handle = nic->memory;
    of->DS[0].Local.Length = length;
    return of;
}

/* A descriptor for RDMA with one data segment. */
__attribute__((unused)) static VIP_DESCRIPTOR *rdma(struct nic *nic, int number, VIP_UINT16 operation, void *bytes,
                                                    VIP_UINT32 length, VIP_UINT64 remote, VIP_MEM_HANDLE handle)
{
    VIP_DESCRIPTOR *of = descriptor(nic, number);
    of->CS.SegCount = 2;
    of->CS.Control = operation;
    of->CS.Length = length;
    of->DS[0].Remote.Data.AddressBits = remote;
    of->DS[0].Remote.Handle = handle;
    of->DS[1].Local.Data.Address = bytes;
    of->DS[1].Local.Handle = nic->memory;
    of->DS[1].Local.Length = length;
    return of;
}

/* Waits for a client of this address and accepts it. */
__attribute__((unused)) static void serve(struct nic *nic, VIP_VI_HANDLE vi, union address *local)
{
    union address remote;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    OK(VipConnectWait(nic->handle, &local->net, LONG, &remote.net, &attributes, &request));
    OK(VipConnectAccept(request, vi));
}

/* Connects to a server, which may begin to wait later. */
__attribute__((unused)) static void call(VIP_VI_HANDLE vi, union address *local, union address *remote)
{
    VIP_VI_ATTRIBUTES attributes;
    VIP_RETURN code;
    while ((code = VipConnectRequest(vi, &local->net, &remote->net, LONG, &attributes)) == VIP_NO_MATCH)
        usleep(1000);
    OK(code);
}

/* The next receive that is done, which must have ended well. */
__attribute__((unused)) static VIP_DESCRIPTOR *received(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *done;
    OK(VipRecvWait(vi, LONG, &done));
    return done;
}

__attribute__((unused)) static VIP_DESCRIPTOR *sent(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *done;
    OK(VipSendWait(vi, LONG, &done));
    return done;
}

#endif
