#include "reference/model/carried.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace qpexam::model {
namespace {

// The sources stand beside the test, as data.
std::string Sources() {
  std::string all;
  for (const char* name : {"choice.h",
                           "choices.inc",
                           "completion_queue.cc",
                           "completion_queue.h",
                           "device.cc",
                           "fabric.h",
                           "key_table.h",
                           "memory_access.cc",
                           "objects.h",
                           "ops.cc",
                           "ops.h",
                           "packet.cc",
                           "queue_pair.cc",
                           "region_lock.h",
                           "request.h",
                           "requester.cc",
                           "requester.h",
                           "responder.cc",
                           "rules.cc",
                           "rules.h",
                           "send_queue.cc",
                           "send_queue.h",
                           "transitions.cc",
                           "types.h"}) {
    std::ifstream in(std::string("reference/model/") + name);
    EXPECT_TRUE(in.good()) << name;
    std::stringstream text;
    text << in.rdbuf();
    all += text.str();
  }
  return all;
}

TEST(CarriedTest, EveryClauseOnceAndEveryPlaceIsThere) {
  const std::string sources = Sources();
  std::set<std::string_view> seen;
  for (const Carrier& c : AllCarriers()) {
    EXPECT_TRUE(seen.insert(c.clause).second) << c.clause;
    EXPECT_EQ(c.clause.substr(0, 3), "WR-");
    EXPECT_FALSE(c.how.empty()) << c.clause;
    if (c.place.find('/') != std::string_view::npos) {  // the provider's files
      EXPECT_TRUE(std::ifstream("reference/" + std::string(c.place)).good()) << c.clause;
      continue;
    }
    const size_t at = c.place.rfind(':');
    const std::string name(at == std::string_view::npos ? c.place : c.place.substr(at + 1));
    EXPECT_NE(sources.find(name), std::string::npos) << c.clause << ' ' << c.place;
  }
  EXPECT_GE(AllCarriers().size(), 280u);  // "all but a justified few"
  ASSERT_NE(CarrierOf("WR-ATOM-002"), nullptr);
  EXPECT_EQ(CarrierOf("WR-ATOM-002")->place, "SendQueue::Complete");
  EXPECT_EQ(CarrierOf("WR-ATOM-999"), nullptr);
}

}  // namespace
}  // namespace qpexam::model
