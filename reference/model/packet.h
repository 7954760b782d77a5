// What is visible of packets: the 40 bytes before a datagram, checksums, TSO segments.
#ifndef QPEXAM_REFERENCE_MODEL_PACKET_H_
#define QPEXAM_REFERENCE_MODEL_PACKET_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "reference/model/types.h"

namespace qpexam::model {

using Frame = std::vector<uint8_t>;

// The 40 bytes that a UD receive begins with (WR-UD-004, -011): a GRH (laid out as an IPv6
// header), or 20 undefined bytes and an IPv4 header where both GIDs are IPv4-mapped (RoCE v2).
struct GrhBytes {
  uint8_t bytes[40];
};
GrhBytes MakeGrh(const ibv_gid& source, const ibv_gid& destination, uint64_t payload_length,
                 const ibv_global_route& grh);

// Fills in the IPv4 header checksum and the TCP or UDP checksum (IPv4 or IPv6) of an Ethernet
// frame; leaves alone what is neither.
void FillChecksums(Frame* frame);
// Whether a frame is IPv4 over Ethernet with a valid header checksum, and a valid TCP or UDP one
// where it has one: IBV_WC_IP_CSUM_OK.
bool ChecksumsValid(const Frame& frame);

enum class Checksums : uint8_t { kAsGiven, kFilled };

// Cuts `payload` into segments of mss bytes behind `header` (Ethernet, IPv4 or IPv6, TCP): lengths,
// IPv4 identification and TCP sequence number advance, FIN and PSH stay with the last segment
// (WR-DATA-026).
std::vector<Frame> CutSegments(Bytes header, Bytes payload, uint16_t mss, Checksums checksums);

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_PACKET_H_
