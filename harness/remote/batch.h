// A batch of Programs on its way to a machine that has the device, and the Traces on their way
// back.
//
//   qpexam-batch 1             qpexam-traces 1
//   program 0 412              device rxe0 44.0
//   <412 bytes of text>        begin 0
//   ...                        finding 0 57               (bytes: kind, clause, what, evidence)
//                              <57 bytes of text, a line each>
//                              trace 0 911 83000          (bytes, nanoseconds)
//   end                        <911 bytes of text>
//                              ...
//                              end
//
// The numbers are the sender's. Several Programs may run beside each other, and end in any order.
// `begin` stands alone when the machine dies in that Program; a stream that breaks off anywhere is
// read as far as it goes.
#ifndef QPEXAM_HARNESS_REMOTE_BATCH_H_
#define QPEXAM_HARNESS_REMOTE_BATCH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/execute/session.h"
#include "harness/program/program.h"

namespace qpexam::remote {

struct BatchProgram {
  uint64_t index = 0;
  std::string text;
};

// Those of `programs` whose places are in `which`.
std::string PrintBatch(const std::vector<Program>& programs, const std::vector<size_t>& which);
// False with *why: what is wrong, at which byte.
bool ParseBatch(std::string_view bytes, std::vector<BatchProgram>* programs, std::string* why);

std::string PrintHead(std::string_view device, std::string_view version);
std::string PrintBegin(uint64_t index);
// What was found below libibverbs, before the trace of the same Program.
std::string PrintFinding(uint64_t index, const SessionFinding& finding);
std::string PrintItem(uint64_t index, std::string_view trace, uint64_t nanoseconds);
std::string PrintEnd();

struct Item {
  enum Kind : uint8_t { kDevice, kBegin, kFinding, kTrace, kEnd } kind = kEnd;
  uint64_t index = 0, nanoseconds = 0;
  std::string text;  // kDevice: "rxe0 44.0"; kTrace: the trace's text form
  SessionFinding finding;
};

// Reads the stream as it comes.
class TraceStream {
 public:
  // Appends what `bytes` completes. False once the stream is no such stream; it then stays so.
  bool Feed(std::string_view bytes, std::vector<Item>* items);

 private:
  enum class Parsed : uint8_t { kItem, kNotYet, kBad };
  Parsed Next(Item* item);

  std::string rest_;
  bool headed_ = false, bad_ = false;
};

}  // namespace qpexam::remote

#endif  // QPEXAM_HARNESS_REMOTE_BATCH_H_
