#include "conformance/suites/oversize.h"

#include <algorithm>
#include <vector>

#include "conformance/fixture/record.h"

namespace qpexam::conformance {

void JudgeOversized(Bed& bed, const PairOptions& options, const char* clause,
                    const std::string& what, const std::function<Oversized(Pair&)>& make) {
  Pair& pair = bed.Connect(options);
  Traffic traffic(bed, pair);
  Oversized oversized = make(pair);
  const std::size_t length = oversized.expected.size();
  constexpr std::size_t kMargin = 256;
  Memory& target = bed.Mem(length + 2 * kMargin);
  target.Fill(0xee);
  Wr& wr = oversized.wr;
  wr.op = Op::kWrite;
  wr.id = 2;
  wr.rkey = target.rkey();
  wr.remote = target.address(kMargin);

  const Flight before = traffic.Make(Op::kWrite, 1), after = traffic.Make(Op::kWrite, 3);
  const int error = Post(pair.a, {before.wr, wr, after.wr});
  if (error != 0) {
    // The next region's completion is the sentinel: nothing may come before it.
    const std::string next = traffic.Run(traffic.Make(Op::kWrite, 4));
    EXPECT_CLAUSE(clause, next.empty()) << what << ": refused, then the next region: " << next;
    const std::string touched = traffic.CheckUntouched(before) + traffic.CheckUntouched(after);
    EXPECT_CLAUSE(clause, touched.empty()) << what << ": refused, yet " << touched;
    EXPECT_CLAUSE(clause, target.Is(0, target.size(), 0xee))
        << what << ": refused, yet bytes were written";
    return;
  }
  const std::vector<ibv_wc> wcs = Await(pair.a.send_cq, 3);
  ASSERT_CLAUSE(clause, !wcs.empty() && wcs[0].wr_id == 1 && wcs[0].status == IBV_WC_SUCCESS)
      << what << ": accepted; completions: " << Describe(wcs);
  const std::string first = traffic.Check(before);
  EXPECT_CLAUSE(clause, first.empty()) << what << ": the request before it: " << first;
  const std::vector<uint8_t> got = [&] {
    TheClock().Until(TheClock().Limit(500ms), [&] {
      return std::equal(oversized.expected.begin(), oversized.expected.end(),
                        target.data() + kMargin);
    });
    return target.Copy(kMargin, length);
  }();
  const bool outside_untouched =
      target.Is(0, kMargin, 0xee) && target.Is(kMargin + length, kMargin, 0xee);
  EXPECT_CLAUSE(clause, outside_untouched) << what << ": bytes outside the message were written";
  ASSERT_CLAUSE(clause, wcs.size() >= 2 && wcs[1].wr_id == 2)
      << what << ": accepted; completions: " << Describe(wcs);
  if (wcs[1].status != IBV_WC_SUCCESS) {
    EXPECT_SHOULD(clause, false) << what << ": accepted at complete, then " << Describe({wcs[1]});
    return;
  }
  EXPECT_CLAUSE(clause, got == oversized.expected)
      << what << ": accepted and SUCCESS, but not all " << length << " bytes arrived";
  const std::string last = Differs({wcs.begin() + 2, wcs.end()}, {3}) + traffic.Check(after);
  EXPECT_CLAUSE(clause, last.empty()) << what << ": the request after it: " << last;
  Record::Current().Note(what + ": accepted and sent whole");
}

}  // namespace qpexam::conformance
