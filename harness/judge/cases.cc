#include "harness/judge/cases.h"

#include <gtest/gtest.h>

#include "harness/judge/script.h"

namespace qpexam::judge {
namespace {

constexpr char kAccess[] =
    "access=LOCAL_WRITE|REMOTE_WRITE|REMOTE_READ|REMOTE_ATOMIC|MW_BIND|FLUSH_GLOBAL";

struct Setup {
  const char* word;
  std::string text;
};

const std::vector<Setup>& Setups() {
  static const auto* all = new std::vector<Setup>{
      // a pair with memory on either side
      {"@rc",
       "qp a rc ops=0x1bff\nqp b rc ops=0x1bff\n"
       "connect a b access=REMOTE_WRITE|REMOTE_READ|REMOTE_ATOMIC|FLUSH_GLOBAL\n@mem\n"},
      // the same, with endless RNR retries, so that a request can be kept waiting
      {"@slow", "qp a rc ops=0x1bff sq=4\nqp b rc ops=0x1bff\nconnect a b rnr_retry=7\n@mem\n"},
      {"@uc", "qp a uc ops=0x20f\nqp b uc ops=0x20f\nconnect a b\n@mem\n"},
      {"@ud",
       "qp a ud ops=SEND|SEND_WITH_IMM\nqp b ud ops=SEND\nconnect a\nconnect b\nah h\n@mem\n"},
      {"@mem",
       std::string("mr src len=256 fill=0x5a ") + kAccess + "\nmr dst len=256 " + kAccess + "\n"},
      {"@xrc",
       "xrcd x\ncq cs n=32\nsrq s xrcd=x cq=cs n=16\nqp a xrc_send ops=0x183f\n"
       "qp b xrc_recv xrcd=x\nconnect a b\n@mem\n"},
  };
  return *all;
}

std::string Print(const Verdict& verdict, const Program& program) {
  return Explain(verdict, program);
}

bool Found(const Verdict& verdict, const std::string& clause) {
  for (const Finding& f : verdict.findings) {
    if (f.clause == clause &&
        (f.kind == FindingKind::kViolation || f.kind == FindingKind::kWarning)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string Expand(const std::string& script) {
  std::string text = script;
  for (bool again = true; again;) {
    again = false;
    for (const Setup& s : Setups()) {
      const std::string word = std::string(s.word) + "\n";
      const size_t at = text.find(word);
      if (at == std::string::npos) continue;
      text.replace(at, word.size(), s.text);
      again = true;
    }
  }
  return text;
}

void Check(const Case& c) {
  SCOPED_TRACE(c.name);
  JudgeOptions options;
  options.provider = c.provider;
  Judge judge(options);
  const std::string script = Expand(c.script);
  const Script good = ReadScript(script);
  ASSERT_EQ(good.error, "");
  const Verdict& verdict = judge(good.program, good.trace);
  EXPECT_TRUE(verdict.findings.empty()) << "the conforming trace is accused:\n"
                                        << Print(verdict, good.program) << script;
  for (const Break& b : c.breaks) {
    SCOPED_TRACE("broken: " + b.to);
    const size_t at = script.find(b.from);
    ASSERT_NE(at, std::string::npos) << b.from << " is not in the script";
    std::string text = script;
    text.replace(at, b.from.size(), b.to);
    const Script bad = ReadScript(text);
    ASSERT_EQ(bad.error, "");
    const Verdict& found = judge(bad.program, bad.trace);
    if (b.clause.empty()) {
      EXPECT_TRUE(found.findings.empty()) << "a permitted variation is accused:\n"
                                          << Print(found, bad.program) << text;
    } else {
      EXPECT_TRUE(Found(found, b.clause)) << b.clause << " was not found:\n"
                                          << Print(found, bad.program) << text;
    }
  }
}

void CheckAll(const std::vector<Case>& cases) {
  for (const Case& c : cases) Check(c);
}

}  // namespace qpexam::judge
