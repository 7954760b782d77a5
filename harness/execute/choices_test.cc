// docs/reference.md says which choice points the reference never asks a chooser for. Here the
// corpus runs with choosers that note what they are asked: every point is asked for, or listed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "harness/devices/provider_family.h"
#include "harness/execute/executor.h"
#include "harness/program/lint.h"
#include "harness/program/parse.h"
#include "reference/model/choice.h"
#include "reference/model/fabric.h"
#include "reference/provider/control.h"

namespace qpexam {
namespace {

using model::ChoicePoint;

// Takes one outcome after the other, from where it is told to start: what only another outcome
// leads to is asked for as well.
class Recorder : public model::Chooser {
 public:
  unsigned Pick(ChoicePoint point, unsigned count) override {
    asked_.insert(point);
    return always_first_ ? 0 : next_++ % count;
  }
  void AlwaysFirst() { always_first_ = true; }
  void StartAt(unsigned next) {
    always_first_ = false;
    next_ = next;
  }
  const std::set<ChoicePoint>& asked() const { return asked_; }

 private:
  std::set<ChoicePoint> asked_;
  bool always_first_ = true;
  unsigned next_ = 0;
};

std::set<std::string> NeverAskedBy(const std::string& document) {
  std::ifstream file(document, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t begin = text.find("## Which reorderings the reference shows");
  const size_t end = text.find("\n## ", begin + 1);
  EXPECT_NE(begin, std::string::npos);
  std::string part = text.substr(begin, end - begin);
  // Behind the sentence about those that are asked for.
  part = part.substr(part.find("known to the judge"));
  std::set<std::string> names;
  const std::regex name("`([a-z0-9-]+)`");
  for (std::sregex_iterator it(part.begin(), part.end(), name); it != std::sregex_iterator(); ++it)
    names.insert((*it)[1]);
  return names;
}

// What no Program of the corpus meets.
const char* const kBesides[] = {
    // A READ to a responder that takes none.
    R"(qp a rc ops=RDMA_READ
qp b rc
modify a state=INIT
modify b state=INIT
modify a state=RTR peer=b
modify b state=RTR max_dest_rd_atomic=0 peer=a
modify a state=RTS
modify b state=RTS
mr m len=64 access=LOCAL_WRITE|REMOTE_READ
start a
rdma_read a flags=SIGNALED addr=m+0
set_sge a addr=m+8 len=8
complete a
settle
)",
    // No receive, and a key that nobody has.
    R"(qp a rc ops=RDMA_WRITE_WITH_IMM
qp b rc
connect a b
mr m len=64 access=LOCAL_WRITE
start a
rdma_write_imm a flags=SIGNALED rkey=0xdeadbeef addr=0x1
set_sge a addr=m+8 len=8
complete a
settle
)",
    // No bytes, and a key that nobody has.
    R"(qp a uc ops=RDMA_WRITE
qp b uc
connect a b
mr m len=64 access=LOCAL_WRITE
start a
rdma_write a flags=SIGNALED rkey=0xdeadbeef addr=0x1
set_sge a addr=m+8 len=0
complete a
settle
)"};

TEST(Choices, ThoseThatAreNeverAskedForAreListed) {
  ProviderInfo info;
  std::string why;
  ASSERT_TRUE(FindProvider("reference", &info, &why)) << why;
  std::unique_ptr<DeviceSession> session = OpenProvider(info, &why);
  ASSERT_TRUE(session) << why;
  Recorder recorder;
  {
    Executor executor(session.get());
    const auto run = [&](const ParseResult& parsed) {
      ASSERT_TRUE(parsed.ok) << parsed.error.Message();
      RunOptions options;
      if (const auto undefined = FirstUndefined(parsed.program)) options.cut_at = undefined->cut_at;
      for (unsigned start = 0; start < 4; start++) {
        if (start == 0)
          recorder.AlwaysFirst();
        else
          recorder.StartAt(start);
        Trace trace;
        session->BeginProgram(parsed.program.seed);
        provider::Fabric().SetChooser(&recorder);
        executor.Run(parsed.program, options, &trace);
        provider::Fabric().SetChooser(nullptr);
      }
    };
    for (const char* folder : {"corpus/seeds", "corpus/regressions"}) {
      std::vector<std::string> paths;
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".qpx") paths.push_back(entry.path());
      std::sort(paths.begin(), paths.end());
      for (const std::string& path : paths) run(LoadProgram(path));
    }
    for (const char* text : kBesides) run(ParseProgram(text, "besides"));
  }
  const std::set<std::string> listed = NeverAskedBy("docs/reference.md");
  for (const model::ChoiceInfo& choice : model::AllChoices()) {
    const std::string name(choice.name);
    const bool asked = recorder.asked().count(choice.point) > 0;
    EXPECT_NE(asked, listed.count(name) > 0)
        << name << (asked ? " is asked for, and listed" : " is neither asked for nor listed");
  }
  for (const std::string& name : listed) {
    EXPECT_TRUE(std::any_of(model::AllChoices().begin(), model::AllChoices().end(),
                            [&](const model::ChoiceInfo& c) { return c.name == name; }))
        << name << " is no choice point";
  }
}

}  // namespace
}  // namespace qpexam
