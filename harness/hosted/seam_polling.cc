// The calls that poll: what the library returns is compared with what the device wrote.
#include <algorithm>
#include <mutex>
#include <utility>

#include "harness/hosted/seam_state.h"

namespace qpexam::hosted {
namespace {

// Which fields of a completion the caller can see.
enum SeenField : uint32_t {
  kOpcode = 1,
  kByteLen = 2,
  kImm = 4,
  kQpNum = 8,
  kSrcQp = 16,
  kWcFlags = 32,
  kVendorErr = 64,
  kLink = 128,  // slid, sl, dlid_path_bits
  kAllFields = 255,
};

}  // namespace

int PollCq(ibv_cq* cq, int n, ibv_wc* wcs) {
  WatchedCq* w = g_oracle->Cq(cq);
  const uint64_t visible_end = g_oracle->BeginPoll(*w);
  const int got = g_oracle->Context(cq->context).ops.poll_cq(cq, n, wcs);
  {
    std::lock_guard<std::mutex> lock(g_oracle->mutex);
    g_oracle->PolledLocked(*w, n, got, wcs, visible_end);
  }
  g_oracle->CheckLocks("ibv_poll_cq()", "WR-CONC-006");
  return got;
}

void SeamOracle::Impl::PolledLocked(WatchedCq& cq, int n, int got, const ibv_wc* wcs,
                                    uint64_t visible_end) {
  for (int i = 0; i < got && i < n; ++i) {
    const ibv_wc& wc = wcs[i];
    model::Completion c;
    c.wr_id = model::WrId(wc.wr_id);
    c.status = wc.status;
    // On an error the opcode is not valid and may hold any number (WR-COMP-005).
    if (wc.status == IBV_WC_SUCCESS) c.opcode = wc.opcode;
    c.vendor_err = wc.vendor_err;
    c.byte_len = wc.byte_len;
    c.imm = wc.imm_data;
    c.invalidated = model::Rkey(wc.invalidated_rkey);
    c.qp_num = model::QpNum(wc.qp_num);
    c.src_qp = wc.src_qp;
    c.wc_flags = wc.wc_flags;
    c.pkey_index = wc.pkey_index;
    c.slid = wc.slid;
    c.sl = wc.sl;
    c.dlid_path_bits = wc.dlid_path_bits;
    MatchLocked(cq, c, kAllFields);
  }
  // What is left of a QP that ended may come or not; it does not break the CQ.
  if (got < 0) {
    FindLocked("cqe", "WR-COMP-013", fmt::format("ibv_poll_cq() failed with {}", got));
  }
  if (got > n) {
    FindLocked("cqe", "WR-COMP-015", fmt::format("ibv_poll_cq() of {} returned {}", n, got));
  }
  if (got >= 0 && got < n) CheckEmptyLocked(cq, visible_end, "ibv_poll_cq()");
  if (cq.polls_open > 0) --cq.polls_open;
}

namespace {

int StartPoll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  WatchedCq* w = g_oracle->Cq(cq);
  const uint64_t visible_end = g_oracle->BeginPoll(*w);
  int rc = w->original.start_poll(cq, attr);
  if (rc == 0) {
    ++t_open;
    g_oracle->ReadEx(cq);
  } else {
    if (rc == ENOENT) {
      g_oracle->CheckEmpty(*w, visible_end, "ibv_start_poll()");
    } else if (attr->comp_mask == 0) {
      g_oracle->Find("cqe", "WR-COMP-013", fmt::format("ibv_start_poll() failed with {}", rc));
    }
    g_oracle->EndPoll(*w);
  }
  g_oracle->CheckLocks("ibv_start_poll()", "WR-CQX-001");
  return rc;
}

int NextPoll(ibv_cq_ex* cq) {
  WatchedCq* w = g_oracle->Cq(cq);
  const uint64_t visible_end = g_oracle->VisibleEnd(*w);
  int rc = w->original.next_poll(cq);
  if (rc == 0) {
    g_oracle->ReadEx(cq);
  } else if (rc == ENOENT) {
    g_oracle->CheckEmpty(*w, visible_end, "ibv_next_poll()");
  }
  g_oracle->CheckLocks("ibv_next_poll()", "WR-CQX-002");
  return rc;
}

void EndPoll(ibv_cq_ex* cq) {
  WatchedCq* w = g_oracle->Cq(cq);
  w->original.end_poll(cq);
  g_oracle->EndPoll(*w);
  --t_open;
  g_oracle->CheckLocks("ibv_end_poll()", "WR-CQX-002");
}

}  // namespace

ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  ibv_cq_ex* cq = g_oracle->Context(context).create_cq_ex(context, attr);
  g_oracle->CheckLocks("ibv_create_cq_ex()", "");
  if (cq == nullptr) return nullptr;
  WatchedCq* w = g_oracle->Cq(cq);
  w->original = *cq;
  Replace(&cq->start_poll, StartPoll);
  Replace(&cq->next_poll, NextPoll);
  Replace(&cq->end_poll, EndPoll);
  return cq;
}

void SeamOracle::Impl::ReadEx(ibv_cq_ex* cq) {
  model::Completion c;
  uint32_t fields = kVendorErr | kOpcode | kWcFlags;
  c.wr_id = model::WrId(cq->wr_id);
  c.status = cq->status;
  c.vendor_err = cq->read_vendor_err != nullptr ? cq->read_vendor_err(cq) : 0;
  if (cq->read_qp_num != nullptr) {
    fields |= kQpNum;
    c.qp_num = model::QpNum(cq->read_qp_num(cq));
  }
  // On an error the other fields mean nothing and are not read.
  if (c.status == IBV_WC_SUCCESS) {
    c.opcode = cq->read_opcode(cq);
    c.wc_flags = cq->read_wc_flags(cq);
    if (cq->read_byte_len != nullptr) {
      fields |= kByteLen;
      c.byte_len = cq->read_byte_len(cq);
    }
    if (cq->read_imm_data != nullptr && c.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) {
      fields |= kImm;
      c.imm = cq->read_imm_data(cq);
      c.invalidated = model::Rkey(c.imm);  // read_invalidated_rkey() is read_imm_data()
    }
    if (cq->read_src_qp != nullptr) {
      fields |= kSrcQp;
      c.src_qp = cq->read_src_qp(cq);
    }
  }
  MatchCompletion(*Cq(cq), c, fields);
}

namespace {

// Nothing differs that MatchLocked() could tell of: the quick way for most completions.
bool SameInAll(const model::Completion& want, const model::Completion& seen) {
  if (want.wr_id != seen.wr_id || want.status != seen.status || want.qp_num != seen.qp_num ||
      want.opcode != seen.opcode) {
    return false;
  }
  const bool short_one = !want.is_receive && want.opcode != IBV_WC_RDMA_READ &&
                         want.opcode != IBV_WC_COMP_SWAP && want.opcode != IBV_WC_FETCH_ADD;
  if (short_one) return true;
  return want.byte_len == seen.byte_len && want.wc_flags == seen.wc_flags && want.imm == seen.imm &&
         want.invalidated == seen.invalidated && want.src_qp == seen.src_qp;
}

}  // namespace

void SeamOracle::Impl::MatchLocked(WatchedCq& cq, const model::Completion& seen, uint32_t fields) {
  ++completions;
  auto same = [&](const WrittenCqe& w) {
    return w.completion.wr_id == seen.wr_id && w.completion.status == seen.status &&
           (!(fields & kQpNum) || w.completion.qp_num == seen.qp_num);
  };
  // Each part of a CQ has an order of its own: the next of any part may come.
  WrittenCqe *next = cq.written.end(), *expected = cq.written.end();
  std::vector<uint32_t> passed;
  for (WrittenCqe* it = cq.written.begin(); it != cq.written.end(); ++it) {
    if (std::find(passed.begin(), passed.end(), it->lane) != passed.end()) continue;
    if (same(*it)) {
      next = it;
      break;
    }
    if (it->optional) continue;
    if (!cq.shared) passed.push_back(it->lane);
    if (expected == cq.written.end()) expected = it;
  }
  if (next == cq.written.end()) next = expected;
  if (next == cq.written.end()) {
    cq.written.clear();
    FindLocked("cqe", "WR-COMP-015",
               fmt::format("a completion (wr_id {:#x}, status {}) was returned that the device did "
                           "not write",
                           seen.wr_id.value, ibv_wc_status_str(seen.status)));
    return;
  }
  // What differs is put into words below, from a copy: the entry goes before.
  const bool same_in_all = SameInAll(next->completion, seen);
  std::optional<model::Completion> differing;
  if (!same_in_all) differing = next->completion;
  // With it go those of a QP that was reset, of the same part: they will not come any more.
  const uint32_t lane = next->lane;
  size_t before = next - cq.written.begin();
  cq.written.erase(next);
  for (size_t i = 0; i < before;) {
    if (cq.written[i].lane == lane && cq.written[i].optional) {
      cq.written.erase(cq.written.begin() + i);
      --before;
    } else {
      ++i;
    }
  }
  if (same_in_all) return;
  const model::Completion& want = *differing;
  std::string text;
  const char* clause = nullptr;
  auto differs = [&](const char* of, bool is_same, const char* field, uint64_t w, uint64_t got) {
    if (is_same) return;
    if (clause == nullptr) clause = of;
    text +=
        fmt::format("{}{} is {:#x}, the CQE has {:#x}", text.empty() ? "" : "; ", field, got, w);
  };
  differs("WR-SAMPLE-001", want.wr_id == seen.wr_id, "wr_id", want.wr_id.value, seen.wr_id.value);
  differs("WR-COMP-005", want.status == seen.status, "status", want.status, seen.status);
  if (fields & kQpNum && want.qp_num != seen.qp_num) {
    if (clause == nullptr) clause = "WR-COMP-005";
    text += fmt::format("{}qp_num is another QP's", text.empty() ? "" : "; ");
  }
  if (want.status == IBV_WC_SUCCESS && seen.status == IBV_WC_SUCCESS) {
    if (fields & kOpcode) {
      differs(want.is_receive ? "WR-COMP-007" : "WR-COMP-006", want.opcode == seen.opcode, "opcode",
              want.opcode, seen.opcode);
    }
    // byte_len and wc_flags of other send completions are unspecified (WR-COMP-009).
    const bool has_length = want.is_receive || want.opcode == IBV_WC_RDMA_READ ||
                            want.opcode == IBV_WC_COMP_SWAP || want.opcode == IBV_WC_FETCH_ADD;
    if (fields & kByteLen && has_length) {
      differs("WR-COMP-008", want.byte_len == seen.byte_len, "byte_len", want.byte_len,
              seen.byte_len);
    }
    if (want.is_receive) {
      if (fields & kWcFlags) {
        differs("WR-COMP-010", want.wc_flags == seen.wc_flags, "wc_flags", want.wc_flags,
                seen.wc_flags);
      }
      if (fields & kImm && want.wc_flags & IBV_WC_WITH_IMM) {
        differs("WR-DATA-002", want.imm == seen.imm, "imm_data", want.imm, seen.imm);
      }
      if (fields & kImm && want.wc_flags & IBV_WC_WITH_INV &&
          want.invalidated != seen.invalidated) {
        if (clause == nullptr) clause = "WR-DATA-003";
        text += fmt::format("{}invalidated_rkey is another key", text.empty() ? "" : "; ");
      }
      const bool datagram = (want.wc_flags & IBV_WC_GRH) != 0;
      if (datagram && fields & kSrcQp && want.src_qp != seen.src_qp) {
        if (clause == nullptr) clause = "WR-UD-005";
        text += fmt::format("{}src_qp is another QP's", text.empty() ? "" : "; ");
      }
    }
  }
  if (!text.empty()) {
    FindLocked("cqe", clause,
               fmt::format("{} completion wr_id {:#x}: {}", want.is_receive ? "receive" : "send",
                           want.wr_id.value, text));
  }
}

void SeamOracle::Impl::CheckEmptyLocked(WatchedCq& cq, uint64_t visible_end, const char* call) {
  // What another thread's poll holds, and has yet to match, is not in the CQ either.
  if (cq.polls_open > 1) return;
  const auto was_there = [visible_end](const WrittenCqe& w) { return w.number < visible_end; };
  const size_t waiting =
      std::count_if(cq.written.begin(), cq.written.end(),
                    [&](const WrittenCqe& w) { return was_there(w) && !w.optional; });
  if (waiting == 0) return;
  FindLocked(
      "cqe", "WR-CQX-001",
      fmt::format("{} says that the CQ is empty, but it holds {} completions", call, waiting));
  cq.written.erase(std::remove_if(cq.written.begin(), cq.written.end(), was_there),
                   cq.written.end());
}

uint64_t SeamOracle::Impl::VisibleEnd(WatchedCq& cq) {
  std::lock_guard<std::mutex> lock(mutex);
  return cq.VisibleEnd();
}

uint64_t SeamOracle::Impl::BeginPoll(WatchedCq& cq) {
  std::lock_guard<std::mutex> lock(mutex);
  if (++cq.polls_open > 1) cq.shared = true;
  return cq.VisibleEnd();
}

void SeamOracle::Impl::EndPoll(WatchedCq& cq) {
  std::lock_guard<std::mutex> lock(mutex);
  if (cq.polls_open > 0) --cq.polls_open;
}

}  // namespace qpexam::hosted
