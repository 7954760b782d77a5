// What the commands that write a page share: its folder, and what it says of each clause.
#ifndef QPEXAM_HARNESS_COMMAND_PAGE_H_
#define QPEXAM_HARNESS_COMMAND_PAGE_H_

#include <string>
#include <vector>

#include "harness/command/console.h"
#include "harness/report/html.h"

namespace qpexam {

// Makes `folder` where it is not there and opens its index.html; an empty name is no page. False
// with a message said.
bool OpenPage(const std::string& folder, OutputFile* file);

// Every clause of the catalogue.
std::vector<PageClause> PageClauses();

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_COMMAND_PAGE_H_
