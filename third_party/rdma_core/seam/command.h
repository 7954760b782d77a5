// Reading and answering a kernel command (struct ib_uverbs_ioctl_hdr), in C and C++.
//
// A command names an object and a method and carries attributes: inputs of up to 8 bytes inline,
// longer ones and all outputs by pointer, objects and fds as numbers. The methods and attributes of
// libibverbs are in <rdma/ib_user_ioctl_cmds.h>; most commands arrive wrapped as
// UVERBS_METHOD_INVOKE_WRITE.

#ifndef THIRD_PARTY_RDMA_CORE_SEAM_COMMAND_H_
#define THIRD_PARTY_RDMA_CORE_SEAM_COMMAND_H_

#include <rdma/rdma_user_ioctl_cmds.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The attribute with that id, or NULL.
static inline struct ib_uverbs_attr *qpx_seam_attr(struct ib_uverbs_ioctl_hdr *command,
                                                   uint16_t id) {
  for (unsigned int i = 0; i < command->num_attrs; i++) {
    if (command->attrs[i].attr_id == id) return &command->attrs[i];
  }
  return NULL;
}

// The bytes of an input, attr->len of them.
static inline const void *qpx_seam_attr_input(const struct ib_uverbs_attr *attr) {
  return attr->len <= sizeof(attr->data) ? (const void *)&attr->data
                                         : (const void *)(uintptr_t)attr->data;
}

// The buffer of an output, attr->len bytes; for a driver that fills it in place. Mark it with
// qpx_seam_attr_answered().
static inline void *qpx_seam_attr_output(const struct ib_uverbs_attr *attr) {
  return (void *)(uintptr_t)attr->data;
}

static inline void qpx_seam_attr_answered(struct ib_uverbs_attr *attr) {
  attr->flags = (uint16_t)(attr->flags | UVERBS_ATTR_F_VALID_OUTPUT);
}

// Answers an output as the kernel does: a longer buffer than the answer keeps its tail zeroed, a
// shorter one (of an older library) gets the beginning. Returns how many bytes of the answer were
// copied.
static inline size_t qpx_seam_attr_answer(struct ib_uverbs_attr *attr, const void *bytes,
                                          size_t size) {
  const size_t copied = size < attr->len ? size : attr->len;
  unsigned char *buffer = (unsigned char *)qpx_seam_attr_output(attr);
  if (copied) memcpy(buffer, bytes, copied);
  if (attr->len > copied) memset(buffer + copied, 0, attr->len - copied);
  qpx_seam_attr_answered(attr);
  return copied;
}

#endif  // THIRD_PARTY_RDMA_CORE_SEAM_COMMAND_H_
