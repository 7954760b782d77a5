// The catalogue of clauses: what ibv_qp_ex promises, as data.
//
// One file per group under clauses/ (tab-separated, one clause a line) is the single source for the
// conformance suites, the judge's messages, the reports and `qpexam clauses`. It is compiled in, so
// a binary that is copied to a test host carries it. docs/spec/reading.md explains the columns.

#ifndef QPEXAM_CONFORMANCE_CATALOGUE_CATALOGUE_H_
#define QPEXAM_CONFORMANCE_CATALOGUE_CATALOGUE_H_

#include <cstddef>
#include <string_view>

namespace qpexam::catalogue {

// What a breach means: violation, warning, nothing (one of several outcomes), or the caller's
// error.
enum class Level { kMust, kShould, kMay, kUndefined };

// How firmly a clause stands: a manual page or the header (high), the InfiniBand Architecture
// Specification (medium), unsure (low).
enum class Confidence { kHigh, kMedium, kLow };

// Who decides whether a clause holds: the provider's code in user space, its kernel driver, or the
// device. A hosted run can only speak about kLib.
enum class Layer { kLib, kKernel, kDevice };

struct Clause {
  std::string_view id;     // "WR-ATOM-002"
  std::string_view group;  // "ATOM"
  Level level;
  Confidence confidence;
  Layer layer;
  // A device or kernel that gets it wrong may crash or corrupt memory: runs on a live kernel only
  // in a disposable guest or when the user insists.
  bool dangerous;
  std::string_view statement;
  std::string_view source;
  std::string_view how_to_test;
  // Why no test exists; empty for every clause that has one.
  std::string_view untested;
  // Why no rule of the model carries it, why the reference has no fault that breaks it
  // (exempt.tsv); empty for every clause that has one, and the latter for those that are no MUST.
  std::string_view no_rule, no_fault;
};

struct Group {
  std::string_view name;
  std::string_view title;
  // Numbers stated in the specification; a test compares them with the clauses.
  int clauses, must, should, may, undefined;
};

// A contiguous constant sequence.
template <typename T>
class View {
 public:
  constexpr View(const T* data, std::size_t size) : data_(data), size_(size) {}
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr std::size_t size() const { return size_; }
  constexpr const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  const T* data_;
  std::size_t size_;
};

// All clauses, in the catalogue's order (groups in the order of Groups(), then by number).
View<Clause> All();
View<Group> Groups();

// The clauses of one group, empty for an unknown name. Case matters: "ATOM".
View<Clause> InGroup(std::string_view group);

// The clause with this id ("WR-ATOM-002", or short "ATOM-002"), nullptr when there is none.
const Clause* Find(std::string_view id);

std::string_view Name(Level);       // "MUST", "SHOULD", "MAY", "UNDEFINED"
std::string_view Name(Confidence);  // "H", "M", "L"
std::string_view Name(Layer);       // "lib", "kernel", "device"

}  // namespace qpexam::catalogue

#endif  // QPEXAM_CONFORMANCE_CATALOGUE_CATALOGUE_H_
