// RAW_PACKET: whole frames, checksums and segmentation (DATA-026 to -031, -035, BUILD-006, -008).
//
// A second RAW_PACKET QP captures what the first sends. Where a device does not show one QP's
// frames to another, these tests do not apply.

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

using Frame = std::vector<uint8_t>;

constexpr std::size_t kEthernet = 14, kIpv4 = 20, kTcp = 20;
constexpr std::size_t kHeaders = kEthernet + kIpv4 + kTcp;
constexpr uint8_t kProtocolTcp = 6, kProtocolUdp = 17;
constexpr uint8_t kFin = 0x01, kPsh = 0x08, kAck = 0x10;

void Put16(uint8_t* at, uint32_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}
void Put32(uint8_t* at, uint32_t value) {
  Put16(at, value >> 16);
  Put16(at + 2, value & 0xffff);
}
uint32_t Get16(const uint8_t* at) { return static_cast<uint32_t>(at[0] << 8 | at[1]); }
uint32_t Get32(const uint8_t* at) { return Get16(at) << 16 | Get16(at + 2); }

// The Internet checksum of bytes, continued from `sum` (RFC 1071); a right one folds to 0xffff.
uint32_t Sum(const uint8_t* data, std::size_t length, uint32_t sum = 0) {
  for (std::size_t i = 0; i + 1 < length; i += 2) sum += Get16(data + i);
  if (length % 2 == 1) sum += static_cast<uint32_t>(data[length - 1]) << 8;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}
bool IpChecksumRight(const Frame& frame) { return Sum(&frame[kEthernet], kIpv4) == 0xffff; }
bool TransportChecksumRight(const Frame& frame) {
  const uint8_t* ip = &frame[kEthernet];
  const std::size_t length = frame.size() - kEthernet - kIpv4;
  uint32_t sum = Sum(ip + 12, 8);  // both addresses
  sum += ip[9] + static_cast<uint32_t>(length);
  return Sum(ip + kIpv4, length, sum) == 0xffff;
}

// An Ethernet + IPv4 + TCP or UDP frame with zeroed checksums around patterned bytes.
Frame MakeFrame(uint8_t protocol, std::size_t payload, uint8_t tcp_flags = kAck) {
  const std::size_t transport = protocol == kProtocolTcp ? kTcp : 8;
  Frame frame(kEthernet + kIpv4 + transport + payload);
  uint8_t* p = frame.data();
  const uint8_t to[6] = {2, 0, 0, 0, 0, 2}, from[6] = {2, 0, 0, 0, 0, 1};
  std::memcpy(p, to, 6);
  std::memcpy(p + 6, from, 6);
  Put16(p + 12, 0x0800);
  uint8_t* ip = p + kEthernet;
  ip[0] = 0x45;
  Put16(ip + 2, static_cast<uint32_t>(frame.size() - kEthernet));
  Put16(ip + 4, 0x1000);  // identification
  ip[8] = 64;
  ip[9] = protocol;
  Put32(ip + 12, 0x0a4d0001);
  Put32(ip + 16, 0x0a4d0002);
  uint8_t* t = ip + kIpv4;
  Put16(t, 4791);
  Put16(t + 2, 18515);
  if (protocol == kProtocolTcp) {
    Put32(t + 4, 0x01020304);  // sequence number
    Put32(t + 8, 0x0a0b0c0d);
    t[12] = 5 << 4;
    t[13] = tcp_flags;
    Put16(t + 14, 0x2000);
  } else {
    Put16(t + 4, static_cast<uint32_t>(8 + payload));
  }
  for (std::size_t i = 0; i < payload; ++i) t[transport + i] = PatternByte(i, 7);
  return frame;
}

class Raw : public Conformance {
 protected:
  static constexpr std::size_t kRoom = 2048;
  static constexpr int kReceives = 48;

  struct Bench {
    Pair* pair = nullptr;
    Memory* from = nullptr;
    Memory* into = nullptr;
    uint16_t tso_header = 0;
  };
  Bench Open(uint64_t ops, uint16_t tso_header = 0) {
    if (geteuid() != 0) throw NotApplicable{"RAW_PACKET needs CAP_NET_RAW"};
    PairOptions options;
    options.transport = Transport::kRaw;
    options.ops = ops;
    options.peer_ops = Info(Op::kSend).bit;
    options.send_sge = 4;
    options.recv_wr = kReceives;
    options.stop_at = IBV_QPS_RESET;
    Bench bench;
    if (tso_header == 0) {
      bench.pair = &bed().Connect(options);
    } else {
      // The sender is made with a TSO header limit, which Connect does not ask for.
      PairOptions plain = options;
      plain.ops = Info(Op::kSend).bit;
      bench.pair = &bed().Connect(plain);
      End& a = bench.pair->a;
      ibv_qp_init_attr_ex attr = RequesterAttr(bed(), options, a.send_cq, a.recv_cq);
      attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
      attr.max_tso_header = tso_header;
      ibv_qp* qp = bed().TryQp(&attr);
      if (qp == nullptr) throw NotApplicable{"TSO on RAW_PACKET is refused"};
      bed().Destroy(a.qp);
      a.qp = qp;
      a.ex = ibv_qp_to_qp_ex(qp);
      a.cap = attr.cap;
      bench.tso_header = attr.max_tso_header;
    }
    BringUp(bed(), *bench.pair, IBV_QPS_RTS);
    bench.from = &bed().Mem(1 << 20);
    bench.into = &bed().Mem(kReceives * kRoom);
    for (int i = 0; i < kReceives; ++i) {
      if (PostRecv(bench.pair->b, i, {bench.into->sge(i * kRoom, kRoom)}) != 0) {
        throw SetUpFailed{"a receive could not be posted"};
      }
    }
    return bench;
  }
  // The frames that have been captured, in order.
  static std::vector<Frame> Captured(Bench& bench, std::size_t count) {
    std::vector<Frame> frames;
    for (const ibv_wc& wc : Await(bench.pair->b.recv_cq, count, 2s)) {
      if (wc.status != IBV_WC_SUCCESS) continue;
      const std::size_t at = wc.wr_id * kRoom;
      frames.push_back(bench.into->Copy(at, wc.byte_len));
    }
    return frames;
  }
  // A plain frame must be captured, or the device does not show them.
  void NeedsCapture(Bench& bench) {
    const Frame frame = MakeFrame(kProtocolUdp, 64);
    const std::string problem = Persist(Transport::kRaw, [&]() -> std::string {
      if (SendFrame(bench, frame, 1, IBV_SEND_SIGNALED) != 0) return "refused";
      if (Await(bench.pair->a.send_cq, 1).size() != 1) return "no completion";
      return Captured(bench, 1).empty() ? "not captured" : "";
    });
    if (!problem.empty())
      throw NotApplicable{"one QP's frames are not shown to another: " + problem};
  }
  static Wr FrameWr(Bench& bench, std::size_t at, const Frame& frame, uint64_t id, unsigned flags) {
    std::memcpy(bench.from->data() + at, frame.data(), frame.size());
    Wr wr;
    wr.op = Op::kSend;
    wr.id = id;
    wr.flags = flags;
    wr.sge = {bench.from->sge(at, static_cast<uint32_t>(frame.size()))};
    return wr;
  }
  static int SendFrame(Bench& bench, const Frame& frame, uint64_t id, unsigned flags) {
    return Post(bench.pair->a, FrameWr(bench, 0, frame, id, flags));
  }
  bool ChecksumOffload() {
    return (facts().attr.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM) != 0 ||
           (facts().attr.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM) != 0;
  }
  // One TSO request of `payload` patterned bytes.
  static int SendTso(Bench& bench, Frame header, std::size_t payload, uint16_t mss, unsigned flags,
                     bool poison = false) {
    bench.from->Pattern(4096, payload, 7);
    ibv_qp_ex* ex = bench.pair->a.ex;
    ex->wr_id = 2;
    ex->wr_flags = flags;
    ibv_wr_start(ex);
    ibv_wr_send_tso(ex, header.data(), static_cast<uint16_t>(header.size()), mss);
    if (poison) std::fill(header.begin(), header.end(), 0xdb);
    ibv_wr_set_sge(ex, bench.from->lkey(), bench.from->address(4096),
                   static_cast<uint32_t>(payload));
    return ibv_wr_complete(ex);
  }
  static Frame TsoHeader(std::size_t size = kHeaders, uint8_t tcp_flags = kAck) {
    Frame header = MakeFrame(kProtocolTcp, 0, tcp_flags);
    if (size > header.size()) {  // TCP options: no-operation
      header.resize(size, 1);
      header[kEthernet + kIpv4 + 12] = static_cast<uint8_t>((size - kEthernet - kIpv4) / 4 << 4);
    }
    return header;
  }
};

QPX_TEST(Raw, TsoCutsThePayload, "WR-DATA-026") {
  Bench bench = Open(Bits({Op::kSend, Op::kTso}), 128);
  NeedsCapture(bench);
  const unsigned flags = IBV_SEND_SIGNALED | (ChecksumOffload() ? unsigned{IBV_SEND_IP_CSUM} : 0u);
  for (const std::size_t payload : {1u, 400u, 1000u, 1200u, 2050u}) {
    constexpr uint16_t kMss = 400;
    const Frame header = TsoHeader(kHeaders, kAck | kPsh | kFin);
    ASSERT_CLAUSE("WR-DATA-026", SendTso(bench, header, payload, kMss, flags) == 0);
    const std::vector<ibv_wc> sent = Await(bench.pair->a.send_cq, 1);
    ASSERT_CLAUSE("WR-DATA-026", sent.size() == 1 && sent[0].status == IBV_WC_SUCCESS)
        << Describe(sent);
    const std::size_t count = (payload + kMss - 1) / kMss;
    const std::vector<Frame> frames = Captured(bench, count);
    ASSERT_CLAUSE("WR-DATA-026", frames.size() == count)
        << frames.size() << " segments of " << payload << " bytes, expected " << count;
    for (std::size_t i = 0; i < count; ++i) {
      const Frame& frame = frames[i];
      const std::size_t length = std::min<std::size_t>(kMss, payload - i * kMss);
      ASSERT_CLAUSE("WR-DATA-026", frame.size() == kHeaders + length)
          << "segment " << i << " has " << frame.size() << " bytes";
      for (std::size_t k = 0; k < length; ++k) {
        ASSERT_CLAUSE("WR-DATA-026", frame[kHeaders + k] == PatternByte(i * kMss + k, 7))
            << "segment " << i << ", byte " << k;
      }
      // Ethernet addresses and type, IP addresses, ports.
      EXPECT_CLAUSE("WR-DATA-026", std::equal(frame.begin(), frame.begin() + 14, header.begin()));
      EXPECT_CLAUSE("WR-DATA-026",
                    std::equal(frame.begin() + 26, frame.begin() + 38, header.begin() + 26))
          << "addresses or ports of segment " << i;
      const uint8_t* ip = &frame[kEthernet];
      EXPECT_SHOULD("WR-DATA-026", Get16(ip + 2) == kIpv4 + kTcp + length)
          << "IP total length " << Get16(ip + 2) << " of segment " << i;
      EXPECT_SHOULD("WR-DATA-026", Get16(ip + 4) == 0x1000 + i)
          << "IP identification " << Get16(ip + 4) << " of segment " << i;
      EXPECT_SHOULD("WR-DATA-026", Get32(ip + kIpv4 + 4) == 0x01020304 + i * kMss)
          << "sequence number of segment " << i;
      const uint8_t expected = static_cast<uint8_t>(i + 1 == count ? kAck | kPsh | kFin : kAck);
      EXPECT_SHOULD("WR-DATA-026", ip[kIpv4 + 13] == expected)
          << "TCP flags " << int{ip[kIpv4 + 13]} << " of segment " << i << " of " << count;
    }
    // The receives are used up after a while.
    for (std::size_t i = 0; i < count; ++i) {
      PostRecv(bench.pair->b, i, {bench.into->sge(i * kRoom, kRoom)});
    }
  }
}

QPX_TEST(Raw, TsoHeaderLimit, "WR-DATA-027", "WR-BUILD-008") {
  Bench bench = Open(Bits({Op::kSend, Op::kTso}), 128);
  NeedsCapture(bench);
  std::vector<std::size_t> legal = {54, 66};
  const std::size_t most = std::min<std::size_t>(bench.tso_header / 4 * 4 + 2, 94);
  legal.push_back(most <= bench.tso_header ? most : most - 4);
  for (const std::size_t size : legal) {
    ASSERT_CLAUSE("WR-DATA-027", SendTso(bench, TsoHeader(size), 300, 200, IBV_SEND_SIGNALED) == 0)
        << "a header of " << size;
    ASSERT_CLAUSE("WR-DATA-027", Await(bench.pair->a.send_cq, 1).size() == 1);
    const std::vector<Frame> frames = Captured(bench, 2);
    EXPECT_CLAUSE("WR-DATA-027", frames.size() == 2 && frames[0].size() == size + 200 &&
                                     frames[1].size() == size + 100)
        << frames.size() << " segments with a header of " << size;
  }
  for (const std::size_t size : {std::size_t{bench.tso_header} + 1, std::size_t{65535}}) {
    Frame header = TsoHeader();
    header.resize(size, 1);
    // Between two good frames: neither is seen.
    ibv_qp_ex* ex = bench.pair->a.ex;
    const Wr good = FrameWr(bench, 0, MakeFrame(kProtocolUdp, 32), 1, IBV_SEND_SIGNALED);
    ibv_wr_start(ex);
    Build(bench.pair->a, good);
    ex->wr_id = 2;
    ibv_wr_send_tso(ex, header.data(), static_cast<uint16_t>(size), 200);
    ibv_wr_set_sge(ex, bench.from->lkey(), bench.from->address(4096), 300);
    Build(bench.pair->a, good);
    EXPECT_CLAUSE("WR-DATA-027", ibv_wr_complete(ex) != 0) << "a header of " << size;
    EXPECT_CLAUSE("WR-BUILD-008", Quiet(bench.pair->b.recv_cq).empty())
        << "something of the refused region was sent, header of " << size;
    EXPECT_CLAUSE("WR-BUILD-008", PollNow(bench.pair->a.send_cq).empty());
    ASSERT_CLAUSE("WR-BUILD-008", Post(bench.pair->a, good) == 0) << "the next region";
    EXPECT_CLAUSE("WR-BUILD-008", Await(bench.pair->a.send_cq, 1).size() == 1);
    EXPECT_CLAUSE("WR-BUILD-008", Captured(bench, 1).size() == 1);
  }
}

QPX_TEST(Raw, TsoHeaderIsCopied, "WR-BUILD-006") {
  Bench bench = Open(Bits({Op::kSend, Op::kTso}), 128);
  NeedsCapture(bench);
  const Frame header = TsoHeader();
  ASSERT_CLAUSE("WR-BUILD-006", SendTso(bench, header, 100, 200, IBV_SEND_SIGNALED, true) == 0);
  Await(bench.pair->a.send_cq, 1);
  const std::vector<Frame> frames = Captured(bench, 1);
  ASSERT_CLAUSE("WR-BUILD-006", frames.size() == 1);
  EXPECT_CLAUSE("WR-BUILD-006", std::equal(header.begin(), header.begin() + 14, frames[0].begin()))
      << "the segment carries bytes stored after the builder";
}

QPX_TEST(Raw, TsoPayloadLimit, "WR-DATA-028") {
  const uint32_t most = facts().attr.tso_caps.max_tso;
  if (most == 0 || most > (1u << 24)) throw NotApplicable{"no usable tso_caps.max_tso"};
  Bench bench = Open(Bits({Op::kSend, Op::kTso}), 128);
  Memory& large = bed().Mem(most + 1);
  ibv_qp_ex* ex = bench.pair->a.ex;
  Frame header = TsoHeader();
  ex->wr_id = 2;
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(ex);
  ibv_wr_send_tso(ex, header.data(), static_cast<uint16_t>(header.size()), 1400);
  ibv_wr_set_sge(ex, large.lkey(), large.address(), most + 1);
  if (ibv_wr_complete(ex) == 0) {
    const std::vector<ibv_wc> wcs = Await(bench.pair->a.send_cq, 1);
    EXPECT_CLAUSE("WR-DATA-028", wcs.size() == 1 && wcs[0].status != IBV_WC_SUCCESS)
        << Describe(wcs);
  }
  EXPECT_CLAUSE("WR-DATA-028", Quiet(bench.pair->b.recv_cq).empty()) << "a segment was sent";
}

QPX_TEST(Raw, TsoWithoutMss, "WR-DATA-029") {
  Bench bench = Open(Bits({Op::kSend, Op::kTso}), 128);
  ReferenceOnly();
  EXPECT_CLAUSE("WR-DATA-029", SendTso(bench, TsoHeader(), 100, 0, IBV_SEND_SIGNALED) == EINVAL);
  EXPECT_CLAUSE("WR-DATA-029", Linted("WR-DATA-029"));
}

QPX_TEST_P(Raw, ChecksumsAreFilled, (std::vector<int>{kProtocolTcp, kProtocolUdp}), "WR-DATA-030",
           "WR-BUILD-008") {
  Bench bench = Open(Bits({Op::kSend}));
  NeedsCapture(bench);
  const Frame frame = MakeFrame(static_cast<uint8_t>(param), 77);
  const int rc = SendFrame(bench, frame, 1, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM);
  if (!ChecksumOffload()) {
    // Without the capability: an error of the whole region, or the frame as it is.
    if (rc != 0) {
      EXPECT_CLAUSE("WR-BUILD-008", Quiet(bench.pair->b.recv_cq).empty());
      return;
    }
    const std::vector<Frame> frames = Captured(bench, 1);
    EXPECT_CLAUSE("WR-DATA-030", frames.size() == 1 && frames[0] == frame);
    return;
  }
  ASSERT_CLAUSE("WR-DATA-030", rc == 0);
  ASSERT_CLAUSE("WR-DATA-030", Await(bench.pair->a.send_cq, 1).size() == 1);
  const std::vector<Frame> frames = Captured(bench, 1);
  ASSERT_CLAUSE("WR-DATA-030", frames.size() == 1 && frames[0].size() == frame.size());
  EXPECT_CLAUSE("WR-DATA-030", IpChecksumRight(frames[0])) << "the IPv4 checksum";
  EXPECT_CLAUSE("WR-DATA-030", TransportChecksumRight(frames[0])) << "the TCP or UDP checksum";
}

QPX_TEST(Raw, ChecksumFlagOnOtherTypes, "WR-DATA-030") {
  for (const Transport transport : {Transport::kRc, Transport::kUd}) {
    PairOptions options;
    options.transport = transport;
    options.ops = Bits({Op::kSend});
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    Flight flight = traffic.Make(Op::kSend, 1);
    flight.wr.flags |= IBV_SEND_IP_CSUM;
    const int rc = Post(pair.a, flight.wr);
    Record::Current().Variation("WR-DATA-030", std::string("IP_CSUM on ") + Name(transport) +
                                                   (rc == 0 ? ": accepted" : ": refused"));
    if (rc == 0 && transport == Transport::kRc) {
      const std::string problem = traffic.Finish({flight});
      EXPECT_CLAUSE("WR-DATA-030", problem.empty()) << problem;
    }
  }
}

QPX_TEST(Raw, HeadersMaySpanElements, "WR-DATA-031") {
  Bench bench = Open(Bits({Op::kSend}));
  NeedsCapture(bench);
  const Frame frame = MakeFrame(kProtocolUdp, 100);
  const uint32_t size = static_cast<uint32_t>(frame.size());
  const std::vector<std::vector<uint32_t>> cuts = {{}, {14}, {6}, {1, 13}, {6, 12}, {15}};
  for (const std::vector<uint32_t>& cut : cuts) {
    Wr wr = FrameWr(bench, 0, frame, 1, IBV_SEND_SIGNALED);
    wr.setter = Setter::kSgeList;
    wr.sge.clear();
    uint32_t at = 0;
    for (const uint32_t end : cut) {
      wr.sge.push_back(bench.from->sge(at, end - at));
      at = end;
    }
    wr.sge.push_back(bench.from->sge(at, size - at));
    ASSERT_CLAUSE("WR-DATA-031", Post(bench.pair->a, wr) == 0) << wr.sge.size() << " elements";
    ASSERT_CLAUSE("WR-DATA-031", Differs(Await(bench.pair->a.send_cq, 1), {1}).empty());
    const std::vector<Frame> frames = Captured(bench, 1);
    ASSERT_CLAUSE("WR-DATA-031", frames.size() == 1) << wr.sge.size() << " elements";
    EXPECT_CLAUSE("WR-DATA-031", frames[0] == frame)
        << "the frame differs when its header is cut in " << wr.sge.size();
  }
}

QPX_TEST(Raw, SegmentsCarryChecksums, "WR-DATA-035") {
  if (!ChecksumOffload()) throw NotApplicable{"no checksum offload"};
  Bench bench = Open(Bits({Op::kSend, Op::kTso}), 128);
  NeedsCapture(bench);
  ASSERT_CLAUSE("WR-DATA-035",
                SendTso(bench, TsoHeader(), 1001, 400, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM) == 0);
  ASSERT_CLAUSE("WR-DATA-035", Await(bench.pair->a.send_cq, 1).size() == 1);
  const std::vector<Frame> frames = Captured(bench, 3);
  ASSERT_CLAUSE("WR-DATA-035", frames.size() == 3);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_CLAUSE("WR-DATA-035", IpChecksumRight(frames[i])) << "IPv4, segment " << i;
    EXPECT_CLAUSE("WR-DATA-035", TransportChecksumRight(frames[i])) << "TCP, segment " << i;
  }
}

}  // namespace
}  // namespace qpexam::conformance
