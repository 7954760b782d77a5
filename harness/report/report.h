// What a run of many Programs (or tests) found, and its forms: the JSON of ARCHITECTURE.md's
// "machine form" (qpexam-report/1) and the table for people.
#ifndef QPEXAM_HARNESS_REPORT_REPORT_H_
#define QPEXAM_HARNESS_REPORT_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qpexam {

inline constexpr std::string_view kToolVersion = "0.1.0";
inline constexpr std::string_view kReportSchema = "qpexam-report/1";

struct Counts {
  uint64_t programs = 0, tests = 0, conforms = 0, variation = 0, warning = 0, violation = 0,
           emulated = 0, undecided = 0, skipped = 0, crash = 0, hang = 0;
  uint64_t known = 0;  // findings, all of which the expectations name; in none of the others
  Counts& operator+=(const Counts& other);
};

struct ReportFinding {
  std::string id;      // stable: the same finding on the same Program has it in every run
  std::string kind;    // "violation", "warning", "sanitizer", "crash", "hang", "wqe", ...
  std::string clause;  // "WR-...", empty for a crash
  std::string what;    // one line
  std::string where;   // "FILE:LINE", "" where there is no file
  std::string program;
  std::vector<std::string> allowed;
  std::string observed;
  std::string known;  // the reason that the expectations give; empty: not expected
};

struct ClauseVerdict {
  std::string verdict;             // conforms|variation|warning|violation|emulated|...
  std::vector<std::string> tests;  // what showed it: Programs or tests
};

// One line of the table.
struct GroupRow {
  std::string name;
  Counts counts;
  uint64_t nanoseconds = 0;
};

struct ProviderReport {
  std::string name, version;
  std::vector<GroupRow> groups;
  std::map<std::string, ClauseVerdict> clauses;
  std::vector<ReportFinding> findings;
  // Variations that were seen: the choice point's name, the outcome's words, how often.
  std::map<std::pair<std::string, std::string>, uint64_t> variations;
  uint64_t cut = 0;        // Programs that ran only up to a call that may be UNDEFINED
  uint64_t in_part = 0;    // Programs of which calls were not made: an object was refused
  uint64_t undefined = 0;  // UNDEFINED uses that the reference reported, in Programs about them
  std::string not_run;     // why it could not be opened

  Counts Total() const;
  GroupRow& Group(const std::string& name);
  // Notes a verdict on a clause; the worse of two stays.
  void NoteClause(const std::string& clause, const std::string& verdict, const std::string& test);
};

// Whether the suites caught a named fault of the reference.
struct FaultReport {
  std::string name, clause;
  std::vector<std::string> caught_by;  // tests; empty: nothing caught it
  std::vector<std::string> breaks;     // every clause that it breaks, where that was asked
  std::string origin;                  // "fresh-reader"; empty for the library's own
};

struct Report {
  std::string command;  // "check", "run", ...
  std::string rdma_core_version, rdma_core_from;
  uint64_t seed = 1;
  std::string effort = "normal";
  bool interrupted = false;
  std::vector<ProviderReport> providers;
  std::vector<FaultReport> faults;
  std::map<std::string, double> timing;  // of `bench`: figure -> value
};

std::string ReportToJson(const Report& report);

// "violation-WR-ATOM-002-1a2b3c4d": from kind, clause, the Program and the call.
std::string FindingId(std::string_view kind, std::string_view clause, std::string_view program,
                      uint32_t call);

// The table of one provider: a line a group, then the total.
std::string PrintTable(const ProviderReport& provider);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_REPORT_REPORT_H_
