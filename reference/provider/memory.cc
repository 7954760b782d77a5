// Protection: domains, memory regions, windows, address handles, XRC domains.
#include <fcntl.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "reference/provider/operations.h"

namespace qpexam::provider {
namespace {

// Handles are what a kernel would number its objects by; programs only print them.
uint32_t NextHandle() {
  static std::atomic<uint32_t> next{1};
  return next++;
}

// Deallocates a model object by its device, and the provider's object with it where that works.
template <typename Object, typename Model>
int End(Object* object, Model* model, model::Device* device,
        model::Status (model::Device::*end)(Model*)) {
  const model::Status status = (device->*end)(model);
  if (status.ok()) delete object;
  return Answer(status);
}

}  // namespace

ibv_pd* AllocPd(ibv_context* context) {
  model::Result<model::Pd> made = Of(context)->device->AllocPd();
  if (!made.ok()) return Refuse(made.status.err);
  auto* pd = new Pd();
  pd->pd = made.value;
  pd->pd->owner = pd;
  pd->verbs.context = context;
  pd->verbs.handle = NextHandle();
  return &pd->verbs;
}

int DeallocPd(ibv_pd* pd) {
  return End(Of(pd), Of(pd)->pd, Of(pd->context)->device, &model::Device::DeallocPd);
}

ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attr) {
  if (attr->comp_mask != 0) return Refuse(EINVAL);
  model::Result<model::Td> made = Of(context)->device->AllocTd();
  if (!made.ok()) return Refuse(made.status.err);
  auto* td = new Td();
  td->td = made.value;
  td->td->owner = td;
  td->verbs.context = context;
  return &td->verbs;
}

int DeallocTd(ibv_td* td) {
  return End(Of(td), Of(td)->td, Of(td->context)->device, &model::Device::DeallocTd);
}

ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  if (ibv_check_alloc_parent_domain(attr) != 0) return nullptr;
  // The allocators and their context are for rings in memory that a device reads: there are none.
  constexpr uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (!check_comp_mask(attr->comp_mask, kKnown)) return Refuse(EINVAL);
  model::Result<model::Pd> made = Of(context)->device->AllocParentDomain(
      Of(attr->pd)->pd, attr->td != nullptr ? Of(attr->td)->td : nullptr);
  if (!made.ok()) return Refuse(made.status.err);
  auto* pd = new Pd();
  pd->pd = made.value;
  pd->pd->owner = pd;
  ibv_initialize_parent_domain(&pd->verbs, attr->pd);
  return &pd->verbs;
}

ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  // M-REG: a zero-based region is addressed by offsets.
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  model::Result<model::Mr> made =
      Of(pd->context)
          ->device->RegMr(Of(pd)->pd, {static_cast<uint8_t*>(addr), length}, iova,
                          static_cast<unsigned>(access));
  if (!made.ok()) return Refuse(made.status.err);
  auto* mr = new Mr();
  mr->mr = made.value;
  mr->mr->owner = mr;
  mr->verbs.mr_type = IBV_MR_TYPE_MR;
  mr->verbs.access = access;
  mr->verbs.ibv_mr.lkey = made.value->lkey.value;
  mr->verbs.ibv_mr.rkey = made.value->rkey.value;
  mr->verbs.ibv_mr.handle = NextHandle();
  return &mr->verbs.ibv_mr;
}

int ReregMr(verbs_mr* vmr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  Mr* mr = Of(vmr);
  const model::Status status =
      Of(vmr->ibv_mr.context)
          ->device->ReregMr(mr->mr, flags, pd != nullptr ? Of(pd)->pd : nullptr,
                            {static_cast<uint8_t*>(addr), length}, static_cast<unsigned>(access));
  if (!status.ok()) return Answer(status);
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) vmr->access = access;
  vmr->ibv_mr.lkey = mr->mr->lkey.value;
  vmr->ibv_mr.rkey = mr->mr->rkey.value;
  return 0;
}

int DeregMr(verbs_mr* mr) {
  return End(Of(mr), Of(mr)->mr, Of(mr->ibv_mr.context)->device, &model::Device::DeregMr);
}

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type) {
  if (NumberIn(type) > IBV_MW_TYPE_2) return Refuse(EINVAL);
  model::Result<model::Mw> made = Of(pd->context)->device->AllocMw(Of(pd)->pd, type);
  if (!made.ok()) return Refuse(made.status.err);
  auto* mw = new Mw();
  mw->mw = made.value;
  mw->mw->owner = mw;
  mw->verbs.context = pd->context;
  mw->verbs.pd = pd;
  mw->verbs.rkey = made.value->rkey.value;
  mw->verbs.handle = NextHandle();
  mw->verbs.type = type;
  return &mw->verbs;
}

int DeallocMw(ibv_mw* mw) {
  return End(Of(mw), Of(mw)->mw, Of(mw->context)->device, &model::Device::DeallocMw);
}

ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attr) {
  model::Result<model::Ah> made = Of(pd->context)->device->CreateAh(Of(pd)->pd, *attr);
  if (!made.ok()) return Refuse(made.status.err);
  auto* ah = new Ah();
  ah->ah = made.value;
  ah->ah->owner = ah;
  ah->verbs.handle = NextHandle();
  return &ah->verbs;
}

int DestroyAh(ibv_ah* ah) {
  return End(Of(ah), Of(ah)->ah, Of(ah->context)->device, &model::Device::DestroyAh);
}

// --- XRC domains ---------------------------------------------------------------------------------

namespace {

// Which file stands for which domain (ibv_open_xrcd(3)): the model knows domains by a number.
class XrcdFiles {
 public:
  static XrcdFiles& Get() {
    static XrcdFiles* files = new XrcdFiles;
    return *files;
  }

  // The number of the domain of this file, or an errno value; counts a user.
  int Open(int fd, int oflags, uint64_t* number) {
    struct stat st;
    if (fstat(fd, &st) != 0) return errno;
    std::lock_guard<std::mutex> lock(mutex_);
    auto [it, fresh] = domains_.try_emplace({st.st_dev, st.st_ino});
    if (!fresh && (oflags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return EINVAL;
    if (fresh && (oflags & O_CREAT) == 0) {
      domains_.erase(it);
      return EAGAIN;
    }
    if (fresh) it->second.number = next_++;
    ++it->second.users;
    *number = it->second.number;
    return 0;
  }
  void Close(uint64_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = domains_.begin(); it != domains_.end(); ++it) {
      if (it->second.number != number) continue;
      if (--it->second.users == 0) domains_.erase(it);
      return;
    }
  }

 private:
  struct Domain {
    uint64_t number = 0;
    int users = 0;
  };
  std::mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, Domain> domains_;
  uint64_t next_ = 1;
};

}  // namespace

ibv_xrcd* OpenXrcd(ibv_context* context, ibv_xrcd_init_attr* attr) {
  constexpr uint32_t kWanted = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (!check_comp_mask(attr->comp_mask, kWanted)) return Refuse(EINVAL);
  if ((attr->comp_mask & kWanted) != kWanted) return Refuse(EINVAL);
  uint64_t number = 0;  // private
  if (attr->fd >= 0) {
    if (int err = XrcdFiles::Get().Open(attr->fd, attr->oflags, &number); err != 0)
      return Refuse(err);
  } else if ((attr->oflags & O_CREAT) == 0) {
    return Refuse(EINVAL);  // ibv_open_xrcd(3): without a file only a new domain can be meant
  }
  model::Result<model::Xrcd> made = Of(context)->device->OpenXrcd(number);
  if (!made.ok()) {
    if (number != 0) XrcdFiles::Get().Close(number);
    return Refuse(made.status.err);
  }
  auto* xrcd = new Xrcd();
  xrcd->xrcd = made.value;
  xrcd->xrcd->owner = xrcd;
  xrcd->verbs.xrcd.context = context;
  xrcd->verbs.comp_mask = VERBS_XRCD_HANDLE;
  xrcd->verbs.handle = NextHandle();
  return &xrcd->verbs.xrcd;
}

int CloseXrcd(ibv_xrcd* xrcd) {
  const uint64_t number = Of(xrcd)->xrcd->inode;
  const int err =
      End(Of(xrcd), Of(xrcd)->xrcd, Of(xrcd->context)->device, &model::Device::CloseXrcd);
  if (err == 0 && number != 0) XrcdFiles::Get().Close(number);
  return err;
}

}  // namespace qpexam::provider
