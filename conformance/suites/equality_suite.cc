// Equality: two ways to say the same must leave the same.
//
// Nothing here knows what is right; each test posts one list of requests in two ways on twin pairs
// and compares completions on both sides and all memory. That finds what no expected value was
// written down for.

#include <algorithm>
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

struct Request {
  Op op;
  Shape shape;
};

enum class Way {
  kOneRegion,     // all in one region
  kRegions,       // a region for each
  kPostSend,      // ibv_post_send
  kAfterAnAbort,  // one region, after the same region was built and aborted
  kAllSignaled,   // as kOneRegion, sq_sig_all clear
  kSigAll,        // sq_sig_all set, no flag
};

class Equality : public Conformance {
 protected:
  static PairOptions Options(Transport transport) {
    PairOptions options;
    options.transport = transport;
    options.send_wr = 32;
    options.send_sge = 4;
    options.inline_data = 64;
    options.ops = Bits({Op::kSend, Op::kSendImm});
    if (transport != Transport::kUd) options.ops |= Bits({Op::kWrite, Op::kWriteImm});
    if (transport == Transport::kRc || transport == Transport::kXrc)
      options.ops |= Bits({Op::kRead});
    options.peer_ops = transport == Transport::kXrc ? options.ops : Bits({Op::kSend});
    return options;
  }

  // Every operation of the pair with every setter that works at all, sizes mixed.
  std::vector<Request> Requests(Transport transport) {
    std::vector<Request> requests;
    const PairOptions options = Options(transport);
    for (const Op op : OpsOf(transport)) {
      if ((options.ops & Info(op).bit) == 0) continue;
      for (const Setter setter : WorkingSetters(bed(), options, op)) {
        const bool list = setter == Setter::kSgeList || setter == Setter::kInlineList;
        requests.push_back({op, Shape{setter, list ? 40u : 24u, list ? 2u : 1u}});
      }
    }
    return requests;
  }

  // Posts the requests that way on a fresh pair; what was to be seen, as text.
  std::string Observe(Transport transport, const std::vector<Request>& requests, Way way) {
    PairOptions options = Options(transport);
    options.sig_all = way == Way::kSigAll;
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair, requests.size() + 1, 64);
    std::vector<Wr> wrs;
    std::size_t receives = 0;
    for (const Request& request : requests) {
      const Flight flight = traffic.Make(request.op, wrs.size() + 1, request.shape);
      wrs.push_back(flight.wr);
      receives += flight.expects_receive;
      if (way == Way::kSigAll) wrs.back().flags = 0;
    }
    std::string seen;
    switch (way) {
      case Way::kRegions:
        for (const Wr& wr : wrs) seen += Post(pair.a, wr) == 0 ? "" : "refused ";
        break;
      case Way::kPostSend:
        seen += PostSend(pair.a, wrs) == 0 ? "" : "refused ";
        break;
      case Way::kAfterAnAbort:
        PostAndAbort(pair.a, wrs);
        [[fallthrough]];
      default:
        seen += Post(pair.a, wrs) == 0 ? "" : "refused ";
    }
    seen += "send:";
    for (const ibv_wc& wc : Await(pair.a.send_cq, wrs.size())) {
      seen += " " + Describe({wc});
      if (wc.status == IBV_WC_SUCCESS) seen += "/" + std::to_string(wc.opcode);
    }
    seen += "; receive:";
    const bool reliable = transport == Transport::kRc || transport == Transport::kXrc;
    for (const ibv_wc& wc : Await(pair.b.recv_cq, receives, reliable ? 10s : 2s)) {
      seen += " " + Describe({wc});
      if (wc.status != IBV_WC_SUCCESS) continue;
      seen += "/" + std::to_string(wc.opcode) + "/" + std::to_string(wc.byte_len);
      if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) seen += "/" + std::to_string(wc.imm_data);
    }
    // A plain WRITE's bytes may still be on their way to the peer's eyes (rule 2).
    uint64_t before = 0;
    clock().Until(clock().Limit(200ms), [&] {
      const uint64_t now = Digest(traffic.remote());
      const bool same = now == before;
      before = now;
      return same;
    });
    return seen + "; memory: " + std::to_string(before) + " " +
           std::to_string(Digest(traffic.local()));
  }

  static uint64_t Digest(Memory& memory) {
    uint64_t hash = 14695981039346656037u;
    for (const uint8_t byte : memory.Copy()) hash = (hash ^ byte) * 1099511628211u;
    return hash;
  }

  void Compare(const char* clause, Transport transport, Way one, Way other, const char* what) {
    const std::vector<Request> requests = Requests(transport);
    std::string first, second;
    Persist(transport, [&] {
      first = Observe(transport, requests, one);
      second = Observe(transport, requests, other);
      return first == second ? std::string() : std::string("differ");
    });
    EXPECT_CLAUSE(clause, first == second) << what << ":\n    " << first << "\n    " << second;
  }
};

// The GRH area of a UD receive is undefined, so memory cannot be compared there.
std::vector<Transport> Compared() { return {Transport::kRc, Transport::kUc, Transport::kXrc}; }

QPX_TEST_P(Equality, OneRegionAndManyRegions, Compared(), "WR-CRIT-005") {
  Compare("WR-CRIT-005", param, Way::kOneRegion, Way::kRegions,
          "one region of all, and a region for each, differ");
}

QPX_TEST_P(Equality, RegionsAndPostSend, Compared(), "WR-MIX-004") {
  Compare("WR-MIX-004", param, Way::kOneRegion, Way::kPostSend,
          "a region, and ibv_post_send of the same requests, differ");
}

QPX_TEST_P(Equality, AfterAnAbortAndWithout, Compared(), "WR-ATOM-001") {
  Compare("WR-ATOM-001", param, Way::kOneRegion, Way::kAfterAnAbort,
          "a region, and the same after it was aborted once, differ");
}

QPX_TEST_P(Equality, SigAllAndAllSignaled, Compared(), "WR-COMP-014") {
  Compare("WR-COMP-014", param, Way::kAllSignaled, Way::kSigAll,
          "every request SIGNALED, and sq_sig_all, differ");
}

QPX_TEST_P(Equality, InlineAndSge, Compared(), "WR-INL-004") {
  const PairOptions options = Options(param);
  std::vector<Request> by_sge, by_inline;
  for (const Op op : OpsOf(param)) {
    if ((options.ops & Info(op).bit) == 0) continue;
    if (Info(op).data != DataSetters::kSgeOrInline) continue;
    if (!WorksOnce(bed(), options, op, Shape{Setter::kInline, 1, 1})) continue;
    for (const uint32_t length : {0u, 1u, 15u, 16u, 17u, 40u, 64u}) {
      by_sge.push_back({op, Shape{Setter::kSge, length, 1}});
      by_inline.push_back({op, Shape{Setter::kInline, length, 1}});
    }
  }
  if (by_sge.empty()) throw NotApplicable{"inline data does not work even once (WR-INL-004)"};
  by_sge.resize(std::min<std::size_t>(by_sge.size(), 32));
  by_inline.resize(by_sge.size());
  std::string first, second;
  Persist(param, [&] {
    first = Observe(param, by_sge, Way::kOneRegion);
    second = Observe(param, by_inline, Way::kOneRegion);
    return first == second ? std::string() : std::string("differ");
  });
  EXPECT_CLAUSE("WR-INL-004", first == second)
      << "set_sge and set_inline_data of the same bytes differ:\n    " << first << "\n    "
      << second;
}

}  // namespace
}  // namespace qpexam::conformance
