#include "gtest/gtest.h"
#include "harness/report/html.h"
#include "harness/report/junit.h"

namespace qpexam {
namespace {

TEST(Junit, CountsAndEscapes) {
  const std::string xml = PrintJunit({{"hosted:rxe",
                                       {{"Sge", "Gather", "violation: 1 < 2 & \"x\"\nmore", ""},
                                        {"Sge", "Scatter", "", "no READ"},
                                        {"Sge", "Fine", "", ""}}}});
  EXPECT_NE(xml.find("tests=\"3\" failures=\"1\" skipped=\"1\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("message=\"violation: 1 &lt; 2 &amp; &quot;x&quot;\">"), std::string::npos)
      << xml;
  EXPECT_NE(xml.find("<skipped message=\"no READ\"/>"), std::string::npos);
  EXPECT_NE(xml.find("name=\"Fine\"/>"), std::string::npos);
}

TEST(Junit, ControlBytesAreReplaced) {
  EXPECT_EQ(XmlText(std::string("a\x01"
                                "b\n",
                                4)),
            "a\xef\xbf\xbd"
            "b\n");
}

TEST(Html, DataCannotEndItsElement) {
  Report report;
  report.command = "conform";
  report.providers.emplace_back();
  report.providers.back().name = "reference";
  const std::string page =
      PrintHtml(report, {{"WR-A-1", "A", "MUST", "H", "lib", "a </script> in a statement", "M"}},
                {{"reference", "A.B", "fail", {"WR-A-1"}, "</script>"}});
  // The page's own two scripts end; nothing else does.
  size_t ends = 0;
  for (size_t at = 0; (at = page.find("</script>", at)) != std::string::npos; ++at) ++ends;
  EXPECT_EQ(ends, 2u);
  EXPECT_NE(page.find("a <\\/script> in a statement"), std::string::npos);
}

TEST(Html, BytesThatAreNoTextAreReplaced) {
  Report report;
  report.command = "conform";
  EXPECT_NE(PrintHtml(report, {}, {{"p", "t", "fail", {}, "\xff\xfe"}}).find("\xef\xbf\xbd"),
            std::string::npos);
}

}  // namespace
}  // namespace qpexam
