#include "reference/model/choice.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "reference/model/faults.h"

namespace qpexam::model {
namespace {

bool IsName(std::string_view s) {
  for (char c : s) {
    if (!(c == '-' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) return false;
  }
  return !s.empty() && s.front() != '-' && s.back() != '-';
}

TEST(ChoiceTest, TheTableIsWhole) {
  ASSERT_EQ(AllChoices().size(), static_cast<size_t>(ChoicePoint::kCount));
  std::set<std::string_view> names;
  for (size_t i = 0; i < AllChoices().size(); ++i) {
    const ChoiceInfo& info = AllChoices()[i];
    EXPECT_EQ(static_cast<size_t>(info.point), i);
    EXPECT_TRUE(IsName(info.name)) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.clause.substr(0, 3), "WR-") << info.name;
    EXPECT_FALSE(info.outcomes.empty()) << info.name;
    EXPECT_EQ(info.question.back(), '?') << info.name;
  }
}

TEST(FaultsTest, TheTableIsWhole) {
  // The enumeration begins with kNone, which has no line.
  ASSERT_EQ(AllFaults().size(), static_cast<size_t>(Fault::kCount) - 1);
  EXPECT_GE(AllFaults().size(), 150u);
  std::set<std::string_view> names;
  int of_a_fresh_reader = 0;
  for (const FaultInfo& info : AllFaults()) {
    of_a_fresh_reader += info.origin == FaultOrigin::kFreshReader;
    EXPECT_TRUE(IsName(info.name)) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.clause.substr(0, 3), "WR-") << info.name;
    EXPECT_EQ(info.what.back(), '.') << info.name;
    EXPECT_EQ(FaultByName(info.name), info.fault);
  }
  EXPECT_EQ(of_a_fresh_reader, 20);
  EXPECT_EQ(FaultByName("no-such-fault"), std::nullopt);
}

TEST(FaultsTest, SwitchAndRecording) {
  EXPECT_FALSE(Faulty(Fault::kReadLost));
  FaultSwitch::Set(Fault::kReadLost);
  EXPECT_TRUE(Faulty(Fault::kReadLost));
  EXPECT_FALSE(Faulty(Fault::kAbortPosts));
  EXPECT_EQ(FaultSwitch::active(), Fault::kReadLost);
  FaultSwitch::Set(Fault::kNone);
  EXPECT_FALSE(Faulty(Fault::kReadLost));
  FaultSwitch::StartRecording();
  EXPECT_FALSE(Faulty(Fault::kAbortPosts));
  const auto reached = FaultSwitch::TakeReached();
  EXPECT_TRUE(reached.test(static_cast<size_t>(Fault::kAbortPosts)));
  EXPECT_EQ(reached.count(), 1u);
  EXPECT_EQ(FaultSwitch::active(), Fault::kNone);
}

}  // namespace
}  // namespace qpexam::model
