#include "harness/report/html.h"

#include <nlohmann/json.hpp>

namespace qpexam {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char kPage[] =
#include "harness/report/page.inc"
    ;
constexpr const char kScript[] =
#include "harness/report/page_script.inc"
    ;

}  // namespace

std::string PrintHtml(const Report& report, const std::vector<PageClause>& clauses,
                      const std::vector<PageTest>& tests) {
  return PrintHtml(ReportToJson(report), clauses, tests, "", false);
}

std::string PrintHtml(const std::string& report_json, const std::vector<PageClause>& clauses,
                      const std::vector<PageTest>& tests, const std::string& title,
                      bool differences) {
  Json data;
  data["report"] = Json::parse(report_json);
  data["title"] = title;
  data["differences"] = differences;
  Json& list = data["clauses"] = Json::array();
  for (const PageClause& c : clauses)
    list.push_back({{"id", c.id},
                    {"group", c.group},
                    {"level", c.level},
                    {"confidence", c.confidence},
                    {"layer", c.layer},
                    {"statement", c.statement},
                    {"source", c.source}});
  Json& ran = data["tests"] = Json::array();
  for (const PageTest& t : tests)
    ran.push_back({{"provider", t.provider},
                   {"name", t.name},
                   {"outcome", t.outcome},
                   {"clauses", t.clauses},
                   {"note", t.note}});
  // Bytes that are no UTF-8 (a provider's message) become U+FFFD; "</" must not end the element.
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3)
    text.replace(at, 2, "<\\/");
  return kPage + text + kScript;
}

}  // namespace qpexam
