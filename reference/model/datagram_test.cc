// UD, multicast, RAW_PACKET, TSO, SRQs and XRC.
#include "reference/model/engine_testing.h"
#include "reference/model/packet.h"

namespace qpexam::model {
namespace {

class UdTest : public EngineTest {
 protected:
  void SetUp() override {
    ibv_gid gid{};
    gid.raw[0] = 0xfe;
    gid.raw[15] = 1;
    device->gids = {gid};
    ibv_ah_attr attr{};
    attr.port_num = 1;
    attr.is_global = 1;
    attr.grh.dgid = gid;
    ah = device->CreateAh(pd, attr).value;
    a = Ud();
    b = Ud();
    src = Register(8192, kAllRights, 0x5a);
    dst = Register(8192);
  }
  Qp* Ud() {
    Qp* qp = Make(QpType::kUd);
    ToRts(qp, 0);
    return qp;
  }
  int SendTo(Qp* from, uint64_t id, Ah* to, QpNum qpn, uint32_t qkey, uint32_t length) {
    SendQueue& sq = from->send_queue();
    sq.Start();
    sq.Send(WrId(id), kSignaled);
    sq.SetUdAddr(to, qpn, Qkey(qkey));
    sq.SetSge(src.mr->lkey, src.addr(), length);
    return sq.Complete();
  }
  Ah* ah;
  Qp *a, *b;
  Region src, dst;
};

TEST_F(UdTest, PayloadStandsBehindTheGrh) {  // WR-UD-004, -005, -011
  Recv(b, 9, dst, 0, 100);
  EXPECT_EQ(SendTo(a, 1, ah, b->number(), 0x11, 60), 0);
  EXPECT_EQ(Ids(cq), "1:OK");
  const auto got = Poll(recv_cq);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].byte_len, 100u);
  EXPECT_EQ(got[0].wc_flags, static_cast<unsigned>(IBV_WC_GRH));
  EXPECT_EQ(got[0].src_qp, a->number().value);
  EXPECT_EQ(dst.bytes[0] >> 4, 6);
  EXPECT_EQ(dst.bytes[8], 0xfe);
  EXPECT_EQ(dst.bytes[39], 1);
  EXPECT_EQ(dst.bytes[40], 0x5a);
  EXPECT_EQ(dst.bytes[99], 0x5a);
  EXPECT_EQ(dst.bytes[100], 0);
}

TEST_F(UdTest, EachRequestHasItsOwnDestination) {  // WR-UD-001, WR-SET-008
  Qp* c = Ud();
  Recv(b, 9, dst, 0, 100);
  Recv(c, 10, dst, 100, 100);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.SendImm(WrId(1), kSignaled, 5);
  sq.SetInline("x", 1);
  sq.SetUdAddr(ah, c->number(), Qkey(0x11));
  sq.Send(WrId(2), kSignaled);
  sq.SetUdAddr(ah, b->number(), Qkey(0x11));
  sq.SetInline("y", 1);
  EXPECT_EQ(sq.Complete(), 0);
  EXPECT_EQ(Ids(recv_cq), "10:OK 9:OK");
  EXPECT_EQ(dst.bytes[140], 'x');
  EXPECT_EQ(dst.bytes[40], 'y');
}

TEST_F(UdTest, WhatIsDropped) {  // WR-UD-002, -006, -007, WR-RESP-018
  Recv(b, 9, dst, 0, 100);
  SendTo(a, 1, ah, b->number(), 0x12, 4);
  SendTo(a, 2, ah, b->number(), 0x11, 61);
  SendTo(a, 3, ah, b->number(), 0x11, 4097);
  SendTo(a, 4, ah, QpNum(0x777777), 0x11, 4);
  EXPECT_EQ(Ids(cq), "1:OK 2:OK 3:OK 4:OK");
  EXPECT_EQ(Ids(recv_cq), "");
  EXPECT_EQ(dst.bytes[40], 0);
  SendTo(a, 5, ah, QpNum(b->number().value | 0xff000000), 0x80000000, 4);  // WR-UD-003, -010
  EXPECT_EQ(Ids(recv_cq), "9:OK");
  SendTo(a, 6, ah, b->number(), 0x11, 4);
  EXPECT_EQ(Ids(cq), "5:OK 6:OK");
}

TEST_F(UdTest, AddressHandles) {  // WR-UD-008, -009, WR-SET-009, -010
  EXPECT_EQ(SendTo(a, 1, nullptr, b->number(), 0x11, 4), EINVAL);
  EXPECT_EQ(LintClauses(), "");
  Pd* other = device->AllocPd().value;
  Ah* foreign = device->CreateAh(other, ah->attr).value;
  SendTo(a, 2, foreign, b->number(), 0x11, 4);
  EXPECT_EQ(Ids(cq), "2:LOC_QP_OP");
  EXPECT_EQ(a->state(), IBV_QPS_SQE);
  Qp* c = Ud();
  SendQueue& sq = c->send_queue();
  sq.Start();
  sq.Send(WrId(1), 0);
  sq.SetInline("x", 1);
  EXPECT_EQ(sq.Complete(), EINVAL);
  EXPECT_EQ(LintClauses(), "WR-SET-009");
  EXPECT_TRUE(device->DestroyAh(ah).ok());
  EXPECT_EQ(LintClauses(), "");
}

TEST_F(UdTest, AnAddressHandleThatEndsTooEarlyIsReported) {  // WR-UD-008
  ibv_qp_attr attr = Attr(0);
  attr.qp_state = IBV_QPS_SQD;
  EXPECT_TRUE(a->Modify(attr, IBV_QP_STATE).ok());
  Recv(b, 9, dst, 0, 100);
  SendTo(a, 1, ah, b->number(), 0x11, 4);
  EXPECT_TRUE(device->DestroyAh(ah).ok());
  EXPECT_EQ(LintClauses(), "WR-UD-008");
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_TRUE(a->Modify(attr, IBV_QP_STATE).ok());
  EXPECT_EQ(Ids(cq), "1:OK");
}

TEST_F(UdTest, Multicast) {  // WR-CREATE-017
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[15] = 7;
  EXPECT_TRUE(b->AttachMulticast(group, 0).ok());
  Qp* c = Ud();
  EXPECT_TRUE(c->AttachMulticast(group, 0).ok());
  Recv(b, 9, dst, 0, 100);
  Recv(c, 10, dst, 100, 100);
  ibv_ah_attr attr = ah->attr;
  attr.grh.dgid = group;
  Ah* to_group = device->CreateAh(pd, attr).value;
  SendTo(a, 1, to_group, QpNum(0xffffff), 0x11, 4);
  EXPECT_EQ(Ids(cq), "1:OK");
  EXPECT_EQ(Ids(recv_cq), "9:OK 10:OK");
  EXPECT_EQ(device->DestroyQp(b).err, EBUSY);
  EXPECT_TRUE(b->DetachMulticast(group, 0).ok());
  EXPECT_EQ(b->DetachMulticast(group, 0).err, EINVAL);
  EXPECT_TRUE(device->DestroyQp(b).ok());
  EXPECT_EQ(Make(QpType::kRc)->AttachMulticast(group, 0).err, EINVAL);
}

// --- frames --------------------------------------------------------------------------------------

// Ethernet, IPv4, TCP with FIN and PSH; total length as of a whole packet.
std::vector<uint8_t> TcpHeader(uint16_t payload) {
  std::vector<uint8_t> h(54);
  h[12] = 0x08;
  uint8_t* ip = &h[14];
  ip[0] = 0x45;
  ip[2] = static_cast<uint8_t>((40 + payload) >> 8);
  ip[3] = static_cast<uint8_t>(40 + payload);
  ip[4] = 0xff;
  ip[5] = 0xff;
  ip[8] = 64;
  ip[9] = 6;
  ip[12] = 10;
  ip[15] = 1;
  ip[16] = 10;
  ip[19] = 2;
  uint8_t* tcp = &h[34];
  tcp[1] = 80;
  tcp[3] = 81;
  tcp[4] = 0xff;
  tcp[5] = 0xff;
  tcp[6] = 0xff;
  tcp[7] = 0x00;
  tcp[12] = 0x50;
  tcp[13] = 0x19;  // ACK, PSH, FIN
  return h;
}

class RawTest : public EngineTest {
 protected:
  void SetUp() override {
    a = Make(QpType::kRawPacket);
    b = Make(QpType::kRawPacket);
    ToRts(a, 0);
    ToRts(b, 0);
    src = Register(8192, kAllRights, 0x5a);
    dst = Register(8192);
  }
  Qp *a, *b;
  Region src, dst;
};

TEST_F(RawTest, TsoCutsSegments) {  // WR-DATA-026, -035
  for (int i = 0; i < 4; ++i) Recv(b, i, dst, i * 1000, 1000);
  const auto header = TcpHeader(0);
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.Tso(WrId(1), kSignaled | IBV_SEND_IP_CSUM, header.data(), 54, 100);
  sq.SetSge(src.mr->lkey, src.addr(), 250);
  EXPECT_EQ(sq.Complete(), 0);
  const auto sent = Poll(cq);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].opcode, IBV_WC_TSO);
  const auto got = Poll(recv_cq);
  ASSERT_EQ(got.size(), 3u);
  const uint32_t sizes[3] = {154, 154, 104};
  const uint8_t flags[3] = {0x10, 0x10, 0x19};
  const uint16_t ids[3] = {0xffff, 0x0000, 0x0001};
  const uint32_t sequences[3] = {0xffffff00, 0xffffff64, 0xffffffc8};
  for (int i = 0; i < 3; ++i) {
    const uint8_t* p = &dst.bytes[i * 1000];
    EXPECT_EQ(got[i].byte_len, sizes[i]);
    EXPECT_EQ(got[i].wc_flags, static_cast<unsigned>(IBV_WC_IP_CSUM_OK)) << i;
    EXPECT_EQ(p[16] << 8 | p[17], static_cast<int>(sizes[i] - 14));
    EXPECT_EQ(p[18] << 8 | p[19], ids[i]);
    EXPECT_EQ(uint32_t{p[38]} << 24 | p[39] << 16 | p[40] << 8 | p[41], sequences[i]);
    EXPECT_EQ(p[47], flags[i]);
    EXPECT_EQ(p[35], 80);
    EXPECT_EQ(p[sizes[i] - 1], 0x5a);
  }
}

TEST_F(RawTest, TsoLimits) {  // WR-DATA-027, -028, -029
  const std::vector<uint8_t> header(300);
  SendQueue& sq = a->send_queue();
  const auto post = [&](uint16_t header_length, uint16_t mss) {
    sq.Start();
    sq.Tso(WrId(1), kSignaled, header.data(), header_length, mss);
    sq.SetSge(src.mr->lkey, src.addr(), 10);
    return sq.Complete();
  };
  EXPECT_EQ(post(129, 100), EINVAL);
  EXPECT_EQ(LintClauses(), "");
  EXPECT_EQ(post(54, 0), EINVAL);
  EXPECT_EQ(LintClauses(), "WR-DATA-029");
  EXPECT_EQ(post(14, 100), EINVAL);
  EXPECT_EQ(LintClauses(), "WR-DATA-027");
  EXPECT_EQ(post(128, 100), 0);
}

TEST_F(RawTest, IpCsum) {  // WR-DATA-030, -031
  Recv(b, 1, dst, 0, 200);
  auto frame = TcpHeader(6);
  frame.insert(frame.end(), {'h', 'e', 'l', 'l', 'o', '!'});
  std::memcpy(src.bytes.data(), frame.data(), frame.size());
  const uint32_t key = src.mr->lkey.value;
  const ibv_sge split[3] = {
      {src.addr(), 5, key}, {src.addr() + 5, 9, key}, {src.addr() + 14, 46, key}};
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.Send(WrId(1), kSignaled | IBV_SEND_IP_CSUM);
  sq.SetSgeList(3, split);
  EXPECT_EQ(sq.Complete(), 0);
  const auto got = Poll(recv_cq);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].byte_len, 60u);
  EXPECT_EQ(got[0].wc_flags, static_cast<unsigned>(IBV_WC_IP_CSUM_OK));
  EXPECT_TRUE(ChecksumsValid(Frame(dst.bytes.begin(), dst.bytes.begin() + 60)));
  EXPECT_EQ(dst.bytes[54], 'h');
}

TEST(PacketTest, ChecksumsByHand) {
  // RFC 1071's way over the header of TcpHeader(0) with id 0: computed by hand.
  Frame frame = TcpHeader(0);
  frame[18] = frame[19] = 0;
  FillChecksums(&frame);
  // 4500 + 0028 + 4006 + 0a00 + 0001 + 0a00 + 0002 = 9931 -> ~ = 66ce
  EXPECT_EQ(frame[24], 0x66);
  EXPECT_EQ(frame[25], 0xce);
  EXPECT_TRUE(ChecksumsValid(frame));
  frame[53] ^= 1;
  EXPECT_FALSE(ChecksumsValid(frame));
}

TEST(PacketTest, Ipv6SegmentsAndChecksums) {
  std::vector<uint8_t> header(74);
  header[12] = 0x86;
  header[13] = 0xdd;
  header[14] = 0x60;
  header[20] = 6;
  header[14 + 40 + 12] = 0x50;
  const std::vector<uint8_t> payload(30, 1);
  const auto frames = CutSegments({header.data(), header.size()}, {payload.data(), payload.size()},
                                  20, Checksums::kFilled);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0][19], 40);
  EXPECT_EQ(frames[1][19], 30);
  EXPECT_EQ(frames[1][14 + 40 + 7], 20);
  EXPECT_NE(frames[0][14 + 40 + 16] | frames[0][14 + 40 + 17], 0);
}

TEST(PacketTest, RoceV2Grh) {  // WR-UD-011
  ibv_gid a{}, b{};
  a.raw[10] = a.raw[11] = b.raw[10] = b.raw[11] = 0xff;
  a.raw[12] = 192;
  b.raw[15] = 9;
  const GrhBytes g = MakeGrh(a, b, 100, {});
  EXPECT_EQ(g.bytes[20], 0x45);
  EXPECT_EQ(g.bytes[32], 192);
  EXPECT_EQ(g.bytes[39], 9);
}

// --- shared receive queues, XRC
// --------------------------------------------------------------------

class SrqTest : public EngineTest {
 protected:
  void SetUp() override {
    src = Register(256, kAllRights, 0x5a);
    dst = Register(256);
    xrcd = device->OpenXrcd(0).value;
  }
  Srq* MakeSrq(ibv_srq_type type) {
    SrqInit init;
    init.type = type;
    init.pd = pd;
    init.max_wr = 8;
    init.max_sge = 1;
    if (type == IBV_SRQT_XRC) {
      init.xrcd = xrcd;
      init.cq = recv_cq;
    }
    return device->CreateSrq(init).value;
  }
  void RecvOn(Srq* srq, uint64_t id) {
    const Sge sge{dst.addr(), 64, dst.mr->lkey};
    const RecvRequest r{WrId(id), &sge, 1};
    EXPECT_TRUE(srq->PostRecv({&r, 1}, nullptr).ok());
  }
  int SendXrc(Qp* from, uint64_t id, SrqNum srqn, uint32_t flags = kSignaled) {
    SendQueue& sq = from->send_queue();
    sq.Start();
    sq.Send(WrId(id), flags);
    sq.SetXrcSrqn(srqn);
    sq.SetSge(src.mr->lkey, src.addr(), 4);
    return sq.Complete();
  }
  Region src, dst;
};

TEST_F(SrqTest, TwoQpsShareOne) {  // WR-RESP-020
  Srq* srq = MakeSrq(IBV_SRQT_BASIC);
  QpInit init = Init(QpType::kRc);
  init.srq = srq;
  Qp* b1 = device->CreateQp(init).value;
  Qp* b2 = device->CreateQp(init).value;
  Qp* a1 = Make(QpType::kRc);
  Qp* a2 = Make(QpType::kRc);
  Connect(a1, b1);
  Connect(a2, b2);
  for (int i = 0; i < 3; ++i) RecvOn(srq, i);
  Send(a1, 1, src, 4);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  b1->Modify(attr, IBV_QP_STATE);
  EXPECT_EQ(async.Count(IBV_EVENT_QP_LAST_WQE_REACHED), 1);
  EXPECT_EQ(srq->waiting(), 2u);
  Send(a2, 2, src, 4);
  EXPECT_EQ(Ids(recv_cq), "0:OK 1:OK");
  EXPECT_EQ(device->DestroySrq(srq).err, EBUSY);
  const RecvRequest r{WrId(1), nullptr, 0};
  EXPECT_EQ(b2->PostRecv({&r, 1}, nullptr).err, EINVAL);
}

TEST_F(SrqTest, LimitEventIsOneShot) {
  Srq* srq = MakeSrq(IBV_SRQT_BASIC);
  QpInit init = Init(QpType::kRc);
  init.srq = srq;
  Qp* b = device->CreateQp(init).value;
  Qp* a = Make(QpType::kRc);
  Connect(a, b);
  for (int i = 0; i < 4; ++i) RecvOn(srq, i);
  ibv_srq_attr attr{};
  attr.srq_limit = 3;
  EXPECT_TRUE(srq->Modify(attr, IBV_SRQ_LIMIT).ok());
  Send(a, 1, src, 4);
  EXPECT_EQ(async.Count(IBV_EVENT_SRQ_LIMIT_REACHED), 0);
  Send(a, 2, src, 4);
  Send(a, 3, src, 4);
  EXPECT_EQ(async.Count(IBV_EVENT_SRQ_LIMIT_REACHED), 1);
  EXPECT_EQ(srq->Query().srq_limit, 0u);
  attr.max_wr = 0;
  EXPECT_EQ(srq->Modify(attr, IBV_SRQ_MAX_WR).err, EINVAL);
  attr.max_wr = 20;
  EXPECT_TRUE(srq->Modify(attr, IBV_SRQ_MAX_WR).ok());
  EXPECT_EQ(srq->Query().max_wr, 20u);
}

TEST_F(SrqTest, XrcNamesItsSrqInEveryRequest) {  // WR-XRC-001..-004, -006..-008
  Srq* s1 = MakeSrq(IBV_SRQT_XRC);
  Srq* s2 = MakeSrq(IBV_SRQT_XRC);
  Qp* a = Make(QpType::kXrcSend);
  Qp* b = Make(QpType::kXrcRecv);
  ASSERT_NE(b, nullptr);
  Connect(a, b);
  RecvOn(s1, 11);
  RecvOn(s1, 12);
  RecvOn(s2, 21);
  SendXrc(a, 1, s2->number());
  SendXrc(a, 2, s1->number());
  const auto got = Poll(recv_cq);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].wr_id.value, 21u);
  EXPECT_EQ(got[1].wr_id.value, 11u);
  EXPECT_EQ(got[0].qp_num, b->number());
  SendQueue& sq = a->send_queue();
  sq.Start();
  sq.RdmaWrite(WrId(3), kSignaled, dst.mr->rkey, dst.remote(100));
  sq.SetXrcSrqn(s1->number());
  sq.SetInline("z", 1);
  EXPECT_EQ(sq.Complete(), 0);
  EXPECT_EQ(Ids(cq), "1:OK 2:OK 3:OK");
  EXPECT_EQ(dst.bytes[100], 'z');
  EXPECT_EQ(s1->waiting(), 1u);
  SendXrc(a, 4, s2->number());  // empty: RNR, the other SRQ is left alone
  fabric.RunUntilIdle();
  EXPECT_EQ(Ids(cq), "4:RNR_RETRY_EXC");
  EXPECT_EQ(s1->waiting(), 1u);
  Qp* c = Make(QpType::kXrcSend);
  Qp* d = Make(QpType::kXrcRecv);
  Connect(c, d);
  SendXrc(c, 5, SrqNum(0x777));
  const auto bad = Poll(cq);
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_NE(bad[0].status, IBV_WC_SUCCESS);
}

TEST_F(SrqTest, XrcRecvHasNoQueues) {  // WR-XRC-005
  QpInit init = Init(QpType::kXrcRecv);
  init.send_ops = 0;
  EXPECT_EQ(device->CreateQp(init).status.err, EINVAL);
  Qp* b = Make(QpType::kXrcRecv);
  const RecvRequest r{WrId(1), nullptr, 0};
  EXPECT_EQ(b->PostRecv({&r, 1}, nullptr).err, EINVAL);
  EXPECT_EQ(LintClauses(), "WR-XRC-005");
  EXPECT_TRUE(device->OpenQp(xrcd, b->number()).ok());
  EXPECT_TRUE(device->DestroyQp(b).ok());
  EXPECT_EQ(fabric.FindQp(b->number()), b);
  EXPECT_EQ(device->CloseXrcd(xrcd).err, EBUSY);
  EXPECT_TRUE(device->DestroyQp(b).ok());
  EXPECT_TRUE(device->CloseXrcd(xrcd).ok());
}

TEST_F(SrqTest, UnreliableConnection) {  // WR-RESP-015, -018
  Qp* a = Make(QpType::kUc);
  Qp* b = Make(QpType::kUc);
  Connect(a, b);
  Send(a, 1, src, 4);  // no receive: dropped
  Write(a, 2, src, 4, Rkey(1), dst.remote());
  Recv(b, 9, dst, 0, 3);
  Send(a, 3, src, 4);  // does not fit
  EXPECT_EQ(Ids(cq), "1:OK 2:OK 3:OK");
  EXPECT_EQ(Ids(recv_cq), "");
  Write(a, 4, src, 4, dst.mr->rkey, dst.remote());
  Send(a, 5, src, 3);
  EXPECT_EQ(Ids(recv_cq), "9:OK");
  EXPECT_EQ(dst.bytes[3], 0x5a);
  EXPECT_EQ(b->state(), IBV_QPS_RTS);
}

}  // namespace
}  // namespace qpexam::model
