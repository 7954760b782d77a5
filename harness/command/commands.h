// The commands of `qpexam`, each a function of its arguments. arguments.cc reads the command line.
#ifndef QPEXAM_HARNESS_COMMAND_COMMANDS_H_
#define QPEXAM_HARNESS_COMMAND_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "harness/command/exit_status.h"

namespace qpexam {

struct CheckArguments {
  std::vector<std::string> providers;  // empty: every one that `check` runs unasked
  std::vector<std::string> with;       // added to them
  std::string corpus;                  // empty: the tree's own
  std::string json;
  std::string filter;        // only Programs whose path contains it
  bool strict = false;       // known deviations count like any finding
  std::string expectations;  // empty: the tree's own
};
ExitStatus Check(const CheckArguments& arguments);

struct RunArguments {
  std::vector<std::string> files;
  std::string provider = "reference";
  std::string trace;
  std::string trace_json;
  std::string json;
  bool quiet = false;
};
ExitStatus RunFiles(const RunArguments& arguments);

struct JudgeArguments {
  std::string trace;
  std::string json;
};
ExitStatus JudgeTrace(const JudgeArguments& arguments);

struct ProvidersArguments {
  bool all = false;  // each fault by name
  std::string json;
};
ExitStatus ListProviders(const ProvidersArguments& arguments);

struct FmtArguments {
  std::vector<std::string> files;
  bool check = false;
  bool write = false;
  bool bytes = false;
};
ExitStatus Fmt(const FmtArguments& arguments);

struct VariationsArguments {
  std::vector<std::string> which;  // names of choices, or clauses; empty: all
};
ExitStatus ListVariations(const VariationsArguments& arguments);

struct ClausesArguments {
  std::vector<std::string> which;
  bool untested = false;
  std::string json;
};
ExitStatus ListClauses(const ClausesArguments& arguments);

struct DiffArguments {
  std::string a, b;
  std::vector<std::string> files;  // empty: the corpus
  std::string json;
};
ExitStatus Diff(const DiffArguments& arguments);

struct ConformArguments {
  std::vector<std::string> providers = {"reference"};
  std::string filter;
  std::vector<std::string> groups, levels;
  std::string effort = "normal";
  bool strict = false, unsafe = false;
  bool faults = false, breadth = false;
  std::vector<std::string> fault_names;
  std::string expectations;  // empty: the tree's own
  std::string json, junit, html;
};
ExitStatus Conform(const ConformArguments& arguments);

struct ReportArguments {
  std::string a, b;  // two reports; b empty: a alone is summed up
  std::string json, html;
};
ExitStatus CompareReports(const ReportArguments& arguments);

struct ExecArguments {
  std::string provider;
  std::vector<std::string> command;
};
// The command's own status, where it is not 0: no ExitStatus.
int Exec(const ExecArguments& arguments);

struct MinimizeArguments {
  std::string file;
  std::string provider = "reference";
  std::string output;  // empty: the terminal
  int tries = 5000;
};
ExitStatus MinimizeFile(const MinimizeArguments& arguments);

struct EmitArguments {
  std::string file;
  std::string output;  // empty: the terminal
};
ExitStatus EmitCFile(const EmitArguments& arguments);

struct FuzzArguments {
  std::string provider = "reference";
  std::string engine = "builtin";
  double seconds = 60;  // 0: until interrupted
  uint64_t runs = 0;    // Programs at most, 0: as many as there is time for
  unsigned jobs = 1;
  uint64_t seed = 1;
  bool until_finding = false;
  bool no_known = false;
  std::string output = "findings";
  std::vector<std::string> corpus;   // empty: the tree's own seeds
  std::vector<std::string> imports;  // what another engine found, instead of a run
};
ExitStatus Fuzz(const FuzzArguments& arguments);

struct BenchArguments {
  std::vector<std::string> providers;  // empty: those that `check` runs
  std::string json;
  double seconds = 0.5;  // of each figure
  bool sanitizers = false;
};
ExitStatus Bench(const BenchArguments& arguments);

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_COMMAND_COMMANDS_H_
