// The `qpexam` command.
#include <rdma_core_version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>

#include "harness/command/commands.h"
#include "harness/command/console.h"
#include "harness/report/report.h"

namespace qpexam {
namespace {

constexpr const char* kAbout = "qpexam: does this provider's ibv_qp_ex do what the API promises?";

constexpr const char* kExitStatuses =
    "Exit status: 0 fine, 1 findings, 2 wrong usage or unreadable input, 3 a provider could not "
    "be\nopened, 4 set-up incomplete, 5 our own failure; the highest that applies.";

// The arguments of all commands; CLI11 fills them.
struct Arguments {
  CheckArguments check;
  RunArguments run;
  JudgeArguments judge;
  ProvidersArguments providers;
  FmtArguments fmt;
  VariationsArguments variations;
  ClausesArguments clauses;
  DiffArguments diff;
  MinimizeArguments minimize;
  EmitArguments emit;
  FuzzArguments fuzz;
  std::string until;
  BenchArguments bench;
  ExecArguments exec;
  ConformArguments conform;
  ReportArguments report;
  std::string help_command;
};

CLI::App* Command(CLI::App* app, const char* name, const char* about, const char* examples) {
  CLI::App* command = app->add_subcommand(name, about);
  command->footer(std::string("Examples:\n") + examples + "\n" + kExitStatuses);
  return command;
}

void AddJson(CLI::App* command, std::string* json) {
  command->add_option("--json", *json, "write the report (qpexam-report/1) to FILE")
      ->type_name("FILE");
}

void Define(CLI::App* app, Arguments* a) {
  app->require_subcommand(1);
  app->footer(
      std::string("qpexam help COMMAND shows a command's options and examples. In the tree, "
                  "`./qpexam test`\nruns qpexam's own tests.\n") +
      kExitStatuses);
  app->set_version_flag("--version", "qpexam " + std::string(kToolVersion) + " with rdma-core " +
                                         RDMA_CORE_VERSION + " (" + RDMA_CORE_FROM + ")");

  CLI::App* check = Command(app, "check", "run and judge the whole corpus; no device is opened",
                            "  qpexam check\n  qpexam check --with=device:mlx5_0 "
                            "--json=report.json\n  qpexam check --provider=reference "
                            "--filter=atomic\n");
  check
      ->add_option("--provider", a->check.providers,
                   "only these (default: all that need no hardware)")
      ->type_name("P[,P...]")
      ->delimiter(',');
  check->add_option("--with", a->check.with, "these as well, such as device:mlx5_0")
      ->type_name("P[,P...]")
      ->delimiter(',');
  check->add_option("--corpus", a->check.corpus, "a folder of .qpx files instead of the tree's")
      ->type_name("DIR");
  check->add_option("--filter", a->check.filter, "only programs with TEXT in their path")
      ->type_name("TEXT");
  check->add_flag("--strict", a->check.strict,
                  "known deviations (corpus/expectations.tsv) count like any finding");
  check->add_option("--expectations", a->check.expectations, "another file of what is known")
      ->type_name("FILE");
  AddJson(check, &a->check.json);

  CLI::App* run = Command(app, "run", "run programs on a provider and judge what they did",
                          "  qpexam run corpus/seeds/01-manual-example.qpx\n  qpexam run prog.qpx "
                          "--provider=faulty:NAME --trace=-\n  qpexam run dir/ --json=report.json "
                          "--quiet\n");
  run->add_option("file", a->run.files, "programs, or folders of them; - is standard input")
      ->type_name("FILE")
      ->required();
  run->add_option("--provider", a->run.provider, "where to run (default: reference)")
      ->type_name("NAME");
  run->add_option("--trace", a->run.trace, "write what was observed to FILE; - is the terminal")
      ->type_name("FILE");
  run->add_option("--trace-json", a->run.trace_json, "the same as JSON")->type_name("FILE");
  run->add_flag("--quiet", a->run.quiet, "print findings only");
  AddJson(run, &a->run.json);

  CLI::App* judge = Command(app, "judge", "judge a trace that was recorded, here or elsewhere",
                            "  qpexam run prog.qpx --trace=t && qpexam judge t\n");
  judge->add_option("trace", a->judge.trace, "a trace, text or JSON; - is standard input")
      ->type_name("TRACE")
      ->required();
  AddJson(judge, &a->judge.json);

  CLI::App* providers = Command(app, "providers", "what can run here, and why the rest cannot",
                                "  qpexam providers\n  qpexam providers --all\n");
  providers->add_flag("--all", a->providers.all, "each fault by name");
  providers->add_option("--json", a->providers.json, "write the list to FILE")->type_name("FILE");

  CLI::App* fmt = Command(app, "fmt", "print programs in their one form",
                          "  qpexam fmt prog.qpx\n  qpexam fmt --write corpus/seeds/*.qpx\n  "
                          "qpexam fmt --check prog.qpx\n");
  fmt->add_option("file", a->fmt.files, "programs; - is standard input")
      ->type_name("FILE")
      ->required();
  CLI::Option* fmt_check =
      fmt->add_flag("--check", a->fmt.check, "only say which are not in it (status 1)");
  CLI::Option* fmt_write =
      fmt->add_flag("--write", a->fmt.write, "rewrite the files")->excludes(fmt_check);
  fmt->add_flag("--bytes", a->fmt.bytes, "the files are a fuzzer's inputs: print them as programs")
      ->excludes(fmt_check)
      ->excludes(fmt_write);

  CLI::App* variations =
      Command(app, "variations", "where the specification allows several behaviours",
              "  qpexam variations\n  qpexam variations granted-more\n");
  variations->add_option("which", a->variations.which, "a variation by its name, or a clause")
      ->type_name("NAME|ID");

  CLI::App* clauses = Command(app, "clauses", "the clauses of the specification",
                              "  qpexam clauses\n  qpexam clauses ATOM\n  qpexam clauses "
                              "WR-ATOM-002\n  qpexam clauses --untested\n  qpexam clauses "
                              "--json=clauses.json\n");
  clauses->add_option("which", a->clauses.which, "a clause's id or a group's name")
      ->type_name("ID|GROUP");
  clauses->add_flag("--untested", a->clauses.untested,
                    "only those without a test, with the reason");
  clauses->add_option("--json", a->clauses.json, "write the clauses to FILE")->type_name("FILE");

  CLI::App* diff =
      Command(app, "diff", "the same programs on two providers, by what they differ in",
              "  qpexam diff reference faulty:NAME\n  qpexam diff reference "
              "device:mlx5_0 prog.qpx\n");
  diff->add_option("a", a->diff.a, "one provider")->type_name("A")->required();
  diff->add_option("b", a->diff.b, "the other")->type_name("B")->required();
  diff->add_option("file", a->diff.files, "programs (default: the corpus)")->type_name("FILE");
  AddJson(diff, &a->diff.json);

  CLI::App* minimize =
      Command(app, "minimize", "the shortest program that still shows the same finding",
              "  qpexam minimize found.qpx --provider=faulty:wr-id-truncated --output=short.qpx\n");
  minimize->add_option("file", a->minimize.file, "a program that shows a finding")
      ->type_name("FILE")
      ->required();
  minimize->add_option("--provider", a->minimize.provider, "on which (default: reference)")
      ->type_name("NAME");
  minimize->add_option("--output", a->minimize.output, "write it to FILE")->type_name("FILE");
  minimize->add_option("--tries", a->minimize.tries, "runs at most (default: 5000)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));

  CLI::App* emit =
      Command(app, "emit-c", "a program as one C file that needs only libibverbs",
              "  qpexam emit-c found.qpx --output=repro.c\n  cc -Wall -o repro repro.c "
              "-libverbs && ./repro mlx5_0\n");
  emit->add_option("file", a->emit.file, "a program; - is standard input")
      ->type_name("FILE")
      ->required();
  emit->add_option("--output", a->emit.output, "write it to FILE")->type_name("FILE");

  CLI::App* fuzz = Command(
      app, "fuzz", "search for findings with programs that nobody wrote",
      "  qpexam fuzz --provider=hosted:rxe --seconds=600 --jobs=2\n  qpexam fuzz "
      "--provider=hosted:mlx5 --until=finding\n  qpexam fuzz --provider=hosted:mlx5 "
      "--engine=libfuzzer --seconds=3600\n  qpexam fuzz --runs=100000 --seed=7 --output=/tmp/f\n\n"
      "Each finding is made short and kept in findings/ID/: program.qpx, explanation.txt, "
      "trace.txt,\nrepro.c. A later run with the same --output and --seed goes on where the last "
      "one "
      "ended.\n"
      "The engines libfuzzer (clang 14) and afl (AFL++) are built at first use, with "
      "AddressSanitizer, and keep\ntheir inputs in findings/.ENGINE-PROVIDER/.\n");
  fuzz->add_option("--provider", a->fuzz.provider, "on which (default: reference)")
      ->type_name("NAME");
  fuzz->add_option("--seconds", a->fuzz.seconds, "how long (default: 60; 0: until interrupted)")
      ->type_name("N")
      ->check(CLI::Range(0.0, 1e9));
  fuzz->add_option("--runs", a->fuzz.runs, "programs at most")->type_name("N");
  fuzz->add_option("--jobs", a->fuzz.jobs, "processes at once (default: 1)")
      ->type_name("J")
      ->check(CLI::Range(1, 1024));
  fuzz->add_option("--engine", a->fuzz.engine,
                   "builtin (default), or one guided by coverage: libfuzzer, afl")
      ->check(CLI::IsMember({"builtin", "libfuzzer", "afl"}));
  fuzz->add_option("--until", a->until, "finding: stop at the first")
      ->check(CLI::IsMember({"finding"}));
  fuzz->add_flag("--no-known", a->fuzz.no_known,
                 "tell recorded deviations too, instead of stepping over them");
  fuzz->add_option("--seed", a->fuzz.seed, "of the programs (default: 1)")->type_name("N");
  fuzz->add_option("--output", a->fuzz.output, "where findings go (default: findings)")
      ->type_name("DIR");
  fuzz->add_option("--corpus", a->fuzz.corpus, "start from these instead of the tree's seeds")
      ->type_name("DIR");
  fuzz->add_option("--import", a->fuzz.imports,
                   "run nothing new: these inputs that an engine found")
      ->type_name("FILE");

  CLI::App* exec = Command(
      app, "exec", "run any verbs program over an installed provider and an emulated device",
      "  qpexam exec --provider=packaged:rxe -- ibv_devinfo -v\n  qpexam exec "
      "--provider=packaged:mlx5 -- python3 -m unittest tests.test_qpex\n\n"
      "The program finds one device (rxe0, mlx5_0, efa_0, hns_0) on this machine's own "
      "libibverbs.so.1; two QPs\nof its process can talk, not those of two processes. What is "
      "found where library and device meet is told\nwhen it ends. Its own exit status is "
      "returned (128 and the signal's number for one that was killed);\nwhere that is 0 and "
      "something was found, 1.\n");
  exec->add_option("--provider", a->exec.provider, "packaged:rxe, mlx5, efa or hns")
      ->type_name("NAME")
      ->required();
  exec->add_option("command", a->exec.command, "the program and its arguments, behind --")
      ->type_name("COMMAND ARGS")
      ->required();

  CLI::App* bench = Command(app, "bench", "how fast it all is on this machine",
                            "  qpexam bench\n  qpexam bench --seconds=2 --json=bench.json\n  "
                            "qpexam bench --sanitizers\n  "
                            "QPEXAM_BUILD=asan qpexam bench --provider=hosted:rxe\n");
  bench->add_option("--provider", a->bench.providers, "which (default: those of check)")
      ->type_name("P[,P...]")
      ->delimiter(',');
  bench->add_flag("--sanitizers", a->bench.sanitizers,
                  "and the builds with sanitizers, and the fuzz targets");
  bench->add_option("--seconds", a->bench.seconds, "of each figure (default: 0.5)")
      ->type_name("N")
      ->check(CLI::Range(0.001, 3600.0));
  AddJson(bench, &a->bench.json);

  CLI::App* conform = Command(
      app, "conform", "the conformance suites, clause by clause",
      "  qpexam conform\n  qpexam conform --provider=reference,hosted:rxe --html=out\n  qpexam "
      "conform --group=ATOM --level=must\n  qpexam conform --faults --json=faults.json\n");
  conform->add_option("--provider", a->conform.providers, "which (default: reference)")
      ->type_name("P[,P...]")
      ->delimiter(',');
  conform
      ->add_option("--filter", a->conform.filter, "tests by name, as GoogleTest's --gtest_filter")
      ->type_name("PATTERN");
  conform->add_option("--group", a->conform.groups, "only clauses of these groups")
      ->type_name("GROUP")
      ->delimiter(',');
  conform->add_option("--level", a->conform.levels, "only must, should, may or undefined clauses")
      ->type_name("LEVEL")
      ->delimiter(',');
  conform
      ->add_option("--effort", a->conform.effort,
                   "full repeats as the catalogue says, normal a hundredth of it")
      ->check(CLI::IsMember({"normal", "full"}));
  conform->add_flag("--strict", a->conform.strict, "a warning is a violation");
  conform->add_flag("--unsafe", a->conform.unsafe,
                    "dangerous clauses on a live kernel as well (legal programs only)");
  conform->add_flag("--faults", a->conform.faults,
                    "do the suites catch the known mistakes of the reference?");
  conform->add_flag(
      "--breadth", a->conform.breadth,
      "with --faults: run every test that reaches a fault; which clauses does it break?");
  conform->add_option("--fault", a->conform.fault_names, "with --faults: only these")
      ->type_name("NAME")
      ->delimiter(',');
  conform
      ->add_option("--expectations", a->conform.expectations,
                   "what is known of providers, instead of the tree's file")
      ->type_name("FILE");
  AddJson(conform, &a->conform.json);
  conform->add_option("--junit", a->conform.junit, "write JUnit's XML to FILE")->type_name("FILE");
  conform->add_option("--html", a->conform.html, "write a page to DIR/index.html")
      ->type_name("DIR");

  CLI::App* report = Command(app, "report", "a report summed up, or what two differ in",
                             "  qpexam report report.json\n  qpexam report before.json "
                             "after.json --html=out\n");
  report->add_option("a", a->report.a, "a report (qpexam-report/1)")->type_name("A")->required();
  report->add_option("b", a->report.b, "another; without it A is summed up")->type_name("B");
  AddJson(report, &a->report.json);
  report->add_option("--html", a->report.html, "write a page to DIR/index.html")->type_name("DIR");

  CLI::App* help = app->add_subcommand("help", "this, or the help of a command");
  help->add_option("command", a->help_command, "a command")->type_name("COMMAND");
}

ExitStatus Help(const CLI::App& app, const std::string& name) {
  if (name.empty()) {
    Print(app.help());
    return kFine;
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name() != name) continue;
    Print(command->help());
    return kFine;
  }
  if (name == "test") {
    Print(
        "./qpexam test [TARGET...] [--config=asan|tsan]\n\n"
        "Runs qpexam's own tests (`bazel test`; default: all of them, at -O2). A command of the "
        "tree's\nlauncher: an installed qpexam has none.\n\nExamples:\n  ./qpexam test\n  ./qpexam "
        "test //reference/... --config=asan\n");
    return kFine;
  }
  Say("there is no command \"" + name + "\"; `qpexam help` lists them");
  return kUsage;
}

int Dispatch(const CLI::App& app, const Arguments& a) {
  const std::string name = app.get_subcommands().front()->get_name();
  if (name == "check") return Check(a.check);
  if (name == "run") return RunFiles(a.run);
  if (name == "judge") return JudgeTrace(a.judge);
  if (name == "providers") return ListProviders(a.providers);
  if (name == "fmt") return Fmt(a.fmt);
  if (name == "variations") return ListVariations(a.variations);
  if (name == "clauses") return ListClauses(a.clauses);
  if (name == "diff") return Diff(a.diff);
  if (name == "minimize") return MinimizeFile(a.minimize);
  if (name == "emit-c") return EmitCFile(a.emit);
  if (name == "fuzz") {
    FuzzArguments fuzz = a.fuzz;
    fuzz.until_finding = !a.until.empty();
    return Fuzz(fuzz);
  }
  if (name == "exec") return Exec(a.exec);
  if (name == "bench") return Bench(a.bench);
  if (name == "conform") return Conform(a.conform);
  if (name == "report") return CompareReports(a.report);
  return Help(app, a.help_command);
}

int Main(int argc, char** argv) {
  // A reader that goes away (`qpexam clauses | head`) is told by write(), not by a signal.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app(kAbout, "qpexam");
  Arguments arguments;
  Define(&app, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app.exit(help, std::cout, std::cerr);
    return kFine;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return kFine;
  } catch (const CLI::ParseError& error) {
    if (argc < 2) {
      std::cerr << app.help();
      return kUsage;
    }
    Say(std::string(error.what()));
    Say(argc > 1 && argv[1][0] != '-'
            ? "`qpexam help " + std::string(argv[1]) + "` shows what it takes"
            : "`qpexam help` lists the commands");
    return kUsage;
  }
  const int status = Dispatch(app, arguments);
  return std::max<int>(status, FinishOutput());
}

}  // namespace
}  // namespace qpexam

int main(int argc, char** argv) {
  try {
    return qpexam::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("qpexam: out of memory; give it more, or smaller programs\n", stderr);
    return qpexam::kSetupIncomplete;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "qpexam: %s; this is a fault of qpexam, please report it\n", error.what());
    return qpexam::kOurFailure;
  }
}
