// What stands behind each clause of the catalogue: a rule of the model and, where the clause is a
// MUST, a fault that breaks it; or, in the data, why not (conformance/catalogue/exempt.tsv). That
// each has a test is //conformance:accounted_test's, that each fault is caught :faults_test's.
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "conformance/catalogue/catalogue.h"
#include "reference/model/carried.h"
#include "reference/model/faults.h"

namespace qpexam {
namespace {

TEST(Clauses, EachIsCarriedByARuleOrSaysWhyNot) {
  for (const catalogue::Clause& clause : catalogue::All()) {
    const bool carried = model::CarrierOf(clause.id) != nullptr;
    EXPECT_NE(carried, !clause.no_rule.empty())
        << clause.id
        << (carried ? " has a rule and a reason for having none"
                    : " has neither a rule (reference/model/carried.inc) nor a reason");
  }
}

TEST(Clauses, EachMustHasAFaultOrSaysWhyNot) {
  std::set<std::string_view> broken;
  for (const model::FaultInfo& fault : model::AllFaults()) broken.insert(fault.clause);
  for (const catalogue::Clause& clause : catalogue::All()) {
    const bool has_fault = broken.count(clause.id) != 0;
    EXPECT_FALSE(has_fault && !clause.no_fault.empty())
        << clause.id << " has a fault and a reason for having none";
    if (clause.level != catalogue::Level::kMust) continue;
    EXPECT_TRUE(has_fault || !clause.no_fault.empty())
        << clause.id << " has neither a fault (reference/model/faults.inc) nor a reason";
  }
}

TEST(Clauses, RulesAndFaultsNameClausesThatThereAre) {
  for (const model::Carrier& carrier : model::AllCarriers())
    EXPECT_NE(catalogue::Find(carrier.clause), nullptr) << carrier.clause;
  for (const model::FaultInfo& fault : model::AllFaults())
    EXPECT_NE(catalogue::Find(fault.clause), nullptr) << fault.name << ' ' << fault.clause;
}

}  // namespace
}  // namespace qpexam
