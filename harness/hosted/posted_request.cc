#include "harness/hosted/posted_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace qpexam::hosted {
namespace {

using model::DataKind;
using model::Operation;

size_t CountFull(const std::vector<model::Sge>& list) {
  return std::count_if(list.begin(), list.end(), [](const model::Sge& s) { return s.length != 0; });
}

uint64_t TotalOf(const std::vector<model::Sge>& list) {
  uint64_t total = 0;
  for (const model::Sge& sge : list) total += sge.length;
  return total;
}

uint32_t MeaningfulFlags(Operation op, model::QpType type, bool signal_all) {
  uint32_t flags = signal_all ? 0 : IBV_SEND_SIGNALED;
  if (type == model::QpType::kRc || type == model::QpType::kXrcSend) flags |= IBV_SEND_FENCE;
  if (type == model::QpType::kRawPacket) {
    flags |= IBV_SEND_IP_CSUM;
  } else if (model::Info(op).solicited_allowed) {
    flags |= IBV_SEND_SOLICITED;
  }
  return flags;
}

const char* KindName(DataKind kind) {
  switch (kind) {
    case DataKind::kUnset:
      return "no data";
    case DataKind::kSge:
      return "SGEs";
    case DataKind::kInline:
      return "inline data";
  }
  return "";
}

// A frame whose first bytes are in the WQE itself: they are compared with what the caller's memory
// holds, and the rest as any data.
void CompareFrame(const PostedRequest& p, const DecodedSend& d, std::vector<Difference>* out) {
  const bool inline_posted = p.data == DataKind::kInline;
  std::vector<uint8_t> front;  // what it should be
  std::vector<model::Sge> rest;
  size_t left = d.header.size();
  if (inline_posted) {
    front.assign(p.inline_data.begin(),
                 p.inline_data.begin() + static_cast<long>(std::min(left, p.inline_data.size())));
    left -= front.size();
    if (p.inline_data.size() != front.size()) {
      out->push_back({"WR-INL-004", fmt::format("{} bytes posted, the WQE has {}",
                                                p.inline_data.size(), d.header.size())});
      return;
    }
  }
  for (const model::Sge& sge : p.sge) {
    const auto n = static_cast<uint32_t>(std::min<size_t>(left, sge.length));
    const auto* from = reinterpret_cast<const uint8_t*>(sge.addr);
    front.insert(front.end(), from, from + n);
    left -= n;
    if (n != sge.length) rest.push_back({sge.addr + n, sge.length - n, sge.lkey});
  }
  if (front != d.header) {
    out->push_back({"WR-DATA-031", "the frame's header in the WQE is not the data's front"});
    return;
  }
  CompareSges(rest, d.sge, out);
}

void CompareData(const PostedRequest& p, const DecodedSend& d, std::vector<Difference>* out) {
  if (!d.header.empty() && d.request.op == Operation::kSend) return CompareFrame(p, d, out);
  const uint64_t want = p.data == DataKind::kInline ? p.inline_data.size() : TotalOf(p.sge);
  const uint64_t got = d.request.data == DataKind::kInline ? d.inline_data.size() : TotalOf(d.sge);
  if (want == 0 && got == 0) return;
  const bool inline_posted = p.data == DataKind::kInline;
  if (inline_posted != (d.request.data == DataKind::kInline)) {
    if (!inline_posted && p.inline_flag) return;  // a SHOULD; the judge sees what comes of it
    out->push_back(
        {inline_posted ? "WR-SAMPLE-007" : "WR-SGE-001",
         fmt::format("{} posted, the WQE has {}", KindName(p.data), KindName(d.request.data))});
    return;
  }
  if (want != got) {
    out->push_back({!inline_posted         ? "WR-SGE-001"
                    : p.inline_buffers > 1 ? "WR-INL-007"
                                           : "WR-INL-004",
                    fmt::format("{} bytes posted, the WQE has {}", want, got)});
    return;
  }
  if (inline_posted) {
    if (p.inline_data != d.inline_data) {
      auto at = std::mismatch(p.inline_data.begin(), p.inline_data.end(), d.inline_data.begin());
      out->push_back(
          {p.inline_buffers > 1 ? "WR-INL-007" : "WR-INL-001",
           fmt::format("inline data differs from byte {} on", at.first - p.inline_data.begin())});
    }
    return;
  }
  CompareSges(p.sge, d.sge, out);
}

}  // namespace

void PostedRequest::Clear(Operation operation, uint64_t id, uint32_t send_flags) {
  op = operation;
  wr_id = id;
  flags = send_flags & ~uint32_t{IBV_SEND_INLINE};
  flags_in_doubt = 0;
  inline_flag = (send_flags & IBV_SEND_INLINE) != 0;
  imm = 0;
  rkey = mw_rkey = mr_lkey = 0;
  remote_addr = compare_or_add = swap = flush_length = bind_length = 0;
  flush_type = flush_level = 0;
  bind_access = 0;
  new_key_known = true;
  ah_handle = remote_qpn = remote_qkey = remote_srqn = 0;
  tso_mss = 0;
  tso_header.clear();
  std::memset(atomic_write, 0, sizeof atomic_write);
  data = DataKind::kUnset;
  sge.clear();
  inline_data.clear();
  inline_buffers = 0;
}

void CompareSges(const std::vector<model::Sge>& posted, const std::vector<model::Sge>& found,
                 std::vector<Difference>* out) {
  const size_t full = CountFull(posted), has = CountFull(found);
  if (full != has) {
    out->push_back({"WR-SGE-001", fmt::format("{} SGEs posted, the WQE has {}", full, has)});
    return;
  }
  auto a = posted.begin(), b = found.begin();
  for (size_t i = 0; i < full; ++i, ++a, ++b) {
    while (a->length == 0) ++a;
    while (b->length == 0) ++b;
    const char* field = a->addr != b->addr       ? "address"
                        : a->length != b->length ? "length"
                        : a->lkey != b->lkey     ? "lkey"
                                                 : nullptr;
    if (field != nullptr) out->push_back({"WR-SGE-001", fmt::format("{} of SGE {}", field, i)});
  }
}

std::vector<Difference> Compare(const PostedRequest& p, const QpFacts& qp, const DecodedSend& d) {
  std::vector<Difference> out;
  const model::SendRequest& r = d.request;
  // Where a device has one request for both: a window bound to nothing is an invalidated one.
  if (p.op == Operation::kBindMw && p.bind_length == 0 && r.op == Operation::kLocalInv) {
    if (p.mw_rkey != r.rkey.value) out.push_back({"WR-MW-004", "the window's key differs"});
    return out;
  }
  if (p.op != r.op) {
    out.push_back({"WR-BUILD-001", fmt::format("posted {}, the WQE is {}", model::Info(p.op).name,
                                               model::Info(r.op).name)});
    return out;
  }
  auto differs = [&out](const char* clause, bool same, const char* field) {
    if (!same) out.push_back({clause, fmt::format("{} differs", field)});
  };
  if (d.carries_wr_id) differs("WR-SAMPLE-001", p.wr_id == r.wr_id.value, "wr_id");
  const uint32_t flags = MeaningfulFlags(p.op, qp.type, qp.signal_all) & ~p.flags_in_doubt;
  if ((p.flags & flags) != (r.flags & flags)) {
    out.push_back({"WR-SAMPLE-002", fmt::format("flags {:#x} posted, the WQE has {:#x}",
                                                p.flags & flags, r.flags & flags)});
  }
  const model::OperationInfo& info = model::Info(p.op);
  if (info.takes_rkey) {
    differs("WR-BUILD-003", p.rkey == r.rkey.value, "rkey");
    differs("WR-BUILD-003", p.remote_addr == r.remote_addr.value, "remote_addr");
  }
  switch (p.op) {
    case Operation::kSendWithImm:
    case Operation::kRdmaWriteWithImm:
      differs("WR-DATA-002", p.imm == r.imm, "imm_data");
      break;
    case Operation::kSendWithInv:
    case Operation::kLocalInv:
      differs("WR-DATA-003", p.rkey == r.rkey.value, "the key to invalidate");
      break;
    case Operation::kAtomicCmpAndSwp:
      differs("WR-DATA-010", p.swap == r.swap, "swap");
      [[fallthrough]];
    case Operation::kAtomicFetchAndAdd:
      differs(p.op == Operation::kAtomicCmpAndSwp ? "WR-DATA-010" : "WR-DATA-011",
              p.compare_or_add == r.compare_or_add,
              p.op == Operation::kAtomicCmpAndSwp ? "compare" : "add");
      break;
    case Operation::kTso:
      differs("WR-DATA-026", p.tso_mss == r.tso_mss, "mss");
      differs("WR-DATA-026", p.tso_header == d.header, "the header");
      break;
    case Operation::kFlush:
      if (p.flush_length != r.flush_length) {
        out.push_back({"WR-DATA-020", fmt::format("FLUSH of {} bytes posted, the WQE has {}",
                                                  p.flush_length, r.flush_length)});
      }
      differs("WR-DATA-016", p.flush_type == r.flush_type, "type");
      differs("WR-DATA-017", p.flush_level == r.flush_level, "level");
      break;
    case Operation::kAtomicWrite:
      differs("WR-DATA-023", std::memcmp(p.atomic_write, r.atomic_write, 8) == 0, "the value");
      break;
    case Operation::kBindMw:
      differs("WR-MW-004", p.mw_rkey == d.mw_rkey, "the window's key");
      // Of a key with foreign index bits, only the tag is the caller's (WR-MW-002).
      differs("WR-MW-004",
              !p.new_key_known || p.rkey == r.bind_rkey.value ||
                  ((p.rkey ^ p.mw_rkey) > 0xff && (p.rkey & 0xff) == (r.bind_rkey.value & 0xff)),
              "the new key");
      differs("WR-MW-004", p.mr_lkey == d.mr_lkey, "the region's key");
      differs("WR-MW-004", p.remote_addr == r.bind_addr, "the address");
      differs("WR-MW-004", p.bind_length == r.bind_length, "the length");
      differs("WR-MW-004", p.bind_access == r.bind_access, "the access flags");
      break;
    default:
      break;
  }
  // Windows are the QP's own affair and go to no SRQ.
  if (qp.type == model::QpType::kXrcSend && info.needs_xrc_srqn) {
    differs("WR-XRC-001", (p.remote_srqn & 0xffffff) == (r.remote_srqn.value & 0xffffff),
            "remote_srqn");
  }
  if (model::NeedsAddress(qp.type)) {
    differs("WR-UD-001",
            std::find(d.ah_handles.begin(), d.ah_handles.end(), p.ah_handle) != d.ah_handles.end(),
            "the address handle");
    // A number that no QP of such a device has names no peer; how it is put into a shorter field is
    // promised nowhere.
    const bool names_none = (p.remote_qpn & 0xffffff) >> qp.number_bits != 0;
    differs("WR-UD-001", names_none || (p.remote_qpn & 0xffffff) == (r.remote_qpn.value & 0xffffff),
            "remote_qpn");
    // With the highest bit set it stands for the QP's own, which a library may put in its place.
    const bool own_qkey = (p.remote_qkey & 0x80000000) != 0;
    differs("WR-UD-001", own_qkey || p.remote_qkey == r.remote_qkey.value, "remote_qkey");
  }
  switch (info.data) {
    case model::DataRule::kNone:
    case model::DataRule::kNoneTolerated:
      break;
    default:
      CompareData(p, d, &out);
  }
  return out;
}

std::string Describe(const PostedRequest& p) {
  std::string text = fmt::format("{} wr_id={:#x}", model::Info(p.op).name, p.wr_id);
  switch (p.data) {
    case DataKind::kUnset:
      break;
    case DataKind::kSge:
      text += fmt::format(" ({} SGE{}, {} bytes)", p.sge.size(), p.sge.size() == 1 ? "" : "s",
                          TotalOf(p.sge));
      break;
    case DataKind::kInline:
      text += fmt::format(" ({} bytes inline)", p.inline_data.size());
      break;
  }
  return text;
}

}  // namespace qpexam::hosted
