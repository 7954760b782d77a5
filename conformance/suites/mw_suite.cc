// MW: memory windows of type 2, bound and invalidated by work requests.

#include <sys/mman.h>

#include <string>
#include <vector>

#include "conformance/fixture/bed.h"
#include "conformance/fixture/isolate.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

constexpr unsigned kReadWrite = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

class Mw : public Conformance {
 public:
  // `a` owns the windows and binds them on its queue; `b` is the peer that uses them.
  Pair& WindowPair(ibv_pd* pd = nullptr, Transport transport = Transport::kRc) {
    PairOptions options;
    options.transport = transport;
    options.ops = Bits({Op::kBindMw, Op::kSend});
    if (transport != Transport::kUc) options.ops |= Info(Op::kLocalInv).bit;
    options.peer_ops = Bits({Op::kWrite, Op::kSend});
    if (transport == Transport::kRc) {
      options.peer_ops |= Bits({Op::kRead, Op::kFetchAdd, Op::kSendInv});
    }
    options.pd = pd;
    return bed().Connect(options);
  }
  static Wr Bind(ibv_mw* mw, uint32_t rkey, ibv_mr* mr, uint64_t address, uint64_t length,
                 unsigned access) {
    Wr wr;
    wr.op = Op::kBindMw;
    wr.setter = Setter::kNone;
    wr.id = 0xb;
    wr.mw = mw;
    wr.bind_rkey = rkey;
    wr.bind.mr = mr;
    wr.bind.addr = address;
    wr.bind.length = length;
    wr.bind.mw_access_flags = access;
    return wr;
  }
  static Wr Invalidate(uint32_t rkey) {
    Wr wr;
    wr.op = Op::kLocalInv;
    wr.setter = Setter::kNone;
    wr.id = 0x1;
    wr.rkey = rkey;
    return wr;
  }
  // Posts one request and returns its completion; refused: wr_id ~0 and status GENERAL_ERR.
  static ibv_wc Do(End& end, const Wr& wr, const char* clause) {
    ibv_wc wc{};
    if (Post(end, wr) != 0) {
      wc.wr_id = ~uint64_t{0};
      wc.status = IBV_WC_GENERAL_ERR;
      Record::Current().Variation(clause, "refused at complete");
      return wc;
    }
    const std::vector<ibv_wc> wcs = Await(end.send_cq, 1, 60s);
    ASSERT_CLAUSE(clause, wcs.size() == 1) << "no completion of " << Info(wr.op).name;
    return wcs[0];
  }
  static bool Refused(const ibv_wc& wc) { return wc.wr_id == ~uint64_t{0}; }

  // The peer's access to [address, address + length) by `rkey`: its status.
  ibv_wc_status Access(Pair& pair, Op op, uint32_t rkey, uint64_t address, uint32_t length,
                       const char* clause) {
    Memory& local = bed().Mem(256);
    local.Fill(0x77);
    Wr wr;
    wr.op = op;
    wr.id = 0xa;
    wr.sge = {local.sge(0, length)};
    wr.rkey = rkey;
    wr.remote = address;
    wr.compare_add = 1;
    return Do(pair.b, wr, clause).status;
  }
  // A window over the whole of `memory`, bound; throws SetUpFailed.
  ibv_mw* Bound(Pair& pair, Memory& memory, uint32_t* rkey, unsigned access = kReadWrite) {
    ibv_mw* mw = bed().Window();
    *rkey = ibv_inc_rkey(mw->rkey);
    const ibv_wc wc = Do(
        pair.a, Bind(mw, *rkey, memory.mr(), memory.address(), memory.size(), access), "WR-MW-001");
    if (wc.status != IBV_WC_SUCCESS) {
      throw SetUpFailed{std::string("a plain bind: ") + ibv_wc_status_str(wc.status)};
    }
    return mw;
  }
};

QPX_TEST(Mw, AType2WindowIsBound, "WR-MW-001", "WR-BUILD-010") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  ibv_mw* mw = bed().Window();
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const ibv_wc wc =
      Do(pair.a, Bind(mw, rkey, memory.mr(), memory.address(), 256, kReadWrite), "WR-MW-001");
  EXPECT_CLAUSE("WR-MW-001", wc.status == IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
  EXPECT_CLAUSE("WR-MW-001",
                Access(pair, Op::kWrite, rkey, memory.address(), 8, "WR-MW-001") == IBV_WC_SUCCESS);
}

QPX_TEST(Mw, AType1WindowIsReported, "WR-MW-001") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  ibv_mw* mw = bed().Window(IBV_MW_TYPE_1);
  ReferenceOnly();
  const int rc =
      Post(pair.a, Bind(mw, ibv_inc_rkey(mw->rkey), memory.mr(), memory.address(), 64, kReadWrite));
  EXPECT_CLAUSE("WR-MW-001", rc != 0) << "a type 1 window is bound";
  EXPECT_CLAUSE("WR-MW-001", Linted("WR-MW-001"));
}

QPX_TEST(Mw, OnlyTheLowByteIsTheCallers, "WR-MW-002") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  memory.Fill(0xee);
  ibv_mw* mw = bed().Window();
  const uint32_t asked = ibv_inc_rkey(mw->rkey) ^ 0x100;
  const uint32_t masked = (mw->rkey & ~0xffu) | (asked & 0xff);
  const ibv_wc wc =
      Do(pair.a, Bind(mw, asked, memory.mr(), memory.address(), 256, kReadWrite), "WR-MW-002");
  if (wc.status == IBV_WC_SUCCESS) {
    Record::Current().Variation("WR-MW-002", "bound under the masked key");
    EXPECT_CLAUSE("WR-MW-002", Access(pair, Op::kWrite, masked, memory.address(), 8, "WR-MW-002") ==
                                   IBV_WC_SUCCESS)
        << "the masked key does not work";
  } else {
    Record::Current().Variation("WR-MW-002", "refused");
  }
  // Through the QP of the window where that still works.
  Pair& second = wc.status == IBV_WC_SUCCESS ? pair : WindowPair();
  EXPECT_CLAUSE("WR-MW-002", Access(second, Op::kWrite, asked, memory.address(128), 8,
                                    "WR-MW-002") != IBV_WC_SUCCESS)
      << "a key with foreign index bits gives access";
  // The low byte is the caller's: with another one the key is another.
  Pair& third = WindowPair();
  ibv_mw* plain = bed().Window();
  const uint32_t key = ibv_inc_rkey(plain->rkey);
  const ibv_wc bound =
      Do(third.a, Bind(plain, key, memory.mr(), memory.address(), 256, kReadWrite), "WR-MW-002");
  ASSERT_CLAUSE("WR-MW-002", bound.status == IBV_WC_SUCCESS) << ibv_wc_status_str(bound.status);
  EXPECT_CLAUSE("WR-MW-002", Access(third, Op::kWrite, ibv_inc_rkey(key), memory.address(128), 8,
                                    "WR-MW-002") != IBV_WC_SUCCESS)
      << "a key with another low byte than the one asked for gives access";
  EXPECT_CLAUSE("WR-MW-002", memory.Is(128, 128, 0xee));
}

QPX_TEST(Mw, WindowsKeyMemberIsOldOrNew, "WR-MW-003") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  ibv_mw* mw = bed().Window();
  const uint32_t old_key = mw->rkey, first = ibv_inc_rkey(old_key);
  ibv_wc wc =
      Do(pair.a, Bind(mw, first, memory.mr(), memory.address(), 256, kReadWrite), "WR-MW-003");
  ASSERT_CLAUSE("WR-MW-003", wc.status == IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
  EXPECT_CLAUSE("WR-MW-003", mw->rkey == old_key || mw->rkey == first)
      << std::hex << mw->rkey << " is neither " << old_key << " nor " << first;
  Record::Current().Variation("WR-MW-003",
                              mw->rkey == first ? "mw->rkey is new" : "mw->rkey is old");
  mw->rkey = first;  // the caller keeps track
  wc = Do(pair.a, Invalidate(first), "WR-MW-003");
  EXPECT_CLAUSE("WR-MW-003", wc.status == IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
  const uint32_t second = ibv_inc_rkey(first);
  wc = Do(pair.a, Bind(mw, second, memory.mr(), memory.address(), 256, kReadWrite), "WR-MW-003");
  EXPECT_CLAUSE("WR-MW-003", wc.status == IBV_WC_SUCCESS)
      << "the second bind: " << ibv_wc_status_str(wc.status);
}

// The window lies in the middle of its region.
QPX_TEST(Mw, RightsAreThoseOfTheWindow, "WR-MW-004") {
  struct Case {
    const char* name;
    unsigned access;
    Op op;
    long offset;  // from the window's start
    bool allowed;
  };
  constexpr long kLength = 128;
  const std::vector<Case> cases = {
      {"WRITE at the start", kReadWrite, Op::kWrite, 0, true},
      {"WRITE at the end", kReadWrite, Op::kWrite, kLength - 8, true},
      {"READ at the start", kReadWrite, Op::kRead, 0, true},
      {"READ at the end", kReadWrite, Op::kRead, kLength - 8, true},
      {"WRITE one byte before", kReadWrite, Op::kWrite, -1, false},
      {"WRITE one byte after", kReadWrite, Op::kWrite, kLength - 7, false},
      {"READ one byte before", kReadWrite, Op::kRead, -1, false},
      {"READ one byte after", kReadWrite, Op::kRead, kLength - 7, false},
      {"WRITE without the right", IBV_ACCESS_REMOTE_READ, Op::kWrite, 0, false},
      {"READ without the right", IBV_ACCESS_REMOTE_WRITE, Op::kRead, 0, false},
  };
  for (const Case& c : cases) {
    Pair& pair = WindowPair();
    Memory& memory = bed().MemAll(512);
    memory.Fill(0xee);
    ibv_mw* mw = bed().Window();
    const uint32_t rkey = ibv_inc_rkey(mw->rkey);
    ASSERT_CLAUSE(
        "WR-MW-004",
        Do(pair.a, Bind(mw, rkey, memory.mr(), memory.address(192), kLength, c.access), "WR-MW-004")
                .status == IBV_WC_SUCCESS);
    const ibv_wc_status status = Access(
        pair, c.op, rkey, memory.address(192) + static_cast<uint64_t>(c.offset), 8, "WR-MW-004");
    EXPECT_CLAUSE("WR-MW-004", (status == IBV_WC_SUCCESS) == c.allowed)
        << c.name << ": " << ibv_wc_status_str(status);
    if (!c.allowed) {
      EXPECT_SHOULD("WR-MW-004", status == IBV_WC_REM_ACCESS_ERR)
          << c.name << ": " << ibv_wc_status_str(status);
      EXPECT_CLAUSE("WR-MW-004", memory.Is(0, 512, 0xee)) << c.name << " changed memory";
    }
  }
}

// Bound, invalidated, bound again with less: nothing of the first binding is left.
QPX_TEST(Mw, ABindingHasNothingOfTheOneBefore, "WR-MW-004") {
  struct Case {
    Op op;
    uint32_t offset;
    bool allowed;
    const char* name;
  };
  for (const Case& c : {Case{Op::kRead, 192, true, "READ inside"},
                        Case{Op::kWrite, 192, false, "WRITE, a right of the first binding"},
                        Case{Op::kRead, 64, false, "READ in the first binding's range"}}) {
    Pair& pair = WindowPair();
    Memory& memory = bed().MemAll(512);
    memory.Fill(0xee);
    uint32_t rkey;
    ibv_mw* mw = Bound(pair, memory, &rkey);
    if (Do(pair.a, Invalidate(rkey), "WR-MW-009").status != IBV_WC_SUCCESS) {
      throw SetUpFailed{"a plain LOCAL_INV"};
    }
    mw->rkey = rkey;  // the caller tracks the key (WR-MW-003)
    const uint32_t again = ibv_inc_rkey(rkey);
    const ibv_wc wc =
        Do(pair.a, Bind(mw, again, memory.mr(), memory.address(192), 64, IBV_ACCESS_REMOTE_READ),
           "WR-MW-004");
    ASSERT_CLAUSE("WR-MW-004", wc.status == IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
    const ibv_wc_status status =
        Access(pair, c.op, again, memory.address(c.offset), 8, "WR-MW-004");
    EXPECT_CLAUSE("WR-MW-004", (status == IBV_WC_SUCCESS) == c.allowed)
        << c.name << ": " << ibv_wc_status_str(status);
    EXPECT_CLAUSE("WR-MW-004", memory.Is(0, 512, 0xee)) << c.name << " changed memory";
  }
}

QPX_TEST(Mw, AtomicsThroughAWindow, "WR-MW-004") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  memory.SetU64(64, 5);
  uint32_t rkey = 0;
  Bound(pair, memory, &rkey, kReadWrite | IBV_ACCESS_REMOTE_ATOMIC);
  const ibv_wc_status status =
      Access(pair, Op::kFetchAdd, rkey, memory.address(64), 8, "WR-MW-004");
  const uint64_t now = memory.U64(64);
  if (status == IBV_WC_SUCCESS) {
    EXPECT_CLAUSE("WR-MW-004", now == 6) << "SUCCESS without effect: " << now;
    Record::Current().Variation("WR-MW-004", "atomics work through a window");
  } else {
    EXPECT_CLAUSE("WR-MW-004", now == 5) << "an error with effect: " << now;
    Record::Current().Variation("WR-MW-004", "atomics fail through a window");
  }
}

QPX_TEST(Mw, RightsOnUc, "WR-MW-004") {
  Pair& pair = WindowPair(nullptr, Transport::kUc);
  Memory& memory = bed().MemAll(256);
  memory.Fill(0xee);
  ibv_mw* mw = bed().Window();
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  ASSERT_CLAUSE(
      "WR-MW-004",
      Do(pair.a, Bind(mw, rkey, memory.mr(), memory.address(64), 64, IBV_ACCESS_REMOTE_WRITE),
         "WR-MW-004")
              .status == IBV_WC_SUCCESS);
  EXPECT_CLAUSE("WR-MW-004", Access(pair, Op::kWrite, rkey, memory.address(64), 8, "WR-MW-004") ==
                                 IBV_WC_SUCCESS);
  clock().Until(clock().Limit(5s), [&] { return memory.Is(64, 8, 0x77); });
  EXPECT_CLAUSE("WR-MW-004",
                Access(pair, Op::kWrite, rkey, memory.address(8), 8, "WR-MW-004") == IBV_WC_SUCCESS)
      << "UC tells the requester nothing";
  clock().Pass(clock().QuietWindow());
  EXPECT_CLAUSE("WR-MW-004", memory.Is(0, 64, 0xee) && memory.Is(128, 128, 0xee))
      << "memory outside the window changed";
}

QPX_TEST_P(Mw, WhatABindNeeds, (std::vector<int>{0, 1, 2, 3, 4}), "WR-MW-005") {
  Pair& pair = WindowPair();
  ibv_pd* other = param >= 3 ? bed().NewPd() : nullptr;
  int access = kAllAccess | IBV_ACCESS_MW_BIND;
  unsigned window = IBV_ACCESS_REMOTE_READ;
  if (param == 0) access &= ~IBV_ACCESS_MW_BIND;
  if (param == 1 || param == 2) {
    access = IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ;
    window = param == 1 ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC;
  }
  const char* names[] = {"no MW_BIND", "a write window without LOCAL_WRITE",
                         "an atomic window without LOCAL_WRITE", "an MR of another PD",
                         "an MW of another PD"};
  Memory& memory = bed().Mem(256, access, param == 3 ? other : nullptr);
  memory.Fill(0xee);
  ibv_mw* mw = bed().Window(IBV_MW_TYPE_2, param == 4 ? other : nullptr);
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const ibv_wc wc =
      Do(pair.a, Bind(mw, rkey, memory.mr(), memory.address(), 256, window), "WR-MW-005");
  EXPECT_CLAUSE("WR-MW-005", wc.status != IBV_WC_SUCCESS) << names[param] << " is bound";
  if (!Refused(wc) && wc.status != IBV_WC_SUCCESS) {
    EXPECT_CLAUSE("WR-MW-005", ReachesState(pair.a.qp, {IBV_QPS_ERR})) << names[param];
  }
  Pair& second = WindowPair();
  const Op op = param == 1 ? Op::kWrite : param == 2 ? Op::kFetchAdd : Op::kRead;
  EXPECT_CLAUSE("WR-MW-005",
                Access(second, op, rkey, memory.address(), 8, "WR-MW-005") != IBV_WC_SUCCESS)
      << names[param] << ": the window gives access";
  EXPECT_CLAUSE("WR-MW-005", memory.Is(0, 256, 0xee)) << names[param];
}

QPX_TEST(Mw, LengthZero, "WR-MW-006") {
  Memory& memory = bed().MemAll(256);
  {
    Pair& pair = WindowPair();
    ibv_mw* mw = bed().Window();
    const ibv_wc wc =
        Do(pair.a, Bind(mw, ibv_inc_rkey(mw->rkey), memory.mr(), memory.address(), 0, kReadWrite),
           "WR-MW-006");
    EXPECT_CLAUSE("WR-MW-006", wc.status != IBV_WC_SUCCESS) << "a free window with length 0";
  }
  Pair& pair = WindowPair();
  uint32_t rkey = 0;
  ibv_mw* mw = Bound(pair, memory, &rkey);
  const ibv_wc wc =
      Do(pair.a, Bind(mw, ibv_inc_rkey(rkey), memory.mr(), memory.address(), 0, kReadWrite),
         "WR-MW-006");
  EXPECT_SHOULD("WR-MW-006", wc.status != IBV_WC_SUCCESS) << "a bound window with length 0";
  if (wc.status == IBV_WC_SUCCESS) {
    EXPECT_CLAUSE("WR-MW-006", Access(pair, Op::kWrite, rkey, memory.address(), 8, "WR-MW-006") !=
                                   IBV_WC_SUCCESS)
        << "the old key still works";
  }
}

QPX_TEST(Mw, ABoundWindowIsNotBoundAgain, "WR-MW-007") {
  Memory& memory = bed().MemAll(256);
  {
    Pair& pair = WindowPair();
    uint32_t rkey = 0;
    ibv_mw* mw = Bound(pair, memory, &rkey);
    mw->rkey = rkey;
    const ibv_wc wc =
        Do(pair.a, Bind(mw, ibv_inc_rkey(rkey), memory.mr(), memory.address(), 64, kReadWrite),
           "WR-MW-007");
    EXPECT_CLAUSE("WR-MW-007", wc.status != IBV_WC_SUCCESS) << "bound twice on one QP";
    if (!Refused(wc)) {
      EXPECT_CLAUSE("WR-MW-007", ReachesState(pair.a.qp, {IBV_QPS_ERR}));
    }
  }
  Pair& first = WindowPair();
  Pair& second = WindowPair();
  uint32_t rkey = 0;
  ibv_mw* mw = Bound(first, memory, &rkey);
  mw->rkey = rkey;
  const ibv_wc wc =
      Do(second.a, Bind(mw, ibv_inc_rkey(rkey), memory.mr(), memory.address(), 64, kReadWrite),
         "WR-MW-007");
  EXPECT_CLAUSE("WR-MW-007", wc.status != IBV_WC_SUCCESS) << "bound again from another QP";
  EXPECT_CLAUSE("WR-MW-007",
                Access(first, Op::kRead, rkey, memory.address(), 8, "WR-MW-007") == IBV_WC_SUCCESS)
      << "the first binding was lost";
}

QPX_TEST(Mw, OnlyThroughItsQp, "WR-MW-008") {
  if ((facts().attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) == 0) {
    throw NotApplicable{"the device's windows are not type 2B"};
  }
  Pair& pair = WindowPair();
  Pair& stranger = WindowPair();
  Memory& memory = bed().MemAll(256);
  memory.Fill(0xee);
  uint32_t rkey = 0;
  Bound(pair, memory, &rkey);
  const ibv_wc_status status = Access(stranger, Op::kWrite, rkey, memory.address(), 8, "WR-MW-008");
  EXPECT_CLAUSE("WR-MW-008", status != IBV_WC_SUCCESS) << "used through another QP";
  EXPECT_SHOULD("WR-MW-008", status == IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(status);
  EXPECT_CLAUSE("WR-MW-008", memory.Is(0, 256, 0xee)) << "memory changed";
}

QPX_TEST(Mw, LocalInvalidateFreesTheWindow, "WR-MW-009") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  memory.Fill(0xee);
  uint32_t first = 0;
  ibv_mw* mw = Bound(pair, memory, &first);
  ibv_wc wc = Do(pair.a, Invalidate(first), "WR-MW-009");
  EXPECT_CLAUSE("WR-MW-009", wc.status == IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
  mw->rkey = first;
  const uint32_t second = ibv_inc_rkey(first);
  wc = Do(pair.a, Bind(mw, second, memory.mr(), memory.address(), 256, kReadWrite), "WR-MW-009");
  EXPECT_CLAUSE("WR-MW-009", wc.status == IBV_WC_SUCCESS)
      << "bound again: " << ibv_wc_status_str(wc.status);
  EXPECT_CLAUSE("WR-MW-009", Access(pair, Op::kWrite, second, memory.address(), 8, "WR-MW-009") ==
                                 IBV_WC_SUCCESS);
  const ibv_wc_status status = Access(pair, Op::kWrite, first, memory.address(128), 8, "WR-MW-009");
  EXPECT_CLAUSE("WR-MW-009", status != IBV_WC_SUCCESS) << "the invalidated key works";
  EXPECT_SHOULD("WR-MW-009", status == IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(status);
  EXPECT_CLAUSE("WR-MW-009", memory.Is(128, 128, 0xee));
}

QPX_TEST(Mw, LocalInvalidateFromAnotherQp, "WR-MW-010") {
  Pair& pair = WindowPair();
  Pair& stranger = WindowPair();
  Memory& memory = bed().MemAll(256);
  uint32_t rkey = 0;
  Bound(pair, memory, &rkey);
  const ibv_wc wc = Do(stranger.a, Invalidate(rkey), "WR-MW-010");
  EXPECT_CLAUSE("WR-MW-010", wc.status != IBV_WC_SUCCESS)
      << "a window is invalidated from a QP that it is not bound on";
  const ibv_wc_status status = Access(pair, Op::kWrite, rkey, memory.address(), 8, "WR-MW-010");
  EXPECT_CLAUSE("WR-MW-010", (status == IBV_WC_SUCCESS) == (wc.status != IBV_WC_SUCCESS))
      << "LOCAL_INV ended with " << ibv_wc_status_str(wc.status) << ", an access with "
      << ibv_wc_status_str(status);
}

QPX_TEST_P(Mw, LocalInvalidateOfAWrongKey, (std::vector<int>{0, 1, 2}), "WR-MW-011") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  uint32_t bound = 0;
  Bound(pair, memory, &bound);
  const uint32_t keys[] = {bound ^ 0x550000, bound ^ 0x3, memory.rkey()};
  const char* names[] = {"a key never allocated", "a stale tag", "a plain region's key"};
  const ibv_wc wc = Do(pair.a, Invalidate(keys[param]), "WR-MW-011");
  EXPECT_CLAUSE("WR-MW-011", wc.status != IBV_WC_SUCCESS) << names[param];
  if (!Refused(wc)) {
    EXPECT_CLAUSE("WR-MW-011", ReachesState(pair.a.qp, {IBV_QPS_ERR})) << names[param];
  }
  Pair& second = WindowPair();
  EXPECT_CLAUSE("WR-MW-011", Access(second, Op::kWrite, memory.rkey(), memory.address(), 8,
                                    "WR-MW-011") == IBV_WC_SUCCESS)
      << "the plain region does not work any more";
}

QPX_TEST(Mw, LocalInvalidateOfAFreeWindow, "WR-MW-012") {
  Pair& pair = WindowPair();
  ibv_mw* mw = bed().Window();
  const ibv_wc wc = Do(pair.a, Invalidate(mw->rkey), "WR-MW-012");
  Record::Current().Variation("WR-MW-012", wc.status == IBV_WC_SUCCESS ? "SUCCESS" : "error");
  Pair& fresh = WindowPair();
  Memory& memory = bed().MemAll(256);
  EXPECT_CLAUSE("WR-MW-012", Access(fresh, Op::kWrite, memory.rkey(), memory.address(), 8,
                                    "WR-MW-012") == IBV_WC_SUCCESS)
      << "the device is not usable afterwards";
}

QPX_TEST_P(Mw, SendWithInvalidateOfAWrongKey, (std::vector<int>{0, 1, 2, 3}), "WR-MW-013") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  uint32_t key = 0;
  ibv_mw* mw = nullptr;
  switch (param) {
    case 0:
      mw = Bound(pair, memory, &key);
      key ^= 0x550000;
      break;
    case 1:
      mw = Bound(pair, memory, &key);
      key ^= 0x3;
      break;
    case 2: {
      mw = bed().Window(IBV_MW_TYPE_1);
      ibv_mw_bind bind{};
      bind.wr_id = 1;
      bind.send_flags = IBV_SEND_SIGNALED;
      bind.bind_info = {memory.mr(), memory.address(), 256, kReadWrite};
      if (ibv_bind_mw(pair.a.qp, mw, &bind) != 0) {
        throw NotApplicable{"type 1 windows cannot be bound"};
      }
      if (Await(pair.a.send_cq, 1).size() != 1) throw SetUpFailed{"ibv_bind_mw"};
      key = mw->rkey;
      break;
    }
    default: {
      Pair& other = WindowPair();
      mw = Bound(other, memory, &key);
      break;
    }
  }
  const char* names[] = {"a key never allocated", "a stale tag", "a type 1 window",
                         "a window bound on another QP"};
  Memory& from = bed().Mem(64);
  ASSERT_CLAUSE("WR-MW-013", PostRecv(pair.a, 9, {memory.sge(128, 64)}) == 0);
  Wr wr;
  wr.op = Op::kSendInv;
  wr.id = 5;
  wr.sge = {from.sge(0, 16)};
  wr.rkey = key;
  ASSERT_CLAUSE("WR-MW-013", Post(pair.b, wr) == 0);
  const std::vector<ibv_wc> got = Await(pair.a.recv_cq, 1, 30s);
  ASSERT_CLAUSE("WR-MW-013", got.size() == 1) << names[param] << ": no receive completion";
  if (param == 3) {
    EXPECT_SHOULD("WR-MW-013", got[0].status != IBV_WC_SUCCESS) << names[param];
    if (got[0].status == IBV_WC_SUCCESS) return;
  } else {
    EXPECT_CLAUSE("WR-MW-013", got[0].status != IBV_WC_SUCCESS) << names[param];
  }
  EXPECT_CLAUSE("WR-MW-013", ReachesState(pair.a.qp, {IBV_QPS_ERR})) << names[param];
  const std::vector<ibv_wc> sent = Await(pair.b.send_cq, 1, 60s);
  if (sent.empty() || sent[0].status == IBV_WC_SUCCESS || sent[0].status == IBV_WC_RETRY_EXC_ERR) {
    return;
  }
  EXPECT_SHOULD("WR-MW-013", false)
      << names[param] << ": the requester ends with " << ibv_wc_status_str(sent[0].status);
}

QPX_TEST(Mw, DeregisteringUnderAWindow, "WR-MW-014") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(256);
  uint32_t rkey = 0;
  ibv_mw* mw = Bound(pair, memory, &rkey);
  const int rc = ibv_dereg_mr(memory.mr());
  EXPECT_CLAUSE("WR-MW-014", rc != 0) << "ibv_dereg_mr succeeds while a window is bound";
  if (rc == 0) memory.Forget();
  const ibv_wc_status status = Access(pair, Op::kRead, rkey, memory.address(), 8, "WR-MW-014");
  if (rc != 0) {
    EXPECT_CLAUSE("WR-MW-014", status == IBV_WC_SUCCESS) << "refused, yet the window is dead";
  } else if (status == IBV_WC_SUCCESS) {
    // That access ends with the region is the MUST of this clause.
    Record::Current().Breach("WR-MW-014", Strength::kMust, __FILE__, __LINE__,
                             "the window gives access to deregistered memory");
  }
  EXPECT_CLAUSE("WR-MW-014", bed().Destroy(mw) == 0) << "ibv_dealloc_mw of a bound window";
}

QPX_TEST(Mw, ZeroBasedWindow, "WR-MW-015") {
  Pair& pair = WindowPair();
  Memory& memory = bed().MemAll(512);
  memory.Fill(0xee);
  ibv_mw* mw = bed().Window();
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const ibv_wc wc =
      Do(pair.a,
         Bind(mw, rkey, memory.mr(), memory.address(128), 64, kReadWrite | IBV_ACCESS_ZERO_BASED),
         "WR-MW-015");
  EXPECT_CLAUSE("WR-MW-015", wc.status == IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
  if (wc.status != IBV_WC_SUCCESS) return;
  const auto must = [](bool holds, const char* what) {
    if (!holds) {
      Record::Current().Breach("WR-MW-015", Strength::kMust, __FILE__, __LINE__, what);
    }
  };
  must(Access(pair, Op::kWrite, rkey, 0, 1, "WR-MW-015") == IBV_WC_SUCCESS, "offset 0 is refused");
  must(Access(pair, Op::kWrite, rkey, 63, 1, "WR-MW-015") == IBV_WC_SUCCESS,
       "the last offset is refused");
  clock().Until(clock().Limit(5s), [&] { return memory.Is(191, 1, 0x77); });
  must(memory.Is(128, 1, 0x77) && memory.Is(191, 1, 0x77) && memory.Is(129, 62, 0xee),
       "offsets do not count from the window's start");
  must(Access(pair, Op::kWrite, rkey, 64, 1, "WR-MW-015") != IBV_WC_SUCCESS,
       "the offset after the end works");
  must(memory.Is(192, 64, 0xee), "memory after the window changed");
}

QPX_TEST(Mw, BindWithoutARegion, "WR-MW-016") {
  const ChildResult child = RunInChild(30, [](Bed& bed) -> std::string {
    PairOptions options;
    options.ops = Bits({Op::kBindMw});
    options.peer_ops = Bits({Op::kSend});
    Pair& pair = bed.Connect(options);
    ibv_mw* mw = bed.Window();
    if (Post(pair.a, Mw::Bind(mw, ibv_inc_rkey(mw->rkey), nullptr, 0, 64, kReadWrite)) != 0) {
      return "refused at complete";
    }
    const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 1);
    if (wcs.size() != 1) return "no completion";
    return wcs[0].status == IBV_WC_SUCCESS ? "SUCCESS" : "error completion";
  });
  EXPECT_CLAUSE("WR-MW-016", child.end == ChildResult::End::kReturned) << child.text;
  EXPECT_CLAUSE("WR-MW-016", child.text != "SUCCESS" && child.text != "no completion")
      << child.text;
  if (child.end == ChildResult::End::kReturned) {
    Record::Current().Variation("WR-MW-016", child.text);
  }
}

QPX_TEST_P(Mw, AWindowBeyondItsRegion, (std::vector<int>{0, 1}), "WR-MW-017") {
  // The region is the middle of one larger buffer, which is registered as a whole for looking.
  Memory& buffer = bed().Mem(3 * 4096);
  buffer.Fill(0xee);
  ibv_mr* mr = ibv_reg_mr(bed().pd(), buffer.data() + 4096, 4096, kAllAccess | IBV_ACCESS_MW_BIND);
  if (mr == nullptr) throw NotApplicable{"a region for windows is refused"};
  bed().Own(mr, [mr] { return ibv_dereg_mr(mr); });
  Pair& pair = WindowPair();
  ibv_mw* mw = bed().Window();
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const uint64_t start = buffer.address(4096) - (param == 0 ? 1 : 0);
  const ibv_wc wc = Do(pair.a, Bind(mw, rkey, mr, start, 4097, kReadWrite), "WR-MW-017");
  EXPECT_SHOULD("WR-MW-017", wc.status != IBV_WC_SUCCESS) << "the bind succeeds";
  const uint64_t outside = param == 0 ? buffer.address(4095) : buffer.address(8192);
  for (const Op op : {Op::kWrite, Op::kRead}) {
    // A fresh peer where the failed bind has ended the pair.
    Pair& user = QueryState(pair.b.qp) == IBV_QPS_RTS && QueryState(pair.a.qp) == IBV_QPS_RTS
                     ? pair
                     : WindowPair();
    EXPECT_CLAUSE("WR-MW-017", Access(user, op, rkey, outside, 1, "WR-MW-017") != IBV_WC_SUCCESS)
        << Info(op).name << " of the byte outside the region succeeds";
  }
  EXPECT_CLAUSE("WR-MW-017", buffer.Is(0, 3 * 4096, 0xee)) << "memory outside changed";
}

QPX_TEST(Mw, DestroyingTheQpEndsItsWindows, "WR-MW-018") {
  // Both pairs first: no QP is created later, whose recycled number would revive the binding.
  Pair& doomed = WindowPair();
  Pair& other = WindowPair();
  Memory& memory = bed().MemAll(256);
  uint32_t rkey = 0;
  ibv_mw* mw = Bound(doomed, memory, &rkey);
  ASSERT_CLAUSE("WR-MW-018", bed().Destroy(doomed.a.qp) == 0) << "with a bound window";
  EXPECT_CLAUSE("WR-MW-018",
                Access(other, Op::kRead, rkey, memory.address(), 8, "WR-MW-018") != IBV_WC_SUCCESS)
      << "the window of a destroyed QP gives access";
  EXPECT_CLAUSE("WR-MW-018", bed().Destroy(mw) == 0) << "ibv_dealloc_mw";
}

QPX_TEST(Mw, WindowsOnXrc, "WR-MW-019") {
  PairOptions options;
  options.transport = Transport::kXrc;
  options.ops = Bits({Op::kBindMw, Op::kLocalInv});
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().MemAll(256);
  ibv_mw* mw = bed().Window();
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const ibv_wc bound =
      Do(pair.a, Bind(mw, rkey, memory.mr(), memory.address(), 256, kReadWrite), "WR-MW-019");
  Record::Current().Variation("WR-MW-019", std::string("bind: ") + ibv_wc_status_str(bound.status));
  if (bound.status != IBV_WC_SUCCESS) return;
  const ibv_wc gone = Do(pair.a, Invalidate(rkey), "WR-MW-019");
  Record::Current().Variation("WR-MW-019",
                              std::string("invalidate: ") + ibv_wc_status_str(gone.status));
}

QPX_TEST(Mw, AVeryLongBind, "WR-MW-020") {
  const std::size_t length = (std::size_t{1} << 31) + 1;
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw NotApplicable{"no 2 GiB of address space"};
  ibv_mr* mr = nullptr;
  // Only where registering does not pin 2 GiB: on demand, or a provider that pins nothing.
  if (TheHooks().virtual_time) {
    mr = ibv_reg_mr(bed().pd(), memory, length, kAllAccess | IBV_ACCESS_MW_BIND);
  } else {
    mr = ibv_reg_mr(bed().pd(), memory, length,
                    kAllAccess | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND);
  }
  bed().Own(memory, [memory] { return munmap(memory, length); });
  if (mr == nullptr) throw NotApplicable{"2 GiB cannot be registered without pinning"};
  bed().Own(mr, [mr] { return ibv_dereg_mr(mr); });
  Pair& pair = WindowPair();
  ibv_mw* mw = bed().Window();
  const ibv_wc wc = Do(
      pair.a,
      Bind(mw, ibv_inc_rkey(mw->rkey), mr, reinterpret_cast<uint64_t>(memory), length, kReadWrite),
      "WR-MW-020");
  Record::Current().Variation("WR-MW-020", Refused(wc)                   ? "refused at complete"
                                           : wc.status == IBV_WC_SUCCESS ? "SUCCESS"
                                                                         : "error completion");
}

QPX_TEST(Mw, NoReceiveNoInvalidation, "WR-MW-021") {
  PairOptions options;
  options.ops = Bits({Op::kBindMw, Op::kLocalInv, Op::kSend});
  options.peer_ops = Bits({Op::kSendInv});
  options.rnr_retry = 0;
  Pair& pair = bed().Connect(options);
  Memory& memory = bed().MemAll(256);
  uint32_t rkey = 0;
  Bound(pair, memory, &rkey);
  Memory& from = bed().Mem(64);
  Wr wr;
  wr.op = Op::kSendInv;
  wr.id = 5;
  wr.sge = {from.sge(0, 16)};
  wr.rkey = rkey;
  ASSERT_CLAUSE("WR-MW-021", Post(pair.b, wr) == 0);
  const std::vector<ibv_wc> wcs = Await(pair.b.send_cq, 1, 60s);
  ASSERT_CLAUSE("WR-MW-021", wcs.size() == 1) << "no completion";
  EXPECT_CLAUSE("WR-MW-021", wcs[0].status == IBV_WC_RNR_RETRY_EXC_ERR) << Describe(wcs);
  EXPECT_CLAUSE("WR-MW-021", QueryState(pair.a.qp) == IBV_QPS_RTS) << "the responder moved";
  const ibv_wc wc = Do(pair.a, Invalidate(rkey), "WR-MW-021");
  EXPECT_CLAUSE("WR-MW-021", wc.status == IBV_WC_SUCCESS)
      << "the key was invalidated although the message was not received: "
      << ibv_wc_status_str(wc.status);
}

}  // namespace
}  // namespace qpexam::conformance
