// Every clause of the catalogue is tested, or says in the data why not.

#include <map>
#include <string>
#include <vector>

#include "conformance/catalogue/catalogue.h"
#include "conformance/fixture/record.h"
#include "gtest/gtest.h"

namespace qpexam::conformance {
namespace {

std::map<std::string, std::vector<std::string>> TestsByClause() {
  std::map<std::string, std::vector<std::string>> tests;
  for (const TestCase& test : AllTests()) {
    for (const std::string& clause : test.clauses) {
      tests[clause].push_back(test.suite + "." + test.name);
    }
  }
  return tests;
}

TEST(Clauses, EachIsTestedOrSaysWhyNot) {
  const auto tests = TestsByClause();
  int tested = 0;
  for (const catalogue::Clause& clause : catalogue::All()) {
    const bool has_test = tests.count(std::string(clause.id)) != 0;
    tested += has_test;
    EXPECT_TRUE(has_test || !clause.untested.empty())
        << clause.id << " has neither a test nor a reason: " << clause.statement;
    EXPECT_FALSE(has_test && !clause.untested.empty())
        << clause.id << " has a test and a reason why it has none";
  }
  // The measure.
  EXPECT_GE(tested, 270);
}

TEST(Clauses, TestNamesAreUnique) {
  std::map<std::string, int> count;
  for (const TestCase& test : AllTests()) {
    EXPECT_EQ(++count[test.suite + "." + test.name], 1) << test.suite << "." << test.name;
  }
}

}  // namespace
}  // namespace qpexam::conformance
