// The suites' results as JUnit's XML, which CI systems read.
#ifndef QPEXAM_HARNESS_REPORT_JUNIT_H_
#define QPEXAM_HARNESS_REPORT_JUNIT_H_

#include <string>
#include <vector>

namespace qpexam {

struct JunitCase {
  std::string suite, name;
  std::string failure;  // empty: it passed
  std::string skipped;  // the reason; empty: it ran
};

// One <testsuite> a provider.
struct JunitSuite {
  std::string provider;
  std::vector<JunitCase> cases;
};
std::string PrintJunit(const std::vector<JunitSuite>& suites);

// Text as XML: the five entities, and what XML 1.0 cannot carry as U+FFFD.
std::string XmlText(const std::string& text);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_REPORT_JUNIT_H_
