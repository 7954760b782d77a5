#include "harness/remote/verbs_session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/execute/executor.h"
#include "harness/program/parse.h"

namespace qpexam::remote {
namespace {

using std::chrono::milliseconds;

// One write and its completion on a pair, as often as it is worth.
constexpr char kRoundTrips[] = R"(
qp a rc ops=RDMA_WRITE sq=16
qp b rc rq=16
connect a b
mr src len=64 access=LOCAL_WRITE fill=0x5a
mr dst len=64 access=LOCAL_WRITE|REMOTE_WRITE
start a
  rdma_write a wr_id=1 flags=SIGNALED rkey=dst addr=dst+0
  set_sge a lkey=src addr=src+0 len=16
complete a
poll a.send
)";
constexpr int kRuns = 5;

}  // namespace

std::vector<std::string> ListedDevices() {
  std::vector<std::string> names;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (!list) return names;
  for (int i = 0; i < count; i++) names.emplace_back(ibv_get_device_name(list[i]));
  ibv_free_device_list(list);
  return names;
}

ibv_context* OpenListed(const std::string& device) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (!list) return nullptr;
  ibv_context* context = nullptr;
  int error = ENODEV;
  for (int i = 0; i < count && !context; i++) {
    if (device != ibv_get_device_name(list[i])) continue;
    errno = 0;
    context = ibv_open_device(list[i]);
    error = errno ? errno : ENODEV;
  }
  ibv_free_device_list(list);
  if (!context) errno = error;
  return context;
}

std::string FirmwareOf(ibv_context* context) {
  ibv_device_attr attr;
  std::memset(&attr, 0, sizeof attr);
  if (ibv_query_device(context, &attr) || !attr.fw_ver[0]) return "unknown";
  std::string version(attr.fw_ver, strnlen(attr.fw_ver, sizeof attr.fw_ver));
  // It is a word of a line.
  for (char& c : version)
    if (c <= ' ' || c > '~') c = '-';
  return version;
}

ibv_context* VerbsSession::Open(unsigned) { return OpenListed(device_); }

RealTimeBounds Calibrate(const std::string& device) {
  RealTimeBounds bounds;
  const ParseResult program = ParseProgram(kRoundTrips, "calibration");
  if (!program.ok) return bounds;
  const RealTimeBounds quick{milliseconds(2000), milliseconds(0), false};
  VerbsSession session("", device, "", quick);
  Executor executor(&session);
  RunOptions options;
  Trace trace;
  executor.Run(program.program, options, &trace);  // pages and caches
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; i++) executor.Run(program.program, options, &trace);
  const auto one =
      std::chrono::duration_cast<milliseconds>((std::chrono::steady_clock::now() - start) / kRuns);
  // A pair's whole life is some dozens of commands: a wait of a hundred of them is generous.
  bounds.wait = std::clamp<milliseconds>(one * 100, bounds.wait, milliseconds(8000));
  bounds.quiet = std::clamp<milliseconds>(one * 2, bounds.quiet, milliseconds(500));
  return bounds;
}

}  // namespace qpexam::remote
