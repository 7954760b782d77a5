#include "harness/trace/names.h"

#include <cerrno>
#include <charconv>

namespace qpexam {
namespace {

struct Word {
  int value;
  std::string_view word;
};

#define QPEXAM_WORD(prefix, name) \
  { prefix##name, #name }

constexpr Word kStatuses[] = {
    QPEXAM_WORD(IBV_WC_, SUCCESS),
    QPEXAM_WORD(IBV_WC_, LOC_LEN_ERR),
    QPEXAM_WORD(IBV_WC_, LOC_QP_OP_ERR),
    QPEXAM_WORD(IBV_WC_, LOC_EEC_OP_ERR),
    QPEXAM_WORD(IBV_WC_, LOC_PROT_ERR),
    QPEXAM_WORD(IBV_WC_, WR_FLUSH_ERR),
    QPEXAM_WORD(IBV_WC_, MW_BIND_ERR),
    QPEXAM_WORD(IBV_WC_, BAD_RESP_ERR),
    QPEXAM_WORD(IBV_WC_, LOC_ACCESS_ERR),
    QPEXAM_WORD(IBV_WC_, REM_INV_REQ_ERR),
    QPEXAM_WORD(IBV_WC_, REM_ACCESS_ERR),
    QPEXAM_WORD(IBV_WC_, REM_OP_ERR),
    QPEXAM_WORD(IBV_WC_, RETRY_EXC_ERR),
    QPEXAM_WORD(IBV_WC_, RNR_RETRY_EXC_ERR),
    QPEXAM_WORD(IBV_WC_, LOC_RDD_VIOL_ERR),
    QPEXAM_WORD(IBV_WC_, REM_INV_RD_REQ_ERR),
    QPEXAM_WORD(IBV_WC_, REM_ABORT_ERR),
    QPEXAM_WORD(IBV_WC_, INV_EECN_ERR),
    QPEXAM_WORD(IBV_WC_, INV_EEC_STATE_ERR),
    QPEXAM_WORD(IBV_WC_, FATAL_ERR),
    QPEXAM_WORD(IBV_WC_, RESP_TIMEOUT_ERR),
    QPEXAM_WORD(IBV_WC_, GENERAL_ERR),
    QPEXAM_WORD(IBV_WC_, TM_ERR),
    QPEXAM_WORD(IBV_WC_, TM_RNDV_INCOMPLETE),
};

// FLUSH and ATOMIC_WRITE are newer than the oldest header that we build against; their values are
// part of the ABI.
constexpr Word kOpcodes[] = {
    QPEXAM_WORD(IBV_WC_, SEND),
    QPEXAM_WORD(IBV_WC_, RDMA_WRITE),
    QPEXAM_WORD(IBV_WC_, RDMA_READ),
    QPEXAM_WORD(IBV_WC_, COMP_SWAP),
    QPEXAM_WORD(IBV_WC_, FETCH_ADD),
    QPEXAM_WORD(IBV_WC_, BIND_MW),
    QPEXAM_WORD(IBV_WC_, LOCAL_INV),
    QPEXAM_WORD(IBV_WC_, TSO),
    {8, "FLUSH"},
    {9, "ATOMIC_WRITE"},
    QPEXAM_WORD(IBV_WC_, RECV),
    QPEXAM_WORD(IBV_WC_, RECV_RDMA_WITH_IMM),
    QPEXAM_WORD(IBV_WC_, TM_ADD),
    QPEXAM_WORD(IBV_WC_, TM_DEL),
    QPEXAM_WORD(IBV_WC_, TM_SYNC),
    QPEXAM_WORD(IBV_WC_, TM_RECV),
    QPEXAM_WORD(IBV_WC_, TM_NO_TAG),
    QPEXAM_WORD(IBV_WC_, DRIVER1),
    QPEXAM_WORD(IBV_WC_, DRIVER2),
    QPEXAM_WORD(IBV_WC_, DRIVER3),
};

constexpr Word kWcFlags[] = {
    QPEXAM_WORD(IBV_WC_, GRH),           QPEXAM_WORD(IBV_WC_, WITH_IMM),
    QPEXAM_WORD(IBV_WC_, IP_CSUM_OK),    QPEXAM_WORD(IBV_WC_, WITH_INV),
    QPEXAM_WORD(IBV_WC_, TM_SYNC_REQ),   QPEXAM_WORD(IBV_WC_, TM_MATCH),
    QPEXAM_WORD(IBV_WC_, TM_DATA_VALID),
};

constexpr Word kStates[] = {
    QPEXAM_WORD(IBV_QPS_, RESET), QPEXAM_WORD(IBV_QPS_, INIT),
    QPEXAM_WORD(IBV_QPS_, RTR),   QPEXAM_WORD(IBV_QPS_, RTS),
    QPEXAM_WORD(IBV_QPS_, SQD),   QPEXAM_WORD(IBV_QPS_, SQE),
    QPEXAM_WORD(IBV_QPS_, ERR),   {-1, "-"},
};

constexpr Word kAsyncEvents[] = {
    QPEXAM_WORD(IBV_EVENT_, CQ_ERR),
    QPEXAM_WORD(IBV_EVENT_, QP_FATAL),
    QPEXAM_WORD(IBV_EVENT_, QP_REQ_ERR),
    QPEXAM_WORD(IBV_EVENT_, QP_ACCESS_ERR),
    QPEXAM_WORD(IBV_EVENT_, COMM_EST),
    QPEXAM_WORD(IBV_EVENT_, SQ_DRAINED),
    QPEXAM_WORD(IBV_EVENT_, PATH_MIG),
    QPEXAM_WORD(IBV_EVENT_, PATH_MIG_ERR),
    QPEXAM_WORD(IBV_EVENT_, DEVICE_FATAL),
    QPEXAM_WORD(IBV_EVENT_, PORT_ACTIVE),
    QPEXAM_WORD(IBV_EVENT_, PORT_ERR),
    QPEXAM_WORD(IBV_EVENT_, LID_CHANGE),
    QPEXAM_WORD(IBV_EVENT_, PKEY_CHANGE),
    QPEXAM_WORD(IBV_EVENT_, SM_CHANGE),
    QPEXAM_WORD(IBV_EVENT_, SRQ_ERR),
    QPEXAM_WORD(IBV_EVENT_, SRQ_LIMIT_REACHED),
    QPEXAM_WORD(IBV_EVENT_, QP_LAST_WQE_REACHED),
    QPEXAM_WORD(IBV_EVENT_, CLIENT_REREGISTER),
    QPEXAM_WORD(IBV_EVENT_, GID_CHANGE),
    QPEXAM_WORD(IBV_EVENT_, WQ_FATAL),
};

constexpr Word kErrnos[] = {
    QPEXAM_WORD(, EPERM),        QPEXAM_WORD(, ENOENT),          QPEXAM_WORD(, EINTR),
    QPEXAM_WORD(, EIO),          QPEXAM_WORD(, ENXIO),           QPEXAM_WORD(, E2BIG),
    QPEXAM_WORD(, EBADF),        QPEXAM_WORD(, EAGAIN),          QPEXAM_WORD(, ENOMEM),
    QPEXAM_WORD(, EACCES),       QPEXAM_WORD(, EFAULT),          QPEXAM_WORD(, EBUSY),
    QPEXAM_WORD(, EEXIST),       QPEXAM_WORD(, ENODEV),          QPEXAM_WORD(, EINVAL),
    QPEXAM_WORD(, ENOSPC),       QPEXAM_WORD(, ERANGE),          QPEXAM_WORD(, ENOSYS),
    QPEXAM_WORD(, ENODATA),      QPEXAM_WORD(, EPROTONOSUPPORT), QPEXAM_WORD(, EOPNOTSUPP),
    QPEXAM_WORD(, ETIMEDOUT),    QPEXAM_WORD(, EMSGSIZE),        QPEXAM_WORD(, EOVERFLOW),
    QPEXAM_WORD(, EHOSTUNREACH), QPEXAM_WORD(, ENETUNREACH),     QPEXAM_WORD(, EADDRINUSE),
};

#undef QPEXAM_WORD

constexpr Word kRan[] = {
    {static_cast<int>(Ran::kDone), "done"},
    {static_cast<int>(Ran::kNotMade), "not-made"},
    {static_cast<int>(Ran::kCut), "cut"},
    {static_cast<int>(Ran::kSkipped), "skipped"},
};

constexpr std::string_view kQueried[] = {
    "max_qp_wr",  "max_sge",     "max_sge_rd", "max_cqe",    "max_srq_wr", "max_qp_rd_atom",
    "cap_flags",  "atomic",      "max_tso",    "port_state", "active_mtu", "max_msg_sz",
    "srq_max_wr", "srq_max_sge", "srq_limit",  "pkey",
};
static_assert(std::size(kQueried) == static_cast<size_t>(Queried::kCount));

template <size_t N>
std::string ToWord(const Word (&words)[N], int value) {
  for (const Word& w : words)
    if (w.value == value) return std::string(w.word);
  return std::to_string(value);
}

std::optional<int> Number(std::string_view text) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <size_t N>
std::optional<int> FromWord(const Word (&words)[N], std::string_view text) {
  for (const Word& w : words)
    if (w.word == text) return w.value;
  return Number(text);
}

}  // namespace

std::string WcStatusWord(int status) { return ToWord(kStatuses, status); }
std::optional<int> WcStatusFromWord(std::string_view word) { return FromWord(kStatuses, word); }

std::string WcOpcodeWord(int opcode) { return ToWord(kOpcodes, opcode); }
std::optional<int> WcOpcodeFromWord(std::string_view word) { return FromWord(kOpcodes, word); }

std::string WcFlagsWord(unsigned flags) {
  std::string text;
  for (const Word& w : kWcFlags) {
    if (!(flags & static_cast<unsigned>(w.value))) continue;
    if (!text.empty()) text += '|';
    text += w.word;
    flags &= ~static_cast<unsigned>(w.value);
  }
  if (flags != 0 || text.empty()) {
    if (!text.empty()) text += '|';
    text += std::to_string(flags);
  }
  return text;
}

std::optional<unsigned> WcFlagsFromWord(std::string_view word) {
  unsigned flags = 0;
  while (true) {
    size_t bar = word.find('|');
    std::optional<int> one = FromWord(kWcFlags, word.substr(0, bar));
    if (!one) return std::nullopt;
    flags |= static_cast<unsigned>(*one);
    if (bar == std::string_view::npos) return flags;
    word.remove_prefix(bar + 1);
  }
}

std::string QpStateWord(int state) { return ToWord(kStates, state); }
std::optional<int> QpStateFromWord(std::string_view word) { return FromWord(kStates, word); }

std::string AsyncEventWord(int type) { return ToWord(kAsyncEvents, type); }
std::optional<int> AsyncEventFromWord(std::string_view word) {
  return FromWord(kAsyncEvents, word);
}

std::string ErrnoWord(int err) { return ToWord(kErrnos, err); }
std::optional<int> ErrnoFromWord(std::string_view word) { return FromWord(kErrnos, word); }

std::string_view RanWord(Ran ran) { return kRan[static_cast<int>(ran)].word; }
std::optional<Ran> RanFromWord(std::string_view word) {
  for (const Word& w : kRan)
    if (w.word == word) return static_cast<Ran>(w.value);
  return std::nullopt;
}

std::string ObjectWord(const Program& program, ObjectId object) {
  return object < program.objects.size() ? program.objects[object].name : "-";
}

std::string CqWord(const Program& program, CqRef cq) {
  std::string word = ObjectWord(program, cq.object);
  if (cq.side == Side::kSend) word += ".send";
  if (cq.side == Side::kRecv) word += ".recv";
  return word;
}

std::optional<ObjectId> ObjectFromWord(const Program& program, std::string_view word) {
  if (word == "-") return kNoObject;
  for (size_t i = 0; i < program.objects.size(); i++)
    if (program.objects[i].name == word) return static_cast<ObjectId>(i);
  return std::nullopt;
}

std::optional<CqRef> CqFromWord(const Program& program, std::string_view word) {
  CqRef cq;
  size_t dot = word.rfind('.');
  if (dot != std::string_view::npos) {
    std::string_view side = word.substr(dot + 1);
    if (side != "send" && side != "recv") return std::nullopt;
    cq.side = side == "send" ? Side::kSend : Side::kRecv;
    word = word.substr(0, dot);
  }
  std::optional<ObjectId> object = ObjectFromWord(program, word);
  if (!object) return std::nullopt;
  cq.object = *object;
  return cq;
}

std::string_view QueriedWord(Queried what) {
  return what < Queried::kCount ? kQueried[static_cast<size_t>(what)] : "?";
}

std::optional<Queried> QueriedFromWord(std::string_view word) {
  for (size_t i = 0; i < std::size(kQueried); i++)
    if (kQueried[i] == word) return static_cast<Queried>(i);
  return std::nullopt;
}

}  // namespace qpexam
