// EVT: completion events and solicited events (ibv_req_notify_cq(3), ibv_get_cq_event(3)).

#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
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

class Evt : public Conformance {
 protected:
  // A channel that never blocks, so that absence can be asked for.
  ibv_comp_channel* Channel() {
    ibv_comp_channel* channel = bed().Channel();
    const int flags = fcntl(channel->fd, F_GETFL);
    if (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
      throw SetUpFailed{"the channel's descriptor cannot be made non-blocking"};
    }
    return channel;
  }
  // Takes one event if there is one, and acknowledges it.
  static bool Take(ibv_comp_channel* channel, ibv_cq* expected) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel, &cq, &context) != 0) return false;
    ibv_ack_cq_events(cq, 1);
    return cq == expected;
  }
  static bool TakeWithin(ibv_comp_channel* channel, ibv_cq* cq, Duration limit = 5s) {
    return clock().Until(clock().Limit(limit), [&] { return Take(channel, cq); });
  }
  static bool NoneComes(ibv_comp_channel* channel, ibv_cq* cq) {
    clock().Pass(clock().QuietWindow());
    return !Take(channel, cq);
  }
  // An RC pair whose receive completions raise events on `channel`.
  Pair& ReceiverOn(ibv_cq* cq, uint64_t ops, Transport transport = Transport::kRc) {
    PairOptions options;
    options.transport = transport;
    options.ops = ops;
    options.peer_ops = Bits({Op::kSend, Op::kBindMw});
    options.recv_cq = cq;
    return bed().Connect(options);
  }
};

QPX_TEST(Evt, OneShotOnAnEmptyCq, "WR-EVT-001") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  PairOptions options;
  options.send_cq = cq;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  for (int round = 0; round < 3; ++round) {
    ASSERT_CLAUSE("WR-EVT-001", ibv_req_notify_cq(cq, 0) == 0);
    ASSERT_CLAUSE("WR-EVT-001", !Take(channel, cq)) << "an event before any completion";
    std::vector<Wr> wrs = {traffic.Make(Op::kWrite, 1).wr, traffic.Make(Op::kWrite, 2).wr};
    ASSERT_CLAUSE("WR-EVT-001", Post(pair.a, wrs) == 0);
    EXPECT_CLAUSE("WR-EVT-001", TakeWithin(channel, cq)) << "no event, round " << round;
    EXPECT_CLAUSE("WR-EVT-001", Await(cq, 2).size() == 2);
    EXPECT_CLAUSE("WR-EVT-001", NoneComes(channel, cq)) << "a second event without re-arming";
  }
}

QPX_TEST(Evt, WithoutArmingNoEvent, "WR-EVT-001") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  PairOptions options;
  options.send_cq = cq;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-EVT-001", Post(pair.a, traffic.Make(Op::kWrite, 1).wr) == 0);
  ASSERT_CLAUSE("WR-EVT-001", Await(cq, 1).size() == 1);
  EXPECT_CLAUSE("WR-EVT-001", NoneComes(channel, cq)) << "an event of a CQ that was never armed";
}

QPX_TEST(Evt, SolicitedOnlyIgnoresPlainCompletions, "WR-EVT-002") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  // Send and receive completions on one CQ.
  PairOptions options;
  options.send_cq = cq;
  options.recv_cq = cq;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);

  // Neither a send completion nor the receive completion of a plain message counts.
  ASSERT_CLAUSE("WR-EVT-002", ibv_req_notify_cq(cq, 1) == 0);
  ASSERT_CLAUSE("WR-EVT-002", Post(pair.a, traffic.Make(Op::kWrite, 1).wr) == 0);
  Flight plain = traffic.Make(Op::kSend, 2);
  ASSERT_CLAUSE("WR-EVT-002", Post(pair.a, plain.wr) == 0);
  ASSERT_CLAUSE("WR-EVT-002", Await(cq, 3).size() == 3);
  EXPECT_CLAUSE("WR-EVT-002", NoneComes(channel, cq))
      << "an event of unsolicited successful completions";

  // Still armed: the solicited message raises it.
  Flight solicited = traffic.Make(Op::kSend, 3);
  solicited.wr.flags |= IBV_SEND_SOLICITED;
  ASSERT_CLAUSE("WR-EVT-002", Post(pair.a, solicited.wr) == 0);
  EXPECT_CLAUSE("WR-EVT-002", TakeWithin(channel, cq)) << "no event of a solicited message";
  EXPECT_CLAUSE("WR-EVT-002", Await(cq, 2).size() == 2);
}

QPX_TEST(Evt, SolicitedOnlyTakesErrors, "WR-EVT-002") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  PairOptions options;
  options.send_cq = cq;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-EVT-002", ibv_req_notify_cq(cq, 1) == 0);
  Flight bad = traffic.Make(Op::kWrite, 1);
  bad.wr.rkey ^= 0x5500;
  ASSERT_CLAUSE("WR-EVT-002", Post(pair.a, bad.wr) == 0);
  EXPECT_CLAUSE("WR-EVT-002", TakeWithin(channel, cq)) << "no event of an error completion";
  const std::vector<ibv_wc> wcs = Await(cq, 1);
  ASSERT_CLAUSE("WR-EVT-002", wcs.size() == 1 && wcs[0].status != IBV_WC_SUCCESS) << Describe(wcs);
}

QPX_TEST(Evt, SolicitedOnlyTakesReceiveErrors, "WR-EVT-002") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  Pair& pair = ReceiverOn(cq, Bits({Op::kSend}));
  Memory& memory = bed().Mem(64);
  ASSERT_CLAUSE("WR-EVT-002", PostRecv(pair.b, 9, {memory.sge(0, 16)}) == 0);
  ASSERT_CLAUSE("WR-EVT-002", ibv_req_notify_cq(cq, 1) == 0);
  ASSERT_CLAUSE("WR-EVT-002", ModifyState(pair.b.qp, IBV_QPS_ERR) == 0);
  EXPECT_CLAUSE("WR-EVT-002", TakeWithin(channel, cq)) << "no event of a flushed receive";
  EXPECT_CLAUSE("WR-EVT-002", Await(cq, 1).size() == 1);
}

// WR-EVT-003: the four operations whose flag means something.
QPX_TEST_P(Evt, FlagMakesTheMessageSolicited,
           (std::vector<Op>{Op::kSend, Op::kSendImm, Op::kSendInv, Op::kWriteImm}), "WR-EVT-003") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  Pair& pair = ReceiverOn(cq, Bits({param}));
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-EVT-003", ibv_req_notify_cq(cq, 1) == 0);
  Flight plain = traffic.Make(param, 1);
  ASSERT_CLAUSE("WR-EVT-003", Post(pair.a, plain.wr) == 0);
  ASSERT_CLAUSE("WR-EVT-003", Await(cq, 1).size() == 1);
  EXPECT_CLAUSE("WR-EVT-003", NoneComes(channel, cq)) << "an event without the flag";

  Flight solicited = traffic.Make(param, 2);
  solicited.wr.flags |= IBV_SEND_SOLICITED;
  ASSERT_CLAUSE("WR-EVT-003", Post(pair.a, solicited.wr) == 0);
  EXPECT_CLAUSE("WR-EVT-003", TakeWithin(channel, cq)) << "no event with the flag";
  EXPECT_CLAUSE("WR-EVT-003", Await(cq, 1).size() == 1);
  Await(pair.a.send_cq, 2);
}

QPX_TEST(Evt, FlagElsewhereIsIgnoredOrRefused, "WR-EVT-003") {
  Pair& pair = bed().Connect(PairOptions{});
  Traffic traffic(bed(), pair);
  Flight flight = traffic.Make(Op::kWrite, 1);
  flight.wr.flags |= IBV_SEND_SOLICITED;
  const int rc = Post(pair.a, flight.wr);
  Record::Current().Variation("WR-EVT-003", rc == 0
                                                ? "SOLICITED on RDMA_WRITE is accepted"
                                                : "SOLICITED on RDMA_WRITE is refused at complete");
  if (rc == 0) {
    const std::string problem = traffic.Finish({flight});
    EXPECT_CLAUSE("WR-EVT-003", problem.empty()) << problem;
  }
}

QPX_TEST(Evt, NoEventIsLostBetweenArmAndWait, "WR-EVT-004") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(256, channel);
  Pair& pair = ReceiverOn(cq, Bits({Op::kSend}));
  Traffic traffic(bed(), pair);
  const int rounds = Repetitions(100000);
  for (int round = 0; round < rounds; ++round) {
    // The message arrives before arming, between arming and polling, or after polling.
    const Flight flight = traffic.Make(Op::kSend, round + 1);
    const int when = round % 3;
    if (when == 0) {
      ASSERT_CLAUSE("WR-EVT-004", Post(pair.a, flight.wr) == 0);
    }
    ASSERT_CLAUSE("WR-EVT-004", ibv_req_notify_cq(cq, 0) == 0);
    if (when == 1) {
      ASSERT_CLAUSE("WR-EVT-004", Post(pair.a, flight.wr) == 0);
    }
    std::vector<ibv_wc> wcs = PollNow(cq);
    if (when == 2) {
      ASSERT_CLAUSE("WR-EVT-004", Post(pair.a, flight.wr) == 0);
    }
    if (wcs.empty()) {
      // Nothing was there after arming, so its arrival must wake the waiter.
      ASSERT_CLAUSE("WR-EVT-004", TakeWithin(channel, cq, 6s))
          << "no event within the limit, round " << round << "; " << PollNow(cq).size()
          << " completion(s) in the CQ";
      wcs = Await(cq, 1);
    }
    ASSERT_CLAUSE("WR-EVT-004", wcs.size() == 1) << wcs.size() << " in round " << round;
    while (Take(channel, cq)) {
    }
    ASSERT_CLAUSE("WR-EVT-004", Await(pair.a.send_cq, 1).size() == 1);
  }
}

// Armed while a completion waits: polling it takes nothing of the arming. (An event of that very
// completion, which some devices raise at once, serves the caller as well.)
QPX_TEST(Evt, PollingLeavesTheCqArmed, "WR-EVT-004") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  PairOptions options;
  options.send_cq = cq;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  for (uint64_t round = 1; round <= 3; ++round) {
    ASSERT_CLAUSE("WR-EVT-004", Post(pair.a, traffic.Make(Op::kWrite, round * 2).wr) == 0);
    clock().Pass(10ms);
    ASSERT_CLAUSE("WR-EVT-004", ibv_req_notify_cq(cq, 0) == 0);
    ASSERT_CLAUSE("WR-EVT-004", Await(cq, 1).size() == 1);
    ASSERT_CLAUSE("WR-EVT-004", Post(pair.a, traffic.Make(Op::kWrite, round * 2 + 1).wr) == 0);
    EXPECT_CLAUSE("WR-EVT-004", TakeWithin(channel, cq))
        << "no event of a completion after arm and poll, round " << round;
    ASSERT_CLAUSE("WR-EVT-004", Await(cq, 1).size() == 1);
    while (Take(channel, cq)) {
    }
  }
}

QPX_TEST(Evt, AnEventMayFindAnEmptyCq, "WR-EVT-005") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  PairOptions options;
  options.send_cq = cq;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-EVT-005", ibv_req_notify_cq(cq, 0) == 0);
  ASSERT_CLAUSE("WR-EVT-005", Post(pair.a, traffic.Make(Op::kWrite, 1).wr) == 0);
  ASSERT_CLAUSE("WR-EVT-005", Await(cq, 1).size() == 1);
  // Re-armed with the CQ empty; the event of the first arming may still be on its way.
  ASSERT_CLAUSE("WR-EVT-005", ibv_req_notify_cq(cq, 0) == 0);
  int events = 0;
  clock().Pass(clock().QuietWindow());
  while (Take(channel, cq)) ++events;
  EXPECT_CLAUSE("WR-EVT-005", events <= 2) << events << " events of two armings";
  Record::Current().Variation("WR-EVT-005", events == 0   ? "no event with an empty CQ"
                                            : events == 1 ? "one event with an empty CQ"
                                                          : "two events with an empty CQ");
}

QPX_TEST(Evt, DestroyWaitsForAcknowledgement, "WR-EVT-006") {
  ibv_comp_channel* channel = Channel();
  ibv_cq* cq = bed().Cq(64, channel);
  PairOptions options;
  options.send_cq = cq;
  Pair& pair = bed().Connect(options);
  Traffic traffic(bed(), pair);
  ASSERT_CLAUSE("WR-EVT-006", ibv_req_notify_cq(cq, 0) == 0);
  ASSERT_CLAUSE("WR-EVT-006", Post(pair.a, traffic.Make(Op::kWrite, 1).wr) == 0);
  ibv_cq* from = nullptr;
  void* context = nullptr;
  ASSERT_CLAUSE("WR-EVT-006", clock().Until(clock().Limit(5s), [&] {
    return ibv_get_cq_event(channel, &from, &context) == 0;
  })) << "no event";
  ASSERT_CLAUSE("WR-EVT-006", from == cq);
  Await(cq, 1);
  bed().Destroy(pair.a.qp);
  bed().Destroy(pair.b.qp);

  // The event is not acknowledged: destroying the CQ has to wait. Real time, since a thread waits.
  std::atomic<int> result{-1};
  std::thread destroyer([&] { result = ibv_destroy_cq(cq); });
  bed().Disown(cq);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const bool waited = result == -1;
  ibv_ack_cq_events(cq, 1);  // also in the bad case, else the thread never ends
  destroyer.join();
  EXPECT_CLAUSE("WR-EVT-006", waited) << "ibv_destroy_cq came back before the acknowledgement";
  EXPECT_CLAUSE("WR-EVT-006", result == 0) << "ibv_destroy_cq returned " << result;
}

}  // namespace
}  // namespace qpexam::conformance
