// The write() envelope of a command: where its parts are.
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "harness/hosted/bytes.h"
#include "harness/hosted/kernel_impl.h"

namespace qpexam::hosted {
namespace {

// Sizes of a command's core request and response; the rest of its bytes is private.
struct CoreSize {
  uint32_t command;
  size_t in, out;
};
constexpr CoreSize kCoreSizes[] = {
    {IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(ib_uverbs_get_context),
     sizeof(ib_uverbs_get_context_resp)},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, sizeof(ib_uverbs_query_device),
     sizeof(ib_uverbs_query_device_resp)},
    {IB_USER_VERBS_CMD_QUERY_PORT, sizeof(ib_uverbs_query_port), sizeof(ib_uverbs_query_port_resp)},
    {IB_USER_VERBS_CMD_ALLOC_PD, sizeof(ib_uverbs_alloc_pd), sizeof(ib_uverbs_alloc_pd_resp)},
    {IB_USER_VERBS_CMD_DEALLOC_PD, sizeof(ib_uverbs_dealloc_pd), 0},
    {IB_USER_VERBS_CMD_REG_MR, sizeof(ib_uverbs_reg_mr), sizeof(ib_uverbs_reg_mr_resp)},
    {IB_USER_VERBS_CMD_REREG_MR, sizeof(ib_uverbs_rereg_mr), sizeof(ib_uverbs_rereg_mr_resp)},
    {IB_USER_VERBS_CMD_DEREG_MR, sizeof(ib_uverbs_dereg_mr), 0},
    {IB_USER_VERBS_CMD_ALLOC_MW, sizeof(ib_uverbs_alloc_mw), sizeof(ib_uverbs_alloc_mw_resp)},
    {IB_USER_VERBS_CMD_DEALLOC_MW, sizeof(ib_uverbs_dealloc_mw), 0},
    {IB_USER_VERBS_CMD_CREATE_AH, sizeof(ib_uverbs_create_ah), sizeof(ib_uverbs_create_ah_resp)},
    {IB_USER_VERBS_CMD_DESTROY_AH, sizeof(ib_uverbs_destroy_ah), 0},
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, sizeof(ib_uverbs_create_comp_channel),
     sizeof(ib_uverbs_create_comp_channel_resp)},
    {IB_USER_VERBS_CMD_CREATE_CQ, sizeof(ib_uverbs_create_cq), sizeof(ib_uverbs_create_cq_resp)},
    {IB_USER_VERBS_CMD_RESIZE_CQ, sizeof(ib_uverbs_resize_cq), sizeof(ib_uverbs_resize_cq_resp)},
    {IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, sizeof(ib_uverbs_req_notify_cq), 0},
    {IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(ib_uverbs_destroy_cq), sizeof(ib_uverbs_destroy_cq_resp)},
    {IB_USER_VERBS_CMD_OPEN_XRCD, sizeof(ib_uverbs_open_xrcd), sizeof(ib_uverbs_open_xrcd_resp)},
    {IB_USER_VERBS_CMD_CLOSE_XRCD, sizeof(ib_uverbs_close_xrcd), 0},
    {IB_USER_VERBS_CMD_CREATE_SRQ, sizeof(ib_uverbs_create_srq), sizeof(ib_uverbs_create_srq_resp)},
    {IB_USER_VERBS_CMD_CREATE_XSRQ, sizeof(ib_uverbs_create_xsrq),
     sizeof(ib_uverbs_create_srq_resp)},
    {IB_USER_VERBS_CMD_MODIFY_SRQ, sizeof(ib_uverbs_modify_srq), 0},
    {IB_USER_VERBS_CMD_QUERY_SRQ, sizeof(ib_uverbs_query_srq), sizeof(ib_uverbs_query_srq_resp)},
    {IB_USER_VERBS_CMD_DESTROY_SRQ, sizeof(ib_uverbs_destroy_srq),
     sizeof(ib_uverbs_destroy_srq_resp)},
    {IB_USER_VERBS_CMD_CREATE_QP, sizeof(ib_uverbs_create_qp), sizeof(ib_uverbs_create_qp_resp)},
    {IB_USER_VERBS_CMD_OPEN_QP, sizeof(ib_uverbs_open_qp), sizeof(ib_uverbs_create_qp_resp)},
    {IB_USER_VERBS_CMD_MODIFY_QP, sizeof(ib_uverbs_modify_qp), 0},
    {IB_USER_VERBS_CMD_QUERY_QP, sizeof(ib_uverbs_query_qp), sizeof(ib_uverbs_query_qp_resp)},
    {IB_USER_VERBS_CMD_DESTROY_QP, sizeof(ib_uverbs_destroy_qp), sizeof(ib_uverbs_destroy_qp_resp)},
    {IB_USER_VERBS_CMD_POST_SEND, sizeof(ib_uverbs_post_send), sizeof(ib_uverbs_post_send_resp)},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, sizeof(ib_uverbs_attach_mcast), 0},
    {IB_USER_VERBS_CMD_DETACH_MCAST, sizeof(ib_uverbs_detach_mcast), 0},
};

}  // namespace

ssize_t KernelImpl::Write(Context& context, const void* bytes, size_t size) {
  std::lock_guard<std::recursive_mutex> lock(fabric.mutex());
  const auto* in = static_cast<const uint8_t*>(bytes);
  auto fail = [](int err) {
    errno = err;
    return ssize_t{-1};
  };
  ib_uverbs_cmd_hdr header;
  if (size < sizeof header) return fail(EINVAL);
  std::memcpy(&header, in, sizeof header);
  Invocation call;
  call.command = header.command & IB_USER_VERBS_CMD_COMMAND_MASK;
  call.extended = (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
  if (call.extended) {
    ib_uverbs_ex_cmd_hdr extended;
    if (size < sizeof header + sizeof extended) return fail(EINVAL);
    std::memcpy(&extended, in + sizeof header, sizeof extended);
    const uint8_t* core = in + sizeof header + sizeof extended;
    size_t core_size = header.in_words * size_t{8};
    size_t private_size = extended.provider_in_words * size_t{8};
    if (sizeof header + sizeof extended + core_size + private_size != size) return fail(EINVAL);
    call.core_in = {core, core_size};
    call.private_in = {core + core_size, private_size};
    auto* out = reinterpret_cast<uint8_t*>(extended.response);
    call.core_out = {out, out != nullptr ? header.out_words * size_t{8} : 0};
    call.private_out = {out + call.core_out.size,
                        out != nullptr ? extended.provider_out_words * size_t{8} : 0};
  } else {
    if (header.in_words * size_t{4} != size) return fail(EINVAL);
    const CoreSize* core =
        std::find_if(std::begin(kCoreSizes), std::end(kCoreSizes),
                     [&](const CoreSize& c) { return c.command == call.command; });
    if (core == std::end(kCoreSizes)) return fail(EOPNOTSUPP);
    size_t body = size - sizeof header;
    if (body < core->in) return fail(EINVAL);
    call.core_in = {in + sizeof header, core->in};
    call.private_in = {in + sizeof header + core->in, body - core->in};
    if (core->out != 0) {
      size_t out_size = header.out_words * size_t{4};
      if (out_size < core->out) return fail(ENOSPC);
      auto* out = reinterpret_cast<uint8_t*>(Get<uint64_t>(in, sizeof header));
      call.core_out = {out, core->out};
      call.private_out = {out + core->out, out_size - core->out};
    }
  }
  if (int err = Execute(context, call)) return fail(err);
  return static_cast<ssize_t>(size);
}

}  // namespace qpexam::hosted
