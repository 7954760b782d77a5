// SET: which setters are allowed, required, and in which order.

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "conformance/fixture/bad.h"
#include "conformance/fixture/bed.h"
#include "conformance/fixture/options.h"
#include "conformance/fixture/pair.h"
#include "conformance/fixture/post.h"
#include "conformance/fixture/record.h"
#include "conformance/fixture/traffic.h"

namespace qpexam::conformance {
namespace {

class Set : public Conformance {
 protected:
  static PairOptions With(Transport transport, uint64_t ops) {
    PairOptions options;
    options.transport = transport;
    options.ops = ops;
    options.peer_ops = transport == Transport::kXrc ? ops : Info(Op::kSend).bit;
    options.inline_data = 64;
    options.send_sge = 4;
    return options;
  }
  void Needs(Op op) {
    if (!facts().Has(op)) throw NotApplicable{std::string("the device has no ") + Info(op).name};
  }
};

std::vector<Transport> NotRaw() {
  return {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc};
}

// Cells whose operation carries data.
std::vector<OpOn> DataCells() {
  std::vector<OpOn> cells;
  for (const OpOn& cell : OfferedCells()) {
    if (Info(cell.op).data == DataSetters::kNone || cell.op == Op::kSendInv) continue;
    cells.push_back(cell);
  }
  return cells;
}

QPX_TEST_P(Set, AppliesToTheLastBuiltRequest, NotRaw(), "WR-SET-001") {
  const std::string problem = Persist(param, [&] {
    Pair& pair = bed().Connect(With(param, Bits({Op::kSend})));
    Traffic traffic(bed(), pair);
    std::vector<Flight> flights;
    // Different lengths: a setter that hits the wrong request shows in both.
    for (uint64_t id = 1; id <= 4; ++id) {
      flights.push_back(
          traffic.Make(Op::kSend, id, Shape{Setter::kSge, static_cast<uint32_t>(id * 8), 1}));
    }
    return traffic.Run(flights);
  });
  EXPECT_CLAUSE("WR-SET-001", problem.empty()) << problem;
}

std::vector<OpOn> ZeroLengthCells() {
  std::vector<OpOn> cells;
  for (const OpOn& cell : DataCells()) {
    if (Info(cell.op).data != DataSetters::kEightBytes) cells.push_back(cell);
  }
  return cells;
}

QPX_TEST_P(Set, ZeroLengthMessages, ZeroLengthCells(), "WR-SET-004") {
  auto run = [&](auto change) {
    return Persist(param.transport, [&] {
      Pair& pair = bed().Connect(With(param.transport, Info(param.op).bit));
      Traffic traffic(bed(), pair);
      Flight flight = traffic.Make(param.op, 1, Shape{Setter::kSge, 0, 1});
      change(&flight.wr);
      return traffic.Run(flight);
    });
  };
  const std::string by_sge = run([](Wr*) {});
  EXPECT_CLAUSE("WR-SET-004", by_sge.empty()) << "set_sge(lkey, addr, 0): " << by_sge;
  const std::string by_list = run([](Wr* wr) { wr->setter = Setter::kSgeList; });
  EXPECT_CLAUSE("WR-SET-004", by_list.empty()) << "a list of one empty element: " << by_list;
  const std::string garbage = run([](Wr* wr) { wr->sge[0] = {0x10, 0, ~wr->sge[0].lkey}; });
  EXPECT_SHOULD("WR-SET-004", garbage.empty()) << "length 0, unknown lkey: " << garbage;
  const std::string empty_list = run([](Wr* wr) {
    wr->setter = Setter::kSgeList;
    wr->sge.clear();
  });
  EXPECT_SHOULD("WR-SET-004", empty_list.empty()) << "num_sge 0: " << empty_list;
}

QPX_TEST_P(Set, SgeEqualsAListOfOne, DataCells(), "WR-SET-005") {
  Needs(param.op);
  for (const uint32_t length : {1u, 8u, 33u, 200u}) {
    // The same request through both; each has to leave what a good request leaves.
    for (const Setter setter : {Setter::kSge, Setter::kSgeList}) {
      const std::string problem = Persist(param.transport, [&] {
        Pair& pair = bed().Connect(With(param.transport, Info(param.op).bit));
        Traffic traffic(bed(), pair);
        return traffic.Run({traffic.Make(param.op, 1, Shape{setter, length, 1}),
                            traffic.Make(param.op, 2, Shape{setter, length, 1})});
      });
      EXPECT_CLAUSE("WR-SET-005", problem.empty())
          << Name(setter) << ", length " << length << ": " << problem;
    }
    if (Info(param.op).data == DataSetters::kEightBytes) break;
  }
}

std::vector<OpOn> InlineCells() {
  std::vector<OpOn> cells;
  for (const OpOn& cell : DataCells()) {
    if (Info(cell.op).data == DataSetters::kSgeOrInline) cells.push_back(cell);
  }
  return cells;
}

// How a request ended, for comparing two.
std::string Outcome(Bed& bed, const PairOptions& options, Op op, Shape shape) {
  Pair& pair = bed.Connect(options);
  Traffic traffic(bed, pair);
  const Flight flight = traffic.Make(op, 1, shape);
  if (const int error = Post(pair.a, flight.wr)) return "refused";
  const std::vector<ibv_wc> sent = Await(pair.a.send_cq, 1);
  std::string outcome = Describe(sent);
  if (flight.expects_receive) {
    const std::vector<ibv_wc> got = Await(pair.b.recv_cq, 1, 500ms);
    outcome += ", receive " + Describe(got);
    if (!got.empty()) outcome += " of " + std::to_string(got[0].byte_len);
  }
  return outcome + ", " + (traffic.Check(flight).empty() ? "right bytes" : "wrong bytes");
}

QPX_TEST_P(Set, InlineEqualsAListOfOne, InlineCells(), "WR-SET-006") {
  const PairOptions options = With(param.transport, Info(param.op).bit);
  for (const uint32_t length : {0u, 1u, 7u, 16u, 17u, 32u, 63u, 64u}) {
    std::string one, list;
    Persist(param.transport, [&] {
      one = Outcome(bed(), options, param.op, Shape{Setter::kInline, length, 1});
      list = Outcome(bed(), options, param.op, Shape{Setter::kInlineList, length, 1});
      return one == list ? std::string() : one;
    });
    EXPECT_CLAUSE("WR-SET-006", one == list)
        << "length " << length << ": set_inline_data gives '" << one
        << "', a list of one buffer gives '" << list << "'";
    if (one != list) return;  // one example tells it, and failures take their time on a device
  }
}

QPX_TEST_P(Set, EachTypeHasItsQpSetter, NotRaw(), "WR-SET-007") {
  const std::string problem = Persist(param, [&] {
    PairOptions options = With(param, Bits({Op::kSend}));
    Pair& first = bed().Connect(options);
    Traffic traffic(bed(), first);
    // One that is left at its QP setter is forgotten, and no setter of the next counts twice.
    const End& a = first.a;
    ibv_wr_start(a.ex);
    ibv_wr_send(a.ex);
    if (param == Transport::kUd) ibv_wr_set_ud_addr(a.ex, a.to_peer, a.peer_qpn, a.qkey);
    if (param == Transport::kXrc) ibv_wr_set_xrc_srqn(a.ex, a.peer_srqn);
    ibv_wr_abort(a.ex);
    // The QP setter (none on RC and UC) once for every request, several in one region.
    return traffic.Run(
        {traffic.Make(Op::kSend, 1), traffic.Make(Op::kSend, 2), traffic.Make(Op::kSend, 3)});
  });
  EXPECT_CLAUSE("WR-SET-007", problem.empty()) << problem;
}

std::vector<OpOn> QpSetterCells() {
  std::vector<OpOn> cells;
  for (const OpOn& cell : DataCells()) {
    if (cell.transport == Transport::kUd || cell.transport == Transport::kXrc) {
      cells.push_back(cell);
    }
  }
  return cells;
}

QPX_TEST_P(Set, SettersComeInEitherOrder, QpSetterCells(), "WR-SET-008") {
  const PairOptions options = With(param.transport, Info(param.op).bit);
  bool judged = false;
  for (const Setter setter : SettersOf(param.op)) {
    std::string problems[2];
    for (const SetterOrder order : {SetterOrder::kQpFirst, SetterOrder::kDataFirst}) {
      std::string& problem = problems[order == SetterOrder::kDataFirst];
      problem = Persist(param.transport, [&] {
        Pair& pair = bed().Connect(options);
        Traffic traffic(bed(), pair);
        std::vector<Flight> flights = {traffic.Make(param.op, 1, Shape{setter, 16, 1}),
                                       traffic.Make(param.op, 2, Shape{setter, 24, 1})};
        for (Flight& flight : flights) flight.wr.order = order;
        return traffic.Run(flights);
      });
    }
    // A setter that works in neither order has another clause against it.
    if (!problems[0].empty() && !problems[1].empty()) continue;
    judged = true;
    EXPECT_CLAUSE("WR-SET-008", problems[0].empty())
        << Name(setter) << ", QP setter first: " << problems[0];
    EXPECT_CLAUSE("WR-SET-008", problems[1].empty())
        << Name(setter) << ", DATA setter first: " << problems[1];
  }
  if (!judged) throw NotApplicable{"no setter works in either order"};
}

QPX_TEST_P(Set, BuildersAfterAnErrorDoNoHarm, AllBad(), "WR-SET-012") {
  PairOptions options;
  options.ops = Bits({Op::kSend, Op::kSendImm, Op::kWrite, Op::kWriteImm, Op::kRead});
  for (const Op op : {Op::kCmpSwp, Op::kFetchAdd, Op::kFlush, Op::kAtomicWrite}) {
    if (facts().Has(op)) options.ops |= Info(op).bit;
  }
  options.peer_ops = Bits({Op::kSend});
  options.inline_data = 64;
  if (facts().has_type2_windows()) {
    PairOptions more = options;
    more.ops |= Bits({Op::kBindMw, Op::kLocalInv});
    ibv_cq* cq = bed().Cq(64);
    ibv_qp_init_attr_ex attr = RequesterAttr(bed(), more, cq, cq);
    if (bed().TryQp(&attr) != nullptr) options = more;
  }
  NeedsRefusal(bed(), param, options);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair, 256);
  // The bad one first, then everything else that the QP can do, with every setter.
  std::vector<Flight> after;
  for (const Op op : traffic.Ops()) {
    for (const Setter setter : SettersOf(op)) {
      after.push_back(traffic.Make(op, 100 + after.size(), Shape{setter, 16, 1}, WithReceive::kNo));
    }
  }
  std::vector<Wr> region = MakeBad(param, pair, traffic, 1000);
  for (const Flight& flight : after) region.push_back(flight.wr);
  EXPECT_CLAUSE("WR-SET-012", Post(pair.a, region) != 0) << "the bad region was accepted";
  // The next good region is the sentinel: its completion is the first.
  const Flight good = traffic.Make(Op::kSend, 1);
  const std::string problem = traffic.Run(good);
  EXPECT_CLAUSE("WR-SET-012", problem.empty()) << "the next region: " << problem;
  for (const Flight& flight : after) {
    const std::string touched = traffic.CheckUntouched(flight);
    EXPECT_CLAUSE("WR-SET-012", touched.empty()) << touched;
  }
}

QPX_TEST(Set, ListsAreNotRetained, "WR-SET-013") {
  const PairOptions options = With(Transport::kRc, Bits({Op::kSend}));
  for (const Setter setter : WorkingSetters(bed(), options, Op::kSend, 48)) {
    if (setter != Setter::kSgeList && setter != Setter::kInlineList) continue;
    Pair& pair = bed().Connect(options);
    Traffic traffic(bed(), pair);
    const Flight flight = traffic.Make(Op::kSend, 1, Shape{setter, 48, 3});
    ibv_qp_ex* ex = pair.a.ex;
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    // Poisoned before they are freed: without a sanitizer a late reader sees the poison.
    if (setter == Setter::kSgeList) {
      std::unique_ptr<ibv_sge[]> list(new ibv_sge[3]);
      std::copy(flight.wr.sge.begin(), flight.wr.sge.end(), list.get());
      ibv_wr_set_sge_list(ex, 3, list.get());
      std::memset(static_cast<void*>(list.get()), 0xdd, 3 * sizeof(ibv_sge));
    } else {
      std::unique_ptr<ibv_data_buf[]> list(new ibv_data_buf[3]);
      std::copy(flight.wr.bufs.begin(), flight.wr.bufs.end(), list.get());
      ibv_wr_set_inline_data_list(ex, 3, list.get());
      std::memset(static_cast<void*>(list.get()), 0xdd, 3 * sizeof(ibv_data_buf));
    }
    ASSERT_CLAUSE("WR-SET-013", ibv_wr_complete(ex) == 0);
    const std::string problem = traffic.Finish({flight});
    EXPECT_CLAUSE("WR-SET-013", problem.empty()) << Name(setter) << ": " << problem;
  }
}

QPX_TEST_P(Set, CompleteWithoutADataSetter, (std::vector<Op>{Op::kFlush, Op::kAtomicWrite}),
           "WR-SET-014") {
  Needs(param);
  PairOptions options = With(Transport::kRc, Info(param).bit);
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  const std::string problem = traffic.Run(traffic.Make(param, 1));
  EXPECT_CLAUSE("WR-SET-014", problem.empty()) << problem;
  if (param != Op::kFlush) return;
  // The page lists DATA for FLUSH: a setter of the same length is nobody's error.
  Pair& other = bed().Connect(options);
  Traffic more(bed(), other);
  Flight flight = more.Make(Op::kFlush, 2);
  flight.wr.setter = Setter::kSge;
  const int error = Post(other.a, flight.wr);
  const std::string how = error != 0 ? "refused at complete" : Describe(Await(other.a.send_cq, 1));
  Record::Current().Note("FLUSH with set_sge: " + how);
  if (TheHooks().is_reference) {
    EXPECT_CLAUSE("WR-SET-014", how == "2:SUCCESS") << "FLUSH with set_sge: " << how;
  }
}

// Pages that can be read but not written.
class ReadOnly {
 public:
  explicit ReadOnly(std::size_t length) : length_(length) {
    void* map = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) throw SetUpFailed{"no memory"};
    data_ = static_cast<uint8_t*>(map);
  }
  ~ReadOnly() { munmap(data_, length_); }
  template <typename T>
  T* Put(const std::vector<T>& values) {
    T* at = reinterpret_cast<T*>(data_ + used_);
    std::copy(values.begin(), values.end(), at);
    used_ += (values.size() * sizeof(T) + 15) / 16 * 16;
    return at;
  }
  void Seal() { mprotect(data_, length_, PROT_READ); }

 private:
  uint8_t* data_;
  std::size_t length_, used_ = 0;
};

QPX_TEST(Set, ConstArgumentsAreNotWritten, "WR-SET-015") {
  PairOptions options = With(Transport::kRc, Bits({Op::kSend, Op::kWrite, Op::kRead}));
  const bool windows = facts().has_type2_windows();
  if (windows) options.ops |= Info(Op::kBindMw).bit;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  std::vector<Flight> lists;
  for (const Op op : {Op::kSend, Op::kWrite, Op::kRead}) {
    lists.push_back(
        traffic.Make(op, lists.size() + 1, Shape{Setter::kSgeList, 32, 4}, WithReceive::kNo));
  }
  Flight bind;
  if (windows) bind = traffic.Make(Op::kBindMw, 9);
  ReadOnly pages(1 << 16);
  std::vector<const ibv_sge*> sges;
  std::vector<const ibv_data_buf*> bufs;
  for (const Flight& flight : lists) {
    sges.push_back(pages.Put(flight.wr.sge));
    bufs.push_back(pages.Put(flight.wr.bufs));
  }
  const ibv_mw_bind_info* info =
      windows ? pages.Put(std::vector<ibv_mw_bind_info>{bind.wr.bind}) : nullptr;
  const uint64_t* value = pages.Put(std::vector<uint64_t>{42});
  (void)value;
  pages.Seal();
  // A write would be a fault: the supervisor records the crash with this clause. Aborted, since
  // only the calls are in question.
  ibv_qp_ex* ex = pair.a.ex;
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_SIGNALED;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const Wr& wr = lists[i].wr;
    auto build = [&] {
      if (wr.op == Op::kSend) ibv_wr_send(ex);
      if (wr.op == Op::kWrite) ibv_wr_rdma_write(ex, wr.rkey, wr.remote);
      if (wr.op == Op::kRead) ibv_wr_rdma_read(ex, wr.rkey, wr.remote);
    };
    build();
    ibv_wr_set_sge_list(ex, wr.sge.size(), sges[i]);
    if (wr.op == Op::kRead) continue;
    build();
    ibv_wr_set_inline_data_list(ex, wr.bufs.size(), bufs[i]);
  }
  if (windows) ibv_wr_bind_mw(ex, bind.wr.mw, bind.wr.bind_rkey, info);
  ibv_wr_abort(ex);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const Wr& wr = lists[i].wr;
    EXPECT_CLAUSE("WR-SET-015",
                  std::memcmp(sges[i], wr.sge.data(), wr.sge.size() * sizeof(ibv_sge)) == 0);
  }
}

#ifndef QPEXAM_HEADER_44
QPX_TEST(Set, AtomicWriteDoesNotWriteItsArgument, "WR-SET-015") {
  Needs(Op::kAtomicWrite);
  Pair& pair = bed().Connect(With(Transport::kRc, Info(Op::kAtomicWrite).bit));
  Memory& memory = bed().Mem(64);
  ReadOnly pages(4096);
  const uint64_t* value = pages.Put(std::vector<uint64_t>{42});
  pages.Seal();
  ibv_wr_start(pair.a.ex);
  ibv_wr_atomic_write(pair.a.ex, memory.rkey(), memory.address(), value);
  ibv_wr_abort(pair.a.ex);
  EXPECT_CLAUSE("WR-SET-015", *value == 42);
}
#endif

// --- what the caller must not do: the reference detects it -----------------------------------

QPX_TEST(Set, TwoDataSetters, "WR-SET-002") {
  Pair& pair = bed().Connect(With(Transport::kRc, Bits({Op::kWrite})));
  Traffic traffic(bed(), pair);
  for (const Setter second : SettersOf(Op::kWrite)) {
    Flight flight = traffic.Make(Op::kWrite, 1);
    ibv_qp_ex* ex = pair.a.ex;
    ibv_wr_start(ex);
    Build(pair.a, flight.wr);
    if (IsInline(second)) {
      ibv_wr_set_inline_data(ex, traffic.local().data(), 8);
    } else {
      ibv_wr_set_sge(ex, traffic.local().lkey(), traffic.local().address(), 8);
    }
    EXPECT_CLAUSE("WR-SET-002", ibv_wr_complete(ex) == EINVAL) << "then " << Name(second);
    EXPECT_CLAUSE("WR-SET-002", Linted("WR-SET-002"));
  }
  EXPECT_CLAUSE("WR-SET-002", Quiet(pair.a.send_cq).empty());
}

QPX_TEST_P(Set, NoDataSetter, DataCells(), "WR-SET-003") {
  Pair& pair = bed().Connect(With(param.transport, Info(param.op).bit));
  Traffic traffic(bed(), pair);
  Flight flight = traffic.Make(param.op, 1, {}, WithReceive::kNo);
  flight.wr.setter = Setter::kNone;
  EXPECT_CLAUSE("WR-SET-003", Post(pair.a, flight.wr) == EINVAL);
  EXPECT_CLAUSE("WR-SET-003", Linted("WR-SET-003"));
}

QPX_TEST_P(Set, NoQpSetter, (std::vector<Transport>{Transport::kUd, Transport::kXrc}),
           "WR-SET-009") {
  Pair& pair = bed().Connect(With(param, Bits({Op::kSend})));
  Memory& memory = bed().Mem(64);
  ibv_qp_ex* ex = pair.a.ex;
  ibv_wr_start(ex);
  ibv_wr_send(ex);
  ibv_wr_set_sge(ex, memory.lkey(), memory.address(), 8);
  EXPECT_CLAUSE("WR-SET-009", ibv_wr_complete(ex) == EINVAL);
  EXPECT_CLAUSE("WR-SET-009", Linted("WR-SET-009"));
}

QPX_TEST_P(Set, QpSetterOnAnotherType, NotRaw(), "WR-SET-010") {
  Pair& pair = bed().Connect(With(param, Bits({Op::kSend})));
  Pair& ud = bed().Connect(With(Transport::kUd, Bits({Op::kSend})));
  Traffic traffic(bed(), pair);
  const Flight flight = traffic.Make(Op::kSend, 1, {}, WithReceive::kNo);
  ibv_qp_ex* ex = pair.a.ex;
  ibv_wr_start(ex);
  Build(pair.a, flight.wr);
  if (param == Transport::kUd) {
    ibv_wr_set_xrc_srqn(ex, 1);
  } else {
    ibv_wr_set_ud_addr(ex, ud.a.to_peer, 1, 1);
  }
  ibv_wr_abort(ex);
  EXPECT_CLAUSE("WR-SET-010", Linted("WR-SET-010"));
}

QPX_TEST_P(Set, SetterBeforeAnyBuilder, SettersOf(Op::kSend), "WR-SET-011") {
  Pair& pair = bed().Connect(With(Transport::kRc, Bits({Op::kSend})));
  Memory& memory = bed().Mem(64);
  ibv_qp_ex* ex = pair.a.ex;
  const ibv_sge sge = memory.sge(0, 8);
  const ibv_data_buf buf{memory.data(), 8};
  ibv_wr_start(ex);
  switch (param) {
    case Setter::kSge:
      ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
      break;
    case Setter::kSgeList:
      ibv_wr_set_sge_list(ex, 1, &sge);
      break;
    case Setter::kInline:
      ibv_wr_set_inline_data(ex, buf.addr, buf.length);
      break;
    default:
      ibv_wr_set_inline_data_list(ex, 1, &buf);
  }
  EXPECT_CLAUSE("WR-SET-011", ibv_wr_complete(ex) == EINVAL);
  EXPECT_CLAUSE("WR-SET-011", Linted("WR-SET-011"));
}

}  // namespace
}  // namespace qpexam::conformance
