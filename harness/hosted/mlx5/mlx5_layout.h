// The layouts that libmlx5, the mlx5_ib kernel module and a ConnectX share: doorbells, WQE
// segments, CQEs, private command data. Facts of providers/mlx5/mlx5dv.h and <rdma/mlx5-abi.h>;
// mlx5_layout_check.c compares them with those headers. All device fields are big endian.
#ifndef QPEXAM_HARNESS_HOSTED_MLX5_MLX5_LAYOUT_H_
#define QPEXAM_HARNESS_HOSTED_MLX5_MLX5_LAYOUT_H_

// Doorbell records: two 32-bit words a queue.
enum { kMlx5RcvDbr = 0, kMlx5SndDbr = 1, kMlx5CqSetCi = 0, kMlx5CqArmDb = 1 };

// A UAR page: the CQ doorbell, and from 0x800 on four BlueFlame registers of two halves each.
enum {
  kMlx5UarCqDoorbell = 0x20,
  kMlx5UarBlueFlame = 0x800,
  kMlx5BfRegSize = 512,
};

enum {
  kMlx5OpNop = 0x00,
  kMlx5OpSendInv = 0x01,
  kMlx5OpWrite = 0x08,
  kMlx5OpWriteImm = 0x09,
  kMlx5OpSend = 0x0a,
  kMlx5OpSendImm = 0x0b,
  kMlx5OpTso = 0x0e,
  kMlx5OpRead = 0x10,
  kMlx5OpAtomicCs = 0x11,
  kMlx5OpAtomicFa = 0x12,
  kMlx5OpUmr = 0x25,
};

// Control segment, 16 bytes.
enum {
  kMlx5CtrlOpmodIdxOpcode = 0,
  kMlx5CtrlQpnDs = 4,
  kMlx5CtrlSignature = 8,
  kMlx5CtrlFmCeSe = 11,
  kMlx5CtrlImm = 12,
  kMlx5CtrlSize = 16,
};
enum {
  kMlx5CqUpdate = 2 << 2,
  kMlx5Solicited = 1 << 1,
  kMlx5FenceShift = 5,
  kMlx5FenceSmall = 1,          // after a UMR, set by the library
  kMlx5FenceSmallAndFence = 3,  // both
  kMlx5FenceFence = 4,
};

// Remote address segment, 16 bytes; atomic segment, 16; data segment, 16; inline header, 4.
enum { kMlx5RaddrAddr = 0, kMlx5RaddrRkey = 8, kMlx5RaddrSize = 16 };
enum { kMlx5AtomicSwapAdd = 0, kMlx5AtomicCompare = 8, kMlx5AtomicSize = 16 };
enum { kMlx5DataByteCount = 0, kMlx5DataLkey = 4, kMlx5DataAddr = 8, kMlx5DataSize = 16 };
#define MLX5_LAYOUT_INLINE_SEG 0x80000000u
enum { kMlx5InvalidLkey = 0x100 };

// XRC segment, 16 bytes: the peer's SRQ; nothing else in it is used.
enum { kMlx5XrcSrqn = 0, kMlx5XrcSize = 16 };

// Ethernet segment: 14 bytes, and as many of the frame's front as it says, up to the next 16.
enum {
  kMlx5EthReserved0 = 0,
  kMlx5EthChecksums = 4,
  kMlx5EthReserved1 = 5,
  kMlx5EthMss = 6,
  kMlx5EthReserved2 = 8,
  kMlx5EthHeaderLength = 12,
  kMlx5EthHeader = 14,
  kMlx5EthSize = 16,  // with the first two bytes of the header
};
enum { kMlx5EthL3Checksum = 1 << 6, kMlx5EthL4Checksum = 1 << 7 };

// Datagram segment: the address vector, 48 bytes.
enum {
  kMlx5AvQkey = 0,
  kMlx5AvDqpDct = 8,
  kMlx5AvRmac = 20,
  kMlx5AvSize = 48,
};
#define MLX5_LAYOUT_EXTENDED_UD_AV 0x80000000u

// UMR: control segment of 48 bytes, mkey context of 64, one translation entry in 64.
enum {
  kMlx5UmrFlags = 0,
  kMlx5UmrSize = 48,
  kMlx5MkeyFree = 0,
  kMlx5MkeyAccess = 2,
  kMlx5MkeyQpnMkey = 4,
  kMlx5MkeyStart = 16,
  kMlx5MkeyLength = 24,
  kMlx5MkeySize = 64,
  kMlx5KlmMkey = 4,
  kMlx5KlmAddress = 8,
};
enum {
  kMlx5MkeyIsFree = 1 << 6,
  kMlx5AccessAtomic = 1 << 6,
  kMlx5AccessRemoteWrite = 1 << 5,
  kMlx5AccessRemoteRead = 1 << 4,
  kMlx5AccessLocalWrite = 1 << 3,
};

// Shared receive queue: a next segment of 16 bytes, then data segments.
enum { kMlx5SrqNextIndex = 2, kMlx5SrqNextSize = 16 };

// 64-byte CQE.
enum {
  kMlx5CqeSlid = 22,
  kMlx5CqeFlagsRqpn = 24,
  kMlx5CqeChecksums = 28,
  kMlx5CqeLayers = 29,
  kMlx5CqeSrqnUidx = 32,
  kMlx5CqeImmInvalPkey = 36,
  kMlx5CqeByteCnt = 44,
  kMlx5CqeTimestamp = 48,
  kMlx5CqeVendorSyndrome = 54,
  kMlx5CqeSyndrome = 55,
  kMlx5CqeSopDropQpn = 56,
  kMlx5CqeWqeCounter = 60,
  kMlx5CqeOpOwn = 63,
  kMlx5CqeSize = 64,
};
enum {
  kMlx5CqeL3Good = 1 << 1,
  kMlx5CqeL4Good = 1 << 2,
  kMlx5CqeIpv4 = 2 << 2,  // in kMlx5CqeLayers
};
enum {
  kMlx5CqeReq = 0,
  kMlx5CqeRespWriteImm = 1,
  kMlx5CqeRespSend = 2,
  kMlx5CqeRespSendImm = 3,
  kMlx5CqeRespSendInv = 4,
  kMlx5CqeResizeCq = 5,
  kMlx5CqeReqErr = 13,
  kMlx5CqeRespErr = 14,
};

#endif  // QPEXAM_HARNESS_HOSTED_MLX5_MLX5_LAYOUT_H_
