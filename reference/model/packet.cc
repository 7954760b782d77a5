#include "reference/model/packet.h"

#include <algorithm>
#include <cstring>

#include "reference/model/faults.h"

namespace qpexam::model {
namespace {

constexpr size_t kEthernet = 14, kVlanTag = 4;
constexpr uint16_t kTypeIpv4 = 0x0800, kTypeIpv6 = 0x86dd, kTypeVlan = 0x8100;
constexpr uint8_t kTcp = 6, kUdp = 17;
constexpr uint8_t kFin = 0x01, kPsh = 0x08;

uint16_t Get16(const uint8_t* p) { return static_cast<uint16_t>(p[0] << 8 | p[1]); }
uint32_t Get32(const uint8_t* p) { return uint32_t{Get16(p)} << 16 | Get16(p + 2); }
void Put16(uint8_t* p, uint64_t v) {
  p[0] = static_cast<uint8_t>(v >> 8);
  p[1] = static_cast<uint8_t>(v);
}
void Put32(uint8_t* p, uint32_t v) {
  Put16(p, v >> 16);
  Put16(p + 2, v);
}

uint32_t SumWords(const uint8_t* p, size_t n, uint32_t sum) {
  for (; n > 1; n -= 2, p += 2) sum += Get16(p);
  if (n == 1) sum += uint32_t{p[0]} << 8;
  return sum;
}
uint16_t Fold(uint32_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

// Where the layers of a frame begin; l4 is 0 where there is no TCP or UDP.
struct Layers {
  size_t ip = 0;
  bool v6 = false;
  size_t l4 = 0;
  uint8_t protocol = 0;
  size_t end = 0;  // of the IP packet
};

Layers Find(const uint8_t* frame, size_t size) {
  Layers l;
  size_t at = kEthernet;
  if (size < at + 20) return l;
  uint16_t type = Get16(frame + 12);
  if (type == kTypeVlan && size >= at + kVlanTag + 20) {
    type = Get16(frame + 16);
    at += kVlanTag;
  }
  if (type == kTypeIpv4) {
    const size_t header = (frame[at] & 0xf) * 4u;
    if (frame[at] >> 4 != 4 || header < 20 || at + header > size) return l;
    l.ip = at;
    l.end = std::min(size, at + std::max<size_t>(Get16(frame + at + 2), header));
    l.protocol = frame[at + 9];
    const bool fragment = (Get16(frame + at + 6) & 0x3fff) != 0;
    if (!fragment) l.l4 = at + header;
  } else if (type == kTypeIpv6 && size >= at + 40) {
    l.ip = at;
    l.v6 = true;
    l.end = std::min<size_t>(size, at + 40 + Get16(frame + at + 4));
    l.protocol = frame[at + 6];
    l.l4 = at + 40;
  }
  if (l.protocol == kTcp ? l.l4 + 20 > l.end : l.protocol == kUdp ? l.l4 + 8 > l.end : true) {
    l.l4 = 0;
  }
  return l;
}

uint32_t PseudoHeader(const uint8_t* frame, const Layers& l) {
  uint32_t sum = l.v6 ? SumWords(frame + l.ip + 8, 32, 0) : SumWords(frame + l.ip + 12, 8, 0);
  return sum + l.protocol + static_cast<uint32_t>(l.end - l.l4);
}

}  // namespace

GrhBytes MakeGrh(const ibv_gid& source, const ibv_gid& destination, uint64_t payload_length,
                 const ibv_global_route& grh) {
  GrhBytes out{};
  uint8_t* p = out.bytes;
  const auto mapped = [](const ibv_gid& gid) {
    static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
  };
  if (mapped(source) && mapped(destination)) {
    p += 20;
    p[0] = 0x45;
    p[1] = grh.traffic_class;
    Put16(p + 2, 20 + 8 + 12 + payload_length);
    p[6] = 0x40;  // don't fragment
    p[8] = grh.hop_limit;
    p[9] = kUdp;
    std::memcpy(p + 12, source.raw + 12, 4);
    std::memcpy(p + 16, destination.raw + 12, 4);
    Put16(p + 10, Fold(SumWords(p, 20, 0)));
    return out;
  }
  Put32(p, 6u << 28 | uint32_t{grh.traffic_class} << 20 | (grh.flow_label & 0xfffff));
  Put16(p + 4, payload_length + 12 + 4);  // BTH, ICRC
  p[6] = 0x1b;                            // IBA's next header
  p[7] = grh.hop_limit;
  std::memcpy(p + 8, source.raw, 16);
  std::memcpy(p + 24, destination.raw, 16);
  return out;
}

void FillChecksums(Frame* frame) {
  uint8_t* p = frame->data();
  const Layers l = Find(p, frame->size());
  if (l.ip == 0) return;
  if (!l.v6) {
    const size_t header = (p[l.ip] & 0xf) * 4u;
    Put16(p + l.ip + 10, 0);
    Put16(p + l.ip + 10, Fold(SumWords(p + l.ip, header, 0)));
    if (Faulty(Fault::kIpChecksumOnly)) return;
  }
  if (l.l4 == 0) return;
  uint8_t* checksum = p + l.l4 + (l.protocol == kTcp ? 16 : 6);
  Put16(checksum, 0);
  uint16_t sum = Fold(SumWords(p + l.l4, l.end - l.l4, PseudoHeader(p, l)));
  if (l.protocol == kUdp && sum == 0) sum = 0xffff;
  Put16(checksum, sum);
}

bool ChecksumsValid(const Frame& frame) {
  const uint8_t* p = frame.data();
  const Layers l = Find(p, frame.size());
  if (l.ip == 0 || l.v6) return false;
  if (Fold(SumWords(p + l.ip, (p[l.ip] & 0xf) * 4u, 0)) != 0) return false;
  if (l.l4 == 0) return true;
  if (l.protocol == kUdp && Get16(p + l.l4 + 6) == 0) return true;  // none sent
  return Fold(SumWords(p + l.l4, l.end - l.l4, PseudoHeader(p, l))) == 0;
}

std::vector<Frame> CutSegments(Bytes header, Bytes payload, uint16_t mss, Checksums checksums) {
  std::vector<Frame> segments;
  uint16_t id = 0;
  uint64_t at = 0;
  do {
    const uint64_t n = std::min<uint64_t>(mss, payload.size - at);
    const bool last = at + n == payload.size;
    if (last && Faulty(Fault::kTsoLastSegmentLost) && !segments.empty()) break;
    Frame frame(header.begin(), header.end());
    if (n != 0) frame.insert(frame.end(), payload.data + at, payload.data + at + n);
    // The header describes a packet of any length: the layers are found in it alone.
    uint8_t* p = frame.data();
    size_t ip = kEthernet;
    uint16_t type = header.size >= kEthernet ? Get16(p + 12) : 0;
    if (type == kTypeVlan && header.size >= kEthernet + kVlanTag) {
      type = Get16(p + 16);
      ip += kVlanTag;
    }
    const bool v4 = type == kTypeIpv4 && header.size >= ip + 40;
    const bool v6 = type == kTypeIpv6 && header.size >= ip + 60;
    size_t tcp = 0;
    if (v4) {
      if (segments.empty()) id = Get16(p + ip + 4);
      if (!Faulty(Fault::kTsoIpLengthNotUpdated)) Put16(p + ip + 2, frame.size() - ip);
      if (!Faulty(Fault::kTsoIdNotAdvanced)) Put16(p + ip + 4, id + segments.size());
      tcp = ip + (p[ip] & 0xf) * 4u;
    } else if (v6) {
      Put16(p + ip + 4, frame.size() - ip - 40);
      tcp = ip + 40;
    }
    if (tcp != 0 && header.size >= tcp + 20) {
      const uint32_t sequence = Get32(p + tcp + 4);
      if (!Faulty(Fault::kTsoSequenceNotAdvanced)) {
        Put32(p + tcp + 4, sequence + static_cast<uint32_t>(at));
      }
      if (!last && !Faulty(Fault::kTsoFinOnEverySegment)) {
        p[tcp + 13] &= static_cast<uint8_t>(~(kFin | kPsh));
      }
      if (!segments.empty() && Faulty(Fault::kTsoPortsLost)) Put32(p + tcp, 0);
    }
    if (checksums == Checksums::kFilled &&
        !(Faulty(Fault::kTsoChecksumFirstOnly) && !segments.empty())) {
      FillChecksums(&frame);
    }
    segments.push_back(std::move(frame));
    at += n;
  } while (at < payload.size);
  return segments;
}

}  // namespace qpexam::model
