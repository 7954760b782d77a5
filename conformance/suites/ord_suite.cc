// ORD: ordering and fence.

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

class Ord : public Conformance {
 protected:
  Pair& RcPair(std::initializer_list<Op> ops, uint32_t depth = 64) {
    PairOptions options;
    options.ops = Bits(ops);
    options.send_wr = depth;
    return bed().Connect(options);
  }
  static Wr Remote(Op op, uint64_t id, Memory& local, std::size_t from, uint32_t length,
                   Memory& remote, std::size_t to) {
    Wr wr;
    wr.op = op;
    wr.id = id;
    wr.sge = {local.sge(from, length)};
    wr.rkey = remote.rkey();
    wr.remote = remote.address(to);
    return wr;
  }
};

QPX_TEST(Ord, InitiatedInPostingOrder, "WR-ORD-001") {
  Pair& pair = RcPair({Op::kSend});
  Traffic traffic(bed(), pair);
  uint64_t id = 1;
  // Batches of every size; the receiver's completions show the order of the messages.
  const int rounds = Repetitions(1000);
  for (int round = 0; round < rounds; ++round) {
    std::vector<Flight> flights;
    std::vector<std::vector<Wr>> regions(1 + round % 3);
    for (std::size_t r = 0; r < regions.size(); ++r) {
      for (int i = 0; i <= (round + static_cast<int>(r)) % 4; ++i) {
        flights.push_back(traffic.Make(Op::kSend, id++));
        regions[r].push_back(flights.back().wr);
      }
    }
    for (const std::vector<Wr>& wrs : regions) {
      ASSERT_CLAUSE("WR-ORD-001", Post(pair.a, wrs) == 0);
    }
    const std::string problem = traffic.Finish(flights);
    ASSERT_CLAUSE("WR-ORD-001", problem.empty()) << problem;
  }
}

// Litmus shapes S14 and S21: a READ and an atomic come after the WRITE before them.
QPX_TEST(Ord, ReadsAndAtomicsFollowTheWrite, "WR-ORD-001") {
  PairOptions options;
  options.ops = Bits({Op::kWrite, Op::kRead});
  const bool atomics = facts().has_atomics();
  if (atomics) options.ops |= Info(Op::kFetchAdd).bit;
  Pair& pair = bed().Connect(options);
  Memory& local = bed().Mem(256);
  Memory& remote = bed().Mem(256);
  const int rounds = Repetitions(1000);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t value = static_cast<uint64_t>(round) * 2654435761u + 7;
    local.SetU64(0, value);
    local.SetU64(64, 0);
    local.SetU64(128, 0);
    remote.SetU64(0, ~value);
    remote.SetU64(64, ~value);
    std::vector<Wr> wrs = {Remote(Op::kWrite, 1, local, 0, 8, remote, 0),
                           Remote(Op::kRead, 2, local, 64, 8, remote, 0)};
    std::vector<uint64_t> ids = {1, 2};
    if (atomics) {
      wrs.push_back(Remote(Op::kWrite, 3, local, 0, 8, remote, 64));
      wrs.push_back(Remote(Op::kFetchAdd, 4, local, 128, 8, remote, 64));
      wrs.back().compare_add = 1;
      ids.insert(ids.end(), {3, 4});
    }
    ASSERT_CLAUSE("WR-ORD-001", Post(pair.a, wrs) == 0);
    ASSERT_CLAUSE("WR-ORD-001", Differs(Await(pair.a.send_cq, ids.size()), ids).empty());
    ASSERT_CLAUSE("WR-ORD-001", local.U64(64) == value) << "the READ came before the WRITE";
    if (atomics) {
      ASSERT_CLAUSE("WR-ORD-001", local.U64(128) == value) << "the atomic came before the WRITE";
    }
  }
}

QPX_TEST(Ord, AReceiveCompletionCoversEarlierWrites, "WR-ORD-002") {
  for (const Op last : {Op::kSend, Op::kWriteImm}) {
    Pair& pair = RcPair({Op::kWrite, last});
    Memory& local = bed().Mem(16384);
    Memory& remote = bed().Mem(16384);
    const int rounds = Repetitions(1000);
    for (int round = 0; round < rounds; ++round) {
      std::vector<Wr> wrs;
      for (int k = 0; k < 8; ++k) {
        local.Pattern(k * 1024, 1024, round * 8 + k);
        wrs.push_back(Remote(Op::kWrite, k, local, k * 1024, 1024, remote, k * 1024));
        wrs.back().flags = 0;
      }
      wrs.push_back(Remote(last, 9, local, 12288, 16, remote, 12288));
      ASSERT_CLAUSE("WR-ORD-002", PostRecv(pair.b, 5, {remote.sge(14336, 64)}) == 0);
      if (Post(pair.a, wrs) != 0) {
        for (Wr& wr : wrs) wr.flags = IBV_SEND_SIGNALED;  // WR-SAMPLE-006
        ASSERT_CLAUSE("WR-ORD-002", Post(pair.a, wrs) == 0);
      }
      ASSERT_CLAUSE("WR-ORD-002", Await(pair.b.recv_cq, 1).size() == 1);
      for (int k = 0; k < 8; ++k) {
        ASSERT_CLAUSE("WR-ORD-002", remote.HasPattern(k * 1024, 1024, round * 8 + k))
            << "WRITE " << k << " is not visible at the receive completion of " << Info(last).name;
      }
      Await(pair.a.send_cq, wrs[0].flags ? 9 : 1);
    }
  }
}

QPX_TEST(Ord, TheLastWriteWins, "WR-ORD-003") {
  Pair& pair = RcPair({Op::kWrite, Op::kSend});
  Memory& local = bed().Mem(4096);
  Memory& remote = bed().Mem(4096);
  const int rounds = Repetitions(1000);
  for (int round = 0; round < rounds; ++round) {
    local.Pattern(0, 1024, 2 * round);
    local.Pattern(1024, 1024, 2 * round + 1);
    ASSERT_CLAUSE("WR-ORD-003", PostRecv(pair.b, 5, {remote.sge(2048, 64)}) == 0);
    ASSERT_CLAUSE("WR-ORD-003",
                  Post(pair.a, {Remote(Op::kWrite, 1, local, 0, 1024, remote, 0),
                                Remote(Op::kWrite, 2, local, 1024, 1024, remote, 0),
                                Remote(Op::kSend, 3, local, 2048, 16, remote, 0)}) == 0);
    ASSERT_CLAUSE("WR-ORD-003", Differs(Await(pair.a.send_cq, 3), {1, 2, 3}).empty());
    ASSERT_CLAUSE("WR-ORD-003", Await(pair.b.recv_cq, 1).size() == 1);
    ASSERT_CLAUSE("WR-ORD-003", remote.HasPattern(0, 1024, 2 * round + 1))
        << "the earlier WRITE's bytes remain";
  }
}

// READ into B, then SEND from B. Without a fence the old or the new content may be sent.
QPX_TEST_P(Ord, SendOfWhatARead, (std::vector<int>{0, 1}), "WR-ORD-004", "WR-ORD-005") {
  const bool fenced = param == 1;
  Pair& pair = RcPair({Op::kRead, Op::kSend});
  const uint32_t length = 65536;
  Memory& local = bed().Mem(length);
  Memory& source = bed().Mem(length);
  Memory& into = bed().Mem(length);
  const int rounds = Repetitions(10000);
  int old_seen = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint8_t old_byte = static_cast<uint8_t>(2 * round), new_byte = old_byte + 1;
    local.Fill(old_byte);
    source.Fill(new_byte);
    ASSERT_CLAUSE("WR-ORD-005", PostRecv(pair.b, 5, {into.sge(0, length)}) == 0);
    Wr read = Remote(Op::kRead, 1, local, 0, length, source, 0);
    Wr send = Remote(Op::kSend, 2, local, 0, length, source, 0);
    if (fenced) send.flags |= IBV_SEND_FENCE;
    const int rc = Post(pair.a, {read, send});
    if (fenced && rc != 0) throw NotApplicable{"FENCE is refused at complete (WR-SAMPLE-006)"};
    ASSERT_CLAUSE("WR-ORD-004", rc == 0);
    ASSERT_CLAUSE("WR-ORD-004", Differs(Await(pair.a.send_cq, 2), {1, 2}).empty());
    ASSERT_CLAUSE("WR-ORD-004", Await(pair.b.recv_cq, 1).size() == 1);
    if (fenced) {
      ASSERT_CLAUSE("WR-ORD-005", into.Is(0, length, new_byte))
          << "the fenced SEND carries bytes from before the READ, round " << round;
    } else {
      const std::vector<uint8_t> got = into.Copy();
      for (const uint8_t byte : got) {
        ASSERT_CLAUSE("WR-ORD-004", byte == old_byte || byte == new_byte);
        if (byte == old_byte) {
          ++old_seen;
          break;
        }
      }
    }
  }
  if (!fenced) {
    Record::Current().Variation("WR-ORD-004", old_seen > 0
                                                  ? "an unfenced SEND may carry the old content"
                                                  : "an unfenced SEND carried the new content");
  }
}

QPX_TEST_P(Ord, FencedOperationsSeeTheRead, (std::vector<Op>{Op::kSend, Op::kWrite, Op::kWriteImm}),
           "WR-ORD-005") {
  Pair& pair = RcPair({Op::kRead, param});
  Memory& local = bed().Mem(4096);
  Memory& source = bed().Mem(4096);
  Memory& into = bed().Mem(4096);
  const int rounds = Repetitions(10000);
  for (int round = 0; round < rounds; ++round) {
    const uint8_t old_byte = static_cast<uint8_t>(2 * round), new_byte = old_byte + 1;
    local.Fill(old_byte);
    source.Fill(new_byte);
    into.Fill(0xaa);
    if (Info(param).takes_receive) {
      ASSERT_CLAUSE("WR-ORD-005", PostRecv(pair.b, 5, {into.sge(0, 2048)}) == 0);
    }
    Wr read = Remote(Op::kRead, 1, local, 0, 2048, source, 0);
    Wr fenced = Remote(param, 2, local, 0, 2048, into, 0);
    fenced.flags |= IBV_SEND_FENCE;
    if (Post(pair.a, {read, fenced}) != 0) {
      throw NotApplicable{"FENCE is refused at complete (WR-SAMPLE-006)"};
    }
    ASSERT_CLAUSE("WR-ORD-005", Differs(Await(pair.a.send_cq, 2), {1, 2}).empty());
    if (Info(param).takes_receive) {
      ASSERT_CLAUSE("WR-ORD-005", Await(pair.b.recv_cq, 1).size() == 1);
    }
    ASSERT_CLAUSE("WR-ORD-005",
                  clock().Until(clock().Limit(5s), [&] { return into.Is(0, 2048, new_byte); }))
        << "the fenced " << Info(param).name << " carries bytes from before the READ";
  }
}

QPX_TEST(Ord, AFenceAfterALongWrite, "WR-ORD-006") {
  Pair& pair = RcPair({Op::kWrite, Op::kSend});
  Memory& local = bed().Mem(1 << 20);
  Memory& remote = bed().Mem((1 << 20) + 64);
  ASSERT_CLAUSE("WR-ORD-006", PostRecv(pair.b, 5, {remote.sge(1 << 20, 64)}) == 0);
  Wr send = Remote(Op::kSend, 2, local, 0, 16, remote, 0);
  send.flags |= IBV_SEND_FENCE;
  if (Post(pair.a, {Remote(Op::kWrite, 1, local, 0, 1 << 20, remote, 0), send}) != 0) {
    throw NotApplicable{"FENCE is refused at complete (WR-SAMPLE-006)"};
  }
  // Waiting for the WRITE is allowed, so only the end is looked at.
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 2);
  EXPECT_CLAUSE("WR-ORD-006", Differs(wcs, {1, 2}).empty()) << Describe(wcs);
}

QPX_TEST(Ord, ABindIsOrderedBeforeLaterRequests, "WR-ORD-007") {
  PairOptions options;
  options.ops = Bits({Op::kBindMw, Op::kSend});
  options.peer_ops = Bits({Op::kRead, Op::kSend});
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().MemAll(4096);
  Memory& into = bed().Mem(4096);
  const int rounds = Repetitions(1000);
  for (int round = 0; round < rounds; ++round) {
    ibv_mw* mw = bed().Window();
    const uint32_t rkey = ibv_inc_rkey(mw->rkey);
    Wr bind;
    bind.op = Op::kBindMw;
    bind.setter = Setter::kNone;
    bind.id = 1;
    bind.mw = mw;
    bind.bind_rkey = rkey;
    bind.bind = {memory.mr(), memory.address(), 4096, IBV_ACCESS_REMOTE_READ};
    Wr send;
    send.op = Op::kSend;
    send.id = 2;
    memory.SetU64(2048, rkey);
    send.sge = {memory.sge(2048, 8)};
    ASSERT_CLAUSE("WR-ORD-007", PostRecv(pair.b, 5, {into.sge(0, 64)}) == 0);
    ASSERT_CLAUSE("WR-ORD-007", Post(pair.a, {bind, send}) == 0);
    ASSERT_CLAUSE("WR-ORD-007", Await(pair.b.recv_cq, 1).size() == 1);
    // At once, before the owner has polled anything.
    Wr read = Remote(Op::kRead, 3, into, 1024, 64, memory, 0);
    read.rkey = static_cast<uint32_t>(into.U64(0));
    ASSERT_CLAUSE("WR-ORD-007", Post(pair.b, read) == 0);
    const std::vector<ibv_wc> wcs = Await(pair.b.send_cq, 1);
    ASSERT_CLAUSE("WR-ORD-007", Differs(wcs, {3}).empty())
        << "the key that arrived does not work yet: " << Describe(wcs);
    ASSERT_CLAUSE("WR-ORD-007", Differs(Await(pair.a.send_cq, 2), {1, 2}).empty());
    bed().Destroy(mw);
  }
}

QPX_TEST(Ord, InvalidateThenBind, "WR-ORD-008") {
  PairOptions options;
  options.ops = Bits({Op::kBindMw, Op::kLocalInv});
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().MemAll(256);
  ibv_mw* mw = bed().Window();
  const uint32_t first = ibv_inc_rkey(mw->rkey), second = ibv_inc_rkey(first);
  Wr bind;
  bind.op = Op::kBindMw;
  bind.setter = Setter::kNone;
  bind.id = 1;
  bind.mw = mw;
  bind.bind_rkey = first;
  bind.bind = {memory.mr(), memory.address(), 256, IBV_ACCESS_REMOTE_READ};
  ASSERT_CLAUSE("WR-ORD-008", Post(pair.a, bind) == 0);
  ASSERT_CLAUSE("WR-ORD-008", Differs(Await(pair.a.send_cq, 1), {1}).empty());
  mw->rkey = first;
  Wr invalidate;
  invalidate.op = Op::kLocalInv;
  invalidate.setter = Setter::kNone;
  invalidate.id = 2;
  invalidate.rkey = first;
  bind.id = 3;
  bind.bind_rkey = second;
  const int rc = Post(pair.a, {invalidate, bind});
  EXPECT_SHOULD("WR-ORD-008", rc == 0) << "LOCAL_INV and bind in one region: " << rc;
  if (rc != 0) return;
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 2);
  EXPECT_SHOULD("WR-ORD-008", Differs(wcs, {2, 3}).empty()) << Describe(wcs);
}

QPX_TEST(Ord, AtomicsOfManyQpsAreSerialised, "WR-ORD-009") {
  if (facts().attr.orig_attr.atomic_cap < IBV_ATOMIC_HCA) {
    throw NotApplicable{"atomic_cap is below IBV_ATOMIC_HCA"};
  }
  constexpr int kQps = 4;
  const int each = Repetitions(1000);
  Memory& remote = bed().Mem(64);
  remote.SetU64(0, 0);
  std::vector<Pair*> pairs;
  std::vector<Memory*> locals;
  for (int i = 0; i < kQps; ++i) {
    pairs.push_back(&RcPair({Op::kFetchAdd}, 16));
    locals.push_back(&bed().Mem(static_cast<std::size_t>(each) * 8));
  }
  std::vector<int> posted(kQps, 0), done(kQps, 0);
  const bool finished = clock().Until(clock().Limit(100s), [&] {
    bool all = true;
    for (int i = 0; i < kQps; ++i) {
      while (posted[i] < each && posted[i] - done[i] < 16) {
        Wr wr = Remote(Op::kFetchAdd, posted[i], *locals[i],
                       static_cast<std::size_t>(posted[i]) * 8, 8, remote, 0);
        wr.compare_add = 1;
        if (Post(pairs[i]->a, wr) != 0) break;
        ++posted[i];
      }
      for (const ibv_wc& wc : PollNow(pairs[i]->a.send_cq)) {
        EXPECT_CLAUSE("WR-ORD-009", wc.status == IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
        ++done[i];
      }
      all = all && done[i] == each;
    }
    return all;
  });
  ASSERT_CLAUSE("WR-ORD-009", finished) << "not all atomics completed";
  EXPECT_CLAUSE("WR-ORD-009", remote.U64(0) == static_cast<uint64_t>(kQps) * each) << remote.U64(0);
  std::vector<uint64_t> old;
  for (Memory* local : locals) {
    for (int i = 0; i < each; ++i) old.push_back(local->U64(static_cast<std::size_t>(i) * 8));
  }
  std::sort(old.begin(), old.end());
  for (std::size_t i = 0; i < old.size(); ++i) {
    ASSERT_CLAUSE("WR-ORD-009", old[i] == i)
        << "value " << i << " was returned " << (old[i] < i ? "twice" : "never");
  }
}

QPX_TEST(Ord, AtomicCapabilityIsNoted, "WR-ORD-010") {
  const int cap = facts().attr.orig_attr.atomic_cap;
  EXPECT_CLAUSE("WR-ORD-010",
                cap == IBV_ATOMIC_NONE || cap == IBV_ATOMIC_HCA || cap == IBV_ATOMIC_GLOB)
      << "atomic_cap " << cap;
  Record::Current().Variation("WR-ORD-010", cap == IBV_ATOMIC_NONE  ? "IBV_ATOMIC_NONE"
                                            : cap == IBV_ATOMIC_HCA ? "IBV_ATOMIC_HCA"
                                                                    : "IBV_ATOMIC_GLOB");
}

QPX_TEST(Ord, FlushCoversEarlierWrites, "WR-ORD-011") {
  PairOptions options;
  options.ops = Bits({Op::kWrite, Op::kFlush});
  options.access = kAllAccess | static_cast<int>(kAccessFlushGlobal);
  Pair& pair = bed().Connect(options);
  Memory& local = bed().Mem(8192);
  Memory& remote = bed().MemAll(8192);
  const int rounds = Repetitions(1000);
  for (int round = 0; round < rounds; ++round) {
    local.Pattern(0, 4096, round);
    Wr flush = Remote(Op::kFlush, 2, local, 0, 0, remote, 0);
    flush.setter = Setter::kNone;
    flush.flush_length = 4096;
    ASSERT_CLAUSE("WR-ORD-011",
                  Post(pair.a, {Remote(Op::kWrite, 1, local, 0, 4096, remote, 0), flush}) == 0);
    ASSERT_CLAUSE("WR-ORD-011", Differs(Await(pair.a.send_cq, 2), {1, 2}).empty());
    ASSERT_CLAUSE("WR-ORD-011", remote.HasPattern(0, 4096, round))
        << "not visible at the FLUSH's completion, round " << round;
  }
}

// The reader must never see the flag without the data. Each round writes to a place of its own:
// what a plain WRITE does to bytes that a CPU reads at the same time is open (S34), so that only
// what is written once can be looked at whenever the flag says so.
QPX_TEST(Ord, AtomicWriteAfterFlush, "WR-ORD-012") {
  PairOptions options;
  options.ops = Bits({Op::kWrite, Op::kFlush, Op::kAtomicWrite});
  options.access = kAllAccess | static_cast<int>(kAccessFlushGlobal);
  Pair& pair = bed().Connect(options);
  const auto rounds = static_cast<uint64_t>(Repetitions(10000));
  Memory& local = bed().Mem(256);
  // The flag, and behind it the data: that of round n is n, at n * 8.
  Memory& remote = bed().MemAll((rounds + 1) * 8);
  remote.Fill(0);
  auto at = [&](uint64_t n) { return reinterpret_cast<std::atomic<uint64_t>*>(remote.data()) + n; };
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> broken{0};
  std::thread reader([&] {
    while (!stop) {
      const uint64_t seen = at(0)->load(std::memory_order_acquire);
      if (seen > rounds || (seen != 0 && at(seen)->load(std::memory_order_relaxed) != seen)) {
        broken = seen;
      }
    }
  });
  std::string problem;
  for (uint64_t round = 1; round <= rounds && problem.empty(); ++round) {
    local.SetU64(0, round);
    Wr flush = Remote(Op::kFlush, 2, local, 0, 0, remote, round * 8);
    flush.setter = Setter::kNone;
    flush.flush_length = 8;
    Wr flag = Remote(Op::kAtomicWrite, 3, local, 0, 8, remote, 0);
    flag.setter = Setter::kNone;
    flag.value = round;
    if (Post(pair.a, {Remote(Op::kWrite, 1, local, 0, 8, remote, round * 8), flush, flag}) != 0) {
      problem = "refused";
      break;
    }
    problem = Differs(Await(pair.a.send_cq, 3), {1, 2, 3});
  }
  // The commit itself: the flag does appear.
  const bool committed = !problem.empty() || clock().Until(clock().Limit(500ms), [&] {
    return at(0)->load(std::memory_order_acquire) == rounds;
  });
  stop = true;
  reader.join();
  EXPECT_CLAUSE("WR-ORD-012", problem.empty()) << problem;
  EXPECT_CLAUSE("WR-ORD-012", committed) << "the ATOMIC_WRITE's completion came, its value did not";
  EXPECT_CLAUSE("WR-ORD-012", broken == 0)
      << "a reader saw the flag of round " << broken << " without its data";
}

QPX_TEST(Ord, DataInOrderIsRecorded, "WR-ORD-013") {
  Pair& pair = RcPair({Op::kWrite, Op::kRead});
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    const int whole = ibv_query_qp_data_in_order(pair.a.qp, opcode, 0);
    EXPECT_CLAUSE("WR-ORD-013", whole >= 0) << "ibv_query_qp_data_in_order returns " << whole;
    Record::Current().Variation("WR-ORD-013",
                                std::string(opcode == IBV_WR_RDMA_WRITE ? "WRITE" : "READ") +
                                    (whole ? ": in order" : ": any order"));
  }
}

QPX_TEST(Ord, UnorderedServiceDeliversEachOnce, "WR-ORD-014") {
  // SRD is made by a vendor's own call; plain creation with the driver type is refused elsewhere.
  ibv_cq* cq = bed().Cq(256);
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_DRIVER;
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {16, 16, 1, 1, 0};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = bed().pd();
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  if (bed().TryQp(&attr) == nullptr) throw NotApplicable{"no unordered service (SRD) here"};
  Record::Current().Variation("WR-ORD-014", "a driver QP type is granted");
}

}  // namespace
}  // namespace qpexam::conformance
