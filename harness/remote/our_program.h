// Programs and libraries of ours that were built or installed beside this one.
#ifndef QPEXAM_HARNESS_REMOTE_OUR_PROGRAM_H_
#define QPEXAM_HARNESS_REMOTE_OUR_PROGRAM_H_

#include <string>

namespace qpexam::remote {

// By its path in the tree ("harness/remote/executor_sys"), or by the name that an installation
// gives it; the whole path, or empty where it was not built.
std::string FindOurProgram(const std::string& in_tree, const std::string& installed);

std::string ExecutorProgram();
std::string SuitesProgram();

}  // namespace qpexam::remote

#endif  // QPEXAM_HARNESS_REMOTE_OUR_PROGRAM_H_
