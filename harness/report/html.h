// A conformance report as one self-contained page that opens offline.
#ifndef QPEXAM_HARNESS_REPORT_HTML_H_
#define QPEXAM_HARNESS_REPORT_HTML_H_

#include <string>
#include <vector>

#include "harness/report/report.h"

namespace qpexam {

// What the page shows of a clause besides its verdicts.
struct PageClause {
  std::string id, group, level, confidence, layer, statement, source;
};
// One test of one provider.
struct PageTest {
  std::string provider, name, outcome;
  std::vector<std::string> clauses;
  std::string note;  // why it failed or was skipped
};

// The page: the clause x provider matrix with filters, what stands behind each verdict, operation x
// QP type coverage, and the findings. Everything is in the one file.
std::string PrintHtml(const Report& report, const std::vector<PageClause>& clauses,
                      const std::vector<PageTest>& tests);

// The same for reports in their machine form, and for two of them side by side: `title` at the top;
// `differences` shows at first only the clauses on which the columns differ.
std::string PrintHtml(const std::string& report_json, const std::vector<PageClause>& clauses,
                      const std::vector<PageTest>& tests, const std::string& title,
                      bool differences);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_REPORT_HTML_H_
