// The layouts that librxe and the rdma_rxe kernel module share: queue header, WQEs, private
// command data. Facts of <rdma/rdma_user_rxe.h>; rxe_layout_check.c compares each offset with that
// header. (The header itself is not used from C++: its flexible arrays inside a union lie elsewhere
// there.)
#ifndef QPEXAM_HARNESS_HOSTED_RXE_RXE_LAYOUT_H_
#define QPEXAM_HARNESS_HOSTED_RXE_RXE_LAYOUT_H_

#ifdef __cplusplus
#include <cstdint>
#else
#include <stdint.h>
#endif

// Offsets into a queue's memory.
enum {
  kRxeQueueLog2ElemSize = 0,
  kRxeQueueIndexMask = 4,
  kRxeQueueProducer = 128,
  kRxeQueueConsumer = 256,
  kRxeQueueData = 384,
};

// Offsets into a send WQE.
enum {
  kRxeWrId = 0,
  kRxeReserved = 8,
  kRxeOpcode = 12,
  kRxeSendFlags = 16,
  kRxeExtra = 20,  // imm_data or invalidate_rkey
  kRxeRdmaRemoteAddr = 24,
  kRxeRdmaRkey = 32,
  kRxeAtomicRemoteAddr = 24,
  kRxeAtomicCompareAdd = 32,
  kRxeAtomicSwap = 40,
  kRxeAtomicRkey = 48,
  kRxeFlushRemoteAddr = 24,
  kRxeFlushLength = 32,
  kRxeFlushRkey = 36,
  kRxeFlushType = 40,
  kRxeFlushLevel = 41,
  kRxeUdRemoteQpn = 24,
  kRxeUdRemoteQkey = 28,
  kRxeUdAhNum = 36,
  kRxeUdAvPort = 56,
  kRxeUdAvNetwork = 57,
  kRxeUdAvMac = 58,
  kRxeUdAvGid = 64,
  kRxeUdAvFlowLabel = 80,
  kRxeUdAvGidIndex = 84,
  kRxeUdAvHopLimit = 85,
  kRxeUdAvTrafficClass = 86,
  kRxeUdAvSource = 88,
  kRxeUdAvTarget = 116,
  kRxeMwAddr = 24,
  kRxeMwLength = 32,
  kRxeMwMrLkey = 40,
  kRxeMwMwRkey = 44,
  kRxeMwRkey = 48,
  kRxeMwAccess = 52,
  kRxeStatus = 144,
  kRxeState = 148,
  kRxeIova = 152,
  kRxeHasRdAtomic = 180,
  kRxeDmaLength = 184,
  kRxeDmaResid = 188,
  kRxeDmaCurSge = 192,
  kRxeDmaNumSge = 196,
  kRxeDmaSgeOffset = 200,
  kRxeDmaData = 208,  // SGEs, inline data, or the 8 bytes of an ATOMIC_WRITE
  kRxeSendWqeSize = 208,
};

// Offsets into a receive WQE.
enum {
  kRxeRecvWrId = 0,
  kRxeRecvDmaLength = 16,
  kRxeRecvDmaResid = 20,
  kRxeRecvDmaCurSge = 24,
  kRxeRecvDmaNumSge = 28,
  kRxeRecvDmaSgeOffset = 32,
  kRxeRecvDmaSge = 40,
  kRxeRecvWqeSize = 40,
};

// RXE_NETWORK_TYPE_*
enum { kRxeNetworkIpv4 = 1, kRxeNetworkIpv6 = 2 };

enum { kRxeSgeSize = 16, kRxeCqeSize = 64 };

// mminfo: how a response names a ring to map.
struct RxeMapInfo {
  uint64_t offset;
  uint32_t size;
  uint32_t pad;
};

#endif  // QPEXAM_HARNESS_HOSTED_RXE_RXE_LAYOUT_H_
