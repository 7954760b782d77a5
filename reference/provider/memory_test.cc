// Protection domains, memory regions, windows, address handles, XRC domains.
#include <fcntl.h>
#include <unistd.h>

#include "reference/provider/testing.h"

namespace qpexam::provider {
namespace {

class MemoryTest : public VerbsTest {};

TEST_F(MemoryTest, APdInUseIsBusy) {
  ibv_pd* pd = ibv_alloc_pd(context_.get());
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(pd->context, context_.get());
  MrPtr mr(ibv_reg_mr(pd, At(0), 16, IBV_ACCESS_LOCAL_WRITE));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(MemoryTest, AParentDomainStandsForItsPd) {  // WR-CONC-008
  ibv_td_init_attr td_attr = {};
  TdPtr td(ibv_alloc_td(context_.get(), &td_attr));
  ASSERT_NE(td, nullptr);
  for (ibv_td* of : {static_cast<ibv_td*>(nullptr), td.get()}) {
    ibv_parent_domain_init_attr attr = {};
    attr.pd = pd_.get();
    attr.td = of;
    PdPtr parent(ibv_alloc_parent_domain(context_.get(), &attr));
    ASSERT_NE(parent, nullptr);
    MrPtr mr(ibv_reg_mr(parent.get(), At(0), 16, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_NE(mr, nullptr);
  }
}

TEST_F(MemoryTest, AThreadDomainInUseIsBusy) {
  ibv_td_init_attr td_attr = {};
  ibv_td* td = ibv_alloc_td(context_.get(), &td_attr);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attr = {};
  attr.pd = pd_.get();
  attr.td = td;
  PdPtr parent(ibv_alloc_parent_domain(context_.get(), &attr));
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  parent.reset();
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(MemoryTest, ParentDomainNeedsAPdAndKnownBits) {
  ibv_parent_domain_init_attr attr = {};
  EXPECT_EQ(ibv_alloc_parent_domain(context_.get(), &attr), nullptr);
  attr.pd = pd_.get();
  attr.comp_mask = 1u << 20;
  EXPECT_EQ(ibv_alloc_parent_domain(context_.get(), &attr), nullptr);
  ibv_td_init_attr td_attr = {};
  td_attr.comp_mask = 1;
  EXPECT_EQ(ibv_alloc_td(context_.get(), &td_attr), nullptr);
}

TEST_F(MemoryTest, RegionsHaveDistinctKeys) {
  MrPtr a(ibv_reg_mr(pd_.get(), At(0), 64, kAllAccess));
  MrPtr b(ibv_reg_mr(pd_.get(), At(64), 64, kAllAccess));
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_NE(a->lkey, b->lkey);
  EXPECT_NE(a->rkey, b->rkey);
  EXPECT_EQ(a->addr, At(0));
  EXPECT_EQ(a->length, 64u);
  EXPECT_EQ(a->pd, pd_.get());
}

TEST_F(MemoryTest, RemoteWriteNeedsLocalWrite) {  // M-REG
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd_.get(), At(0), 64, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd_.get(), At(0), 64, IBV_ACCESS_REMOTE_ATOMIC), nullptr);
  MrPtr read_only(ibv_reg_mr(pd_.get(), At(0), 64, IBV_ACCESS_REMOTE_READ));
  EXPECT_NE(read_only, nullptr);
}

TEST_F(MemoryTest, TakesEveryAccessFlagOfTheHeader) {
  for (int extra : {0, int{IBV_ACCESS_FLUSH_GLOBAL}, int{IBV_ACCESS_FLUSH_PERSISTENT},
                    int{IBV_ACCESS_RELAXED_ORDERING}, int{IBV_ACCESS_ZERO_BASED}}) {
    MrPtr mr(ibv_reg_mr(pd_.get(), At(0), 64, kAllAccess | extra));
    EXPECT_NE(mr, nullptr) << std::hex << extra;
  }
}

TEST_F(MemoryTest, RegistersAtAnotherAddress) {
  MrPtr mr(ibv_reg_mr_iova(pd_.get(), At(0), 64, 0, kAllAccess));
  EXPECT_NE(mr, nullptr);
}

TEST_F(MemoryTest, ReregGivesNewKeys) {
  MrPtr mr(ibv_reg_mr(pd_.get(), At(0), 64, kAllAccess));
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, At(128), 32, 0), 0);
  EXPECT_EQ(mr->addr, At(128));
  EXPECT_EQ(mr->length, 32u);
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE),
            0);
  PdPtr other(ibv_alloc_pd(context_.get()));
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, other.get());
  EXPECT_NE(ibv_rereg_mr(mr.get(), 1 << 20, nullptr, nullptr, 0, 0), 0);
  mr.reset();
}

TEST_F(MemoryTest, WindowsOfBothTypes) {
  MwPtr one(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  MwPtr two(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(one->type, IBV_MW_TYPE_1);
  EXPECT_EQ(two->type, IBV_MW_TYPE_2);
  EXPECT_NE(one->rkey, two->rkey);
  EXPECT_EQ(two->pd, pd_.get());
}

TEST_F(MemoryTest, AddressHandles) {
  ibv_ah_attr attr = Address();
  AhPtr ah(ibv_create_ah(pd_.get(), &attr));
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ah->pd, pd_.get());
  attr.port_num = 2;
  EXPECT_EQ(ibv_create_ah(pd_.get(), &attr), nullptr);
}

class XrcdTest : public VerbsTest {
 protected:
  XrcdPtr Open(int fd, int oflags) {
    ibv_xrcd_init_attr attr = {};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = fd;
    attr.oflags = oflags;
    return XrcdPtr(ibv_open_xrcd(context_.get(), &attr));
  }
};

TEST_F(XrcdTest, PrivateDomainsNeedCreat) {
  EXPECT_NE(Open(-1, O_CREAT), nullptr);
  EXPECT_EQ(Open(-1, 0), nullptr);
}

TEST_F(XrcdTest, AFileNamesASharedDomain) {
  char path[] = "/tmp/xrcd_XXXXXX";
  int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(Open(fd, 0), nullptr);  // not there yet
  {
    XrcdPtr first = Open(fd, O_CREAT);
    ASSERT_NE(first, nullptr);
    EXPECT_NE(Open(fd, 0), nullptr);
    EXPECT_EQ(Open(fd, O_CREAT | O_EXCL), nullptr);
  }
  EXPECT_NE(Open(fd, O_CREAT | O_EXCL), nullptr);  // gone with its last user
  close(fd);
  unlink(path);
}

TEST_F(XrcdTest, NeedsBothAttributes) {
  ibv_xrcd_init_attr attr = {};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD;
  attr.fd = -1;
  EXPECT_EQ(ibv_open_xrcd(context_.get(), &attr), nullptr);
}

}  // namespace
}  // namespace qpexam::provider
