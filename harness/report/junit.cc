#include "harness/report/junit.h"

#include <fmt/format.h>

#include <algorithm>

namespace qpexam {

std::string XmlText(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
          out += "\xef\xbf\xbd";
        else
          out += c;
    }
  }
  return out;
}

std::string PrintJunit(const std::vector<JunitSuite>& suites) {
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const JunitSuite& suite : suites) {
    const auto failures = std::count_if(suite.cases.begin(), suite.cases.end(),
                                        [](const JunitCase& c) { return !c.failure.empty(); });
    const auto skipped = std::count_if(suite.cases.begin(), suite.cases.end(),
                                       [](const JunitCase& c) { return !c.skipped.empty(); });
    out += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
                       XmlText(suite.provider), suite.cases.size(), failures, skipped);
    for (const JunitCase& c : suite.cases) {
      out += fmt::format("    <testcase classname=\"{}.{}\" name=\"{}\"", XmlText(suite.provider),
                         XmlText(c.suite), XmlText(c.name));
      if (!c.failure.empty()) {
        out += fmt::format(">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                           XmlText(c.failure.substr(0, c.failure.find('\n'))), XmlText(c.failure));
      } else if (!c.skipped.empty()) {
        out += fmt::format(">\n      <skipped message=\"{}\"/>\n    </testcase>\n",
                           XmlText(c.skipped));
      } else {
        out += "/>\n";
      }
    }
    out += "  </testsuite>\n";
  }
  return out + "</testsuites>\n";
}

}  // namespace qpexam
