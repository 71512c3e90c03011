/* Sizes and places of the header's structures, as crates/vipl/src/raw.rs and crates/proto/src/via have them. */
#include <stddef.h>

#include "vipl.h"

#ifndef static_assertion
#define static_assertion _Static_assert
#endif
#define PLACE(type, member, bytes) static_assertion(offsetof(type, member) == (bytes), #type "." #member)
#define SIZE(type, bytes) static_assertion(sizeof(type) == (bytes), #type)

SIZE(VIP_NIC_ATTRIBUTES, 200);
PLACE(VIP_NIC_ATTRIBUTES, LocalNicAddress, 88);
PLACE(VIP_NIC_ATTRIBUTES, ThreadSafe, 96);
PLACE(VIP_NIC_ATTRIBUTES, MaxDiscriminatorLen, 100);
PLACE(VIP_NIC_ATTRIBUTES, MaxRegisterBytes, 104);
PLACE(VIP_NIC_ATTRIBUTES, MaxTransferSize, 168);
PLACE(VIP_NIC_ATTRIBUTES, ReliabilityLevelSupport, 192);
SIZE(VIP_VI_ATTRIBUTES, 40);
PLACE(VIP_VI_ATTRIBUTES, MaxTransferSize, 8);
PLACE(VIP_VI_ATTRIBUTES, Ptag, 24);
PLACE(VIP_VI_ATTRIBUTES, EnableRdmaRead, 36);
SIZE(VIP_MEM_ATTRIBUTES, 16);
SIZE(VIP_ERROR_DESCRIPTOR, 48);
PLACE(VIP_ERROR_DESCRIPTOR, ErrorCode, 44);
SIZE(VIP_AUTODISCOVERY_LIST, 24);
PLACE(VIP_NET_ADDRESS, HostAddress, 4);
SIZE(VIP_DESCRIPTOR, 64);
SIZE(VIP_CONTROL_SEGMENT, 32);
PLACE(VIP_CONTROL_SEGMENT, NextHandle, 8);
PLACE(VIP_CONTROL_SEGMENT, SegCount, 12);
PLACE(VIP_CONTROL_SEGMENT, Control, 14);
PLACE(VIP_CONTROL_SEGMENT, ImmediateData, 20);
PLACE(VIP_CONTROL_SEGMENT, Length, 24);
PLACE(VIP_CONTROL_SEGMENT, Status, 28);
SIZE(VIP_DESCRIPTOR_SEGMENT, 16);
PLACE(VIP_DATA_SEGMENT, Handle, 8);
PLACE(VIP_DATA_SEGMENT, Length, 12);
SIZE(VIP_RETURN, 4);
SIZE(VIP_VI_STATE, 4);
static_assertion(VIP_STATUS_ERROR_MASK == (VIP_STATUS_FORMAT_ERROR | VIP_STATUS_PROTECTION_ERROR |
                                           VIP_STATUS_LENGTH_ERROR | VIP_STATUS_PARTIAL_ERROR |
                                           VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_TRANSPORT_ERROR |
                                           VIP_STATUS_RDMA_PROT_ERROR | VIP_STATUS_REMOTE_DESC_ERROR),
                 "the errors of a status");
