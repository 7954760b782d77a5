#include "conformance/catalogue/catalogue.h"

#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace qpexam::catalogue {
namespace {

int Count(View<Clause> clauses, Level level) {
  int n = 0;
  for (const Clause& clause : clauses) n += clause.level == level;
  return n;
}

TEST(Catalogue, HasTheNumbersThatTheSpecificationStates) {
  EXPECT_EQ(All().size(), 287u);
  EXPECT_EQ(Count(All(), Level::kMust), 205);
  EXPECT_EQ(Count(All(), Level::kShould), 31);
  EXPECT_EQ(Count(All(), Level::kMay), 31);
  EXPECT_EQ(Count(All(), Level::kUndefined), 20);
  EXPECT_EQ(Groups().size(), 23u);
}

TEST(Catalogue, EveryGroupHasItsNumbersByLevel) {
  for (const Group& group : Groups()) {
    SCOPED_TRACE(std::string(group.name));
    const View<Clause> clauses = InGroup(group.name);
    EXPECT_EQ(static_cast<int>(clauses.size()), group.clauses);
    EXPECT_EQ(Count(clauses, Level::kMust), group.must);
    EXPECT_EQ(Count(clauses, Level::kShould), group.should);
    EXPECT_EQ(Count(clauses, Level::kMay), group.may);
    EXPECT_EQ(Count(clauses, Level::kUndefined), group.undefined);
  }
}

TEST(Catalogue, IdsAreUniqueAndNameTheirGroup) {
  std::set<std::string_view> seen;
  for (const Clause& clause : All()) {
    EXPECT_TRUE(seen.insert(clause.id).second) << clause.id;
    EXPECT_EQ(clause.id.substr(0, 4 + clause.group.size()),
              "WR-" + std::string(clause.group) + "-");
  }
}

TEST(Catalogue, FindsByFullAndShortId) {
  const Clause* clause = Find("WR-ATOM-002");
  ASSERT_NE(clause, nullptr);
  EXPECT_EQ(clause->group, "ATOM");
  EXPECT_EQ(clause->level, Level::kMust);
  EXPECT_EQ(clause->layer, Layer::kLib);
  EXPECT_EQ(Find("ATOM-002"), clause);
  EXPECT_EQ(Find("WR-ATOM-999"), nullptr);
  EXPECT_EQ(Find(""), nullptr);
  EXPECT_EQ(InGroup("NONE").size(), 0u);
}

TEST(Catalogue, KeepsTextsWhole) {
  // The columns hold every kind of character that embedding could damage.
  const Clause* create = Find("WR-CREATE-001");
  EXPECT_NE(create->how_to_test.find("create_qp_ex(PD|SEND_OPS, SEND)"), std::string_view::npos);
  const Clause* key = Find("WR-MW-002");
  EXPECT_NE(key->statement.find("(old & ~0xff)|(new & 0xff)"), std::string_view::npos);
  const Clause* tear = Find("WR-COMP-008");
  EXPECT_EQ(tear->confidence, Confidence::kLow);
}

TEST(Catalogue, WhatOnlyADeviceCanShowIsNotClaimedForTheLibrary) {
  for (const Clause& clause : InGroup("RESP")) {
    EXPECT_EQ(clause.layer, Layer::kDevice) << clause.id;
  }
}

TEST(Catalogue, NamesRoundTripToTheDataFiles) {
  EXPECT_EQ(Name(Level::kUndefined), "UNDEFINED");
  EXPECT_EQ(Name(Confidence::kMedium), "M");
  EXPECT_EQ(Name(Layer::kKernel), "kernel");
}

}  // namespace
}  // namespace qpexam::catalogue
