// What requests do to memory: DATA, SGE, INL, ORD and the setters.
#include <gtest/gtest.h>

#include "harness/judge/cases.h"

namespace qpexam::judge {
namespace {

TEST(Data, Send) {
  Check(
      {"SEND fills the receive's buffers in order",
       R"(@rc
store src+0 bytes=0102030405060708
recv b wr_id=9 sge=dst+0:3,dst+16:64
recv b wr_id=10 sge=dst+128:64
start a
send a wr_id=1 flags=SIGNALED
set_sge_list a sge=src+4:4,src+0:4
complete a
poll b.recv
=> wc b 9 SUCCESS RECV len=8
=> mem dst 0 050607
=> mem dst 16 0801020304
poll a.send
=> wc a 1 SUCCESS SEND
settle
end
)",
       {
           {"len=8", "len=7", "WR-SGE-001"},
           {"0801020304", "0801020305", "WR-DATA-001"},
           {"=> mem dst 0 050607", "=> mem dst 0 05060700", ""},
           {"=> mem dst 0 050607", "=> mem dst 0 05060708", "WR-DATA-001"},
           {"=> wc b 9", "=> wc b 10", "WR-DATA-004"},
           {"SUCCESS RECV len", "SUCCESS RECV imm=5 len", "WR-DATA-001"},
           {"SUCCESS RECV len", "SUCCESS RECV flags=8 len", "WR-DATA-003"},
           {"wc b 9 SUCCESS RECV len=8", "wc b 9 LOC_LEN_ERR", "WR-DATA-001"},
           {"wc b 9 SUCCESS RECV len=8", "wc b 9 WR_FLUSH_ERR", "WR-STATE-006"},
           {"=> wc b 9 SUCCESS RECV len=8\n",
            "=> wc b 9 SUCCESS RECV len=8\n=> wc b 10 SUCCESS RECV len=8\n", "WR-DATA-004"},
           {"=> wc b 9 SUCCESS RECV len=8\n", "=> settled\n", "WR-DATA-001"},
           // The data may be there before the receive completion is polled.
           {"poll b.recv\n=> wc b 9 SUCCESS RECV len=8\n=> mem dst 0 050607\n=> mem dst 16 "
            "0801020304\n",
            "load dst+0 len=24\n=> mem dst 0 050607\n=> mem dst 16 0801020304\npoll b.recv\n=> wc "
            "b 9 SUCCESS RECV len=8\n",
            ""},
       }});
}

TEST(Data, SendWithImm) {
  Check({"SEND_WITH_IMM",
         R"(@rc
recv b wr_id=9 sge=dst+0:16
start a
send_imm a wr_id=1 flags=SIGNALED imm=0x11223344
set_sge a addr=src+0 len=16
complete a
poll b.recv
=> wc b 9 SUCCESS RECV len=16 imm=0x11223344
=> mem dst 0 5a*16
poll a.send
=> wc a 1 SUCCESS SEND
settle
end
)",
         {
             {"imm=0x11223344\n=> mem", "imm=0x44332211\n=> mem", "WR-DATA-002"},
             {" imm=0x11223344\n=> mem", "\n=> mem", "WR-DATA-002"},
             {"SUCCESS RECV len", "SUCCESS RECV_RDMA_WITH_IMM len", "WR-COMP-007"},
             {"len=16 imm", "len=15 imm", "WR-COMP-008"},
         }});
}

TEST(Data, InlineIsCopiedBySetter) {
  Check({"inline data is what it was in the setter",
         R"(@rc
start a
rdma_write a wr_id=1 flags=SIGNALED addr=dst+0
set_inline_list a buf=src+0:4,src+100:2
store src+0 fill=0 len=8
complete a
store src+0 fill=1 len=8
settle
=> mem dst 0 5a*6
poll a.send
=> wc a 1 SUCCESS RDMA_WRITE
end
)",
         {
             {"mem dst 0 5a*6", "mem dst 0 000000005a5a", "WR-INL-007"},
             {"mem dst 0 5a*6", "mem dst 0 010101015a5a", "WR-INL-001"},
             {"mem dst 0 5a*6", "mem dst 0 5a*4", "WR-INL-007"},
         }});
}

TEST(Data, InlineTooLong) {
  Check(
      {"more inline data than max_inline_data",
       R"(@rc
start a
rdma_write a wr_id=1 flags=SIGNALED addr=dst+0
set_inline a addr=src+0 len=65
complete a
=> rc=22
settle
end
)",
       {
           {"=> rc=22\nsettle\n",
            "=> rc=0\nsettle\n=> mem dst 0 5a*65\npoll a.send\n=> wc a 1 SUCCESS RDMA_WRITE\n", ""},
           {"=> rc=22\nsettle\n",
            "=> rc=0\nsettle\n=> mem dst 0 5a*64\npoll a.send\n=> wc a 1 SUCCESS RDMA_WRITE\n",
            "WR-INL-005"},
       }});
}

TEST(Data, SourceMayChangeUntilCompletion) {
  const std::string script = R"(@rc
start a
rdma_write a wr_id=1 flags=SIGNALED addr=dst+0
set_sge a addr=src+0 len=8
complete a
store src+0 fill=1 len=8
settle
=> mem dst 0 5a*8
poll a.send
=> wc a 1 SUCCESS RDMA_WRITE
end
)";
  Check({"S01: old or new, but nothing else",
         script,
         {
             {"mem dst 0 5a*8", "mem dst 0 01*8", ""},
             {"=> mem dst 0 5a*8\n", "", ""},
         }});
  Check({"S02: after its completion the source is the caller's",
         R"(@rc
start a
rdma_write a wr_id=1 flags=SIGNALED addr=dst+0
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 1 SUCCESS RDMA_WRITE
store src+0 fill=1 len=8
settle
=> mem dst 0 5a*8
end
)",
         {{"mem dst 0 5a*8", "mem dst 0 01*8", "WR-DATA-005"}}});
  Check({"COMP-011: the same of a SEND",
         R"(@rc
recv b wr_id=9 sge=dst+0:8
start a
send a wr_id=1 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 1 SUCCESS SEND
store src+0 fill=1 len=8
poll b.recv
=> wc b 9 SUCCESS RECV len=8
=> mem dst 0 5a*8
settle
end
)",
         {{"mem dst 0 5a*8", "mem dst 0 01*8", "WR-DATA-001"}}});
}

TEST(Data, Read) {
  Check({"READ scatters exactly its bytes",
         R"(@rc
store dst+0 bytes=000102030405060708090a0b0c0d0e0f
start a
rdma_read a wr_id=1 flags=SIGNALED addr=dst+2
set_sge_list a sge=src+0:3,src+8:5
complete a
poll a.send
=> wc a 1 SUCCESS RDMA_READ len=8
=> mem src 0 020304
=> mem src 8 0506070809
settle
end
)",
         {
             {"=> mem src 0 020304\n", "", "WR-DATA-009"},
             {"0506070809", "05060708", "WR-DATA-009"},
             {"0506070809", "050607080a", "WR-DATA-009"},
             {"mem src 0 020304", "mem src 0 02030405", "WR-DATA-009"},
             {"mem src 8 0506070809", "mem src 8 0506070809\n=> mem dst 32 01", "WR-DATA-005"},
             {"RDMA_READ len=8", "RDMA_READ len=7", "WR-COMP-008"},
             {"SUCCESS RDMA_READ len", "SUCCESS RDMA_WRITE len", "WR-COMP-006"},
         }});
}

TEST(Data, ReadAfterWriteAndFence) {
  Check({"S14: a READ sees the WRITE before it",
         R"(@rc
start a
rdma_write a wr_id=1 addr=dst+0
set_sge a addr=src+0 len=8
rdma_read a wr_id=2 flags=SIGNALED addr=dst+0
set_sge a addr=src+64 len=8
complete a
store src+128 fill=0 len=8
poll a.send
=> wc a 2 SUCCESS RDMA_READ len=8
=> mem dst 0 5a*8
settle
end
)",
         {{"=> mem dst 0 5a*8", "=> mem dst 0 5a*8\n=> mem src 64 00*8", "WR-DATA-009"}}});
  const std::string fenced = R"(@rc
store dst+0 fill=7 len=8
recv b wr_id=9 sge=dst+64:8
start a
rdma_read a wr_id=1 addr=dst+0
set_sge a addr=src+0 len=8
send a wr_id=2 flags=SIGNALED|FENCE
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 2 SUCCESS SEND
=> mem src 0 07*8
poll b.recv
=> wc b 9 SUCCESS RECV len=8
=> mem dst 64 07*8
settle
end
)";
  Check({"S18: a fenced SEND sends what the READ brought",
         fenced,
         {
             {"mem dst 64 07*8", "mem dst 64 5a*8", "WR-DATA-001"},
             // Without the fence either is allowed.
             {"flags=SIGNALED|FENCE", "flags=SIGNALED", ""},
         }});
  std::string unfenced = fenced;
  unfenced.replace(unfenced.find("|FENCE"), 6, "");
  Check({"S18 without fence", unfenced, {{"mem dst 64 07*8", "mem dst 64 5a*8", ""}}});
  Check({"S15: a READ may be passed by a later WRITE",
         R"(@rc
start a
rdma_read a wr_id=1 addr=dst+0
set_sge a addr=src+64 len=8
rdma_write a wr_id=2 flags=SIGNALED|FENCE addr=dst+0
set_sge a addr=src+0 len=8
complete a
settle
=> mem src 64 00*8
=> mem dst 0 5a*8
poll a.send
=> wc a 2 SUCCESS RDMA_WRITE
end
)",
         {
             {"=> mem src 64 00*8\n", "", "WR-DATA-009"},
             {"flags=SIGNALED|FENCE", "flags=SIGNALED", ""},
         }});
  Check({"S15 without fence",
         R"(@rc
start a
rdma_read a wr_id=1 addr=dst+0
set_sge a addr=src+64 len=8
rdma_write a wr_id=2 flags=SIGNALED addr=dst+0
set_sge a addr=src+0 len=8
complete a
settle
=> mem dst 0 5a*8
poll a.send
=> wc a 2 SUCCESS RDMA_WRITE
end
)",
         {{"=> mem dst 0 5a*8", "=> mem src 64 00*8\n=> mem dst 0 5a*8", ""}}});
}

TEST(Data, LastWriteWins) {
  Check({"S08: two writes to one place",
         R"(@rc
store src+8 fill=2 len=8
start a
rdma_write a wr_id=1 addr=dst+0
set_sge a addr=src+0 len=8
rdma_write a wr_id=2 flags=SIGNALED addr=dst+0
set_sge a addr=src+8 len=8
complete a
poll a.send
=> wc a 2 SUCCESS RDMA_WRITE
load dst+0
=> mem dst 0 5a*8
load dst+0 len=9
settle
=> mem dst 0 02*8
end
)",
         {
             {"settle\n=> mem dst 0 02*8", "settle", "WR-ORD-003"},
             {"load dst+0\n=> mem dst 0 5a*8", "load dst+0\n=> mem dst 0 03*8", "WR-ORD-003"},
         }});
}

TEST(Data, Atomics) {
  Check({"compare and swap, fetch and add",
         R"(@rc
store dst+0 bytes=0500000000000000
start a
atomic_cmp_swp a wr_id=1 flags=SIGNALED addr=dst+0 compare=5 swap=9
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 1 SUCCESS COMP_SWAP len=8
=> mem src 0 0500000000000000
settle
=> mem dst 0 0900000000000000
start a
atomic_cmp_swp a wr_id=2 flags=SIGNALED addr=dst+0 compare=5 swap=7
set_sge a addr=src+8 len=8
complete a
poll a.send
=> wc a 2 SUCCESS COMP_SWAP len=8
=> mem src 8 0900000000000000
start a
atomic_fetch_add a wr_id=3 flags=SIGNALED addr=dst+0 add=0xffffffffffffffff
set_sge a addr=src+16 len=8
complete a
settle
=> mem dst 0 0800000000000000
=> mem src 16 0900000000000000
poll a.send
=> wc a 3 SUCCESS FETCH_ADD len=8
end
)",
         {
             {"mem src 0 05", "mem src 0 04", "WR-DATA-010"},
             {"mem dst 0 09", "mem dst 0 05", "WR-DATA-010"},
             {"mem src 8 09", "mem src 8 09\n=> mem dst 0 07", "WR-DATA-010"},
             {"mem dst 0 08", "mem dst 0 0a", "WR-DATA-011"},
             {"mem src 16 09", "mem src 16 08", "WR-DATA-011"},
             {"SUCCESS FETCH_ADD", "SUCCESS COMP_SWAP", "WR-COMP-006"},
             {"SUCCESS FETCH_ADD len=8", "SUCCESS FETCH_ADD len=4", "WR-COMP-008"},
         }});
}

TEST(Data, SumsAreExact) {
  Check({"S19: two additions without fence",
         R"(@rc
start a
atomic_fetch_add a wr_id=1 addr=dst+0 add=1
set_sge a addr=src+0 len=8
atomic_fetch_add a wr_id=2 flags=SIGNALED addr=dst+0 add=2
set_sge a addr=src+8 len=8
complete a
settle
=> mem dst 0 0300000000000000
=> mem src 0 0000000000000000
=> mem src 8 0100000000000000
poll a.send
=> wc a 2 SUCCESS FETCH_ADD len=8
end
)",
         {
             {"mem dst 0 03", "mem dst 0 02", "WR-DATA-011"},
             {"mem dst 0 03", "mem dst 0 01", "WR-DATA-011"},
             // The other order.
             {"mem src 0 0000000000000000\n=> mem src 8 01",
              "mem src 0 0200000000000000\n=> mem src 8 00", ""},
         }});
}

TEST(Data, AtomicWriteAndFlush) {
  Check({"ATOMIC_WRITE stores its bytes in order; FLUSH changes nothing",
         R"(@rc
start a
atomic_write a wr_id=1 addr=dst+8 bytes=0102030405060708
flush a wr_id=2 flags=SIGNALED addr=dst+0 len=16
complete a
poll a.send
=> wc a 2 SUCCESS FLUSH
settle
=> mem dst 8 0102030405060708
end
)",
         {
             {"mem dst 8 0102030405060708", "mem dst 8 0807060504030201", "WR-DATA-023"},
             {"=> mem dst 8 0102030405060708\n", "", "WR-DATA-023"},
             {"SUCCESS FLUSH", "SUCCESS RDMA_WRITE", "WR-COMP-006"},
             {"mem dst 8 0102030405060708", "mem dst 8 0102030405060708\n=> mem dst 0 01",
              "WR-DATA-005"},
         }});
  Check({"a misaligned ATOMIC_WRITE fails",
         R"(@rc
start a
atomic_write a wr_id=1 flags=SIGNALED addr=dst+4 bytes=0102030405060708
complete a
=> rc=0
poll a.send
=> wc a 1 REM_INV_REQ_ERR
settle
end
)",
         {
             {"1 REM_INV_REQ_ERR", "1 SUCCESS ATOMIC_WRITE", "WR-DATA-024"},
             {"settle", "settle\n=> mem dst 4 01020304", "WR-DATA-024"},
             {"=> rc=0\npoll a.send\n=> wc a 1 REM_INV_REQ_ERR", "=> rc=22", ""},
         }});
}

TEST(Data, ZeroLength) {
  Check({"an empty WRITE_WITH_IMM is delivered whatever its key (WR-DATA-007)",
         R"(@rc
recv b wr_id=9
start a
rdma_write_imm a wr_id=1 flags=SIGNALED rkey=0x1234 addr=0x10 imm=3
set_sge a addr=src+0 len=0
complete a
=> rc=0
poll b.recv
=> wc b 9 SUCCESS RECV_RDMA_WITH_IMM imm=3
poll a.send
=> wc a 1 SUCCESS RDMA_WRITE
settle
end
)",
         {
             {"=> wc a 1 SUCCESS RDMA_WRITE", "=> wc a 1 REM_ACCESS_ERR", "WR-DATA-007"},
             {"IMM imm=3", "IMM imm=3 len=1", "WR-DATA-006"},
             {"=> rc=0", "=> rc=22", "WR-SET-004"},
         }});
}

TEST(Data, SameValueTwice) {
  Check({"a flushed write of what is already there takes nothing back",
         R"(@rc
start a
rdma_write a wr_id=1 flags=SIGNALED addr=dst+0
set_sge a addr=src+0 len=8
rdma_write a wr_id=2 flags=SIGNALED rkey=dst^0x100 addr=dst+0
set_sge a addr=src+0 len=8
rdma_write a wr_id=3 flags=SIGNALED addr=dst+0
set_sge a addr=src+0 len=8
complete a
poll a.send expect=3
=> wc a 1 SUCCESS RDMA_WRITE
=> wc a 2 REM_ACCESS_ERR
=> wc a 3 WR_FLUSH_ERR
=> mem dst 0 5a*8
settle
end
)",
         {{"mem dst 0 5a*8", "mem dst 0 5b*8", "WR-COMP-003"}}});
}

TEST(Data, Overlap) {
  Check({"a WRITE over its own source may leave anything there, and nothing elsewhere",
         R"(@rc
store src+0 bytes=0102030405060708
start a
rdma_write a wr_id=1 flags=SIGNALED addr=src+4
set_sge a addr=src+0 len=8
complete a
settle
=> mem src 0 010203040102030405060708
poll a.send
=> wc a 1 SUCCESS RDMA_WRITE
end
)",
         {{"010203040102030405060708", "010203040102030401020304", ""},
          {"010203040102030405060708", "020203040102030405060708", "WR-DATA-005"},
          {"010203040102030405060708", "01020304010203040506070899", "WR-DATA-005"}}});
}

TEST(Data, EqualValuesOnTheWay) {
  Check({"a write of what is there already is still on its way",
         R"(@slow
store src+8 fill=7 len=8
start a
rdma_write_imm a wr_id=1 addr=dst+0 imm=1
set_sge a addr=dst+128 len=8
complete a
start b
rdma_write b wr_id=2 flags=SIGNALED addr=dst+0
set_sge b addr=src+8 len=8
complete b
poll b.send
=> wc b 2 SUCCESS RDMA_WRITE
settle
=> mem dst 0 07*8
recv b wr_id=9
settle
=> mem dst 0 00*8
end
)",
         {{"b 2 SUCCESS RDMA_WRITE", "b 2 SUCCESS SEND", "WR-COMP-006"},
          {"=> mem dst 0 00*8", "=> mem dst 0 000000000000000001", "WR-DATA-005"}}});
}

TEST(Data, DroppedDatagram) {
  Check({"UC: which of two equal messages was dropped is not known",
         R"(@uc
store src+8 fill=7 len=8
start a
send a wr_id=1 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
settle
recv b wr_id=9 sge=dst+0:8
start a
send a wr_id=2 flags=SIGNALED
set_sge a addr=src+8 len=8
complete a
poll b.recv
=> wc b 9 SUCCESS RECV len=8
=> mem dst 0 07*8
poll a.send expect=2
=> wc a 1 SUCCESS SEND
=> wc a 2 SUCCESS SEND
end
)",
         {{"=> wc b 9 SUCCESS RECV len=8", "=> wc b 9 SUCCESS RECV len=7", "WR-COMP-008"}}});
}

TEST(Data, SecondHandle) {
  Check({"closing a second handle of a QP leaves the QP",
         R"(@xrc
open_qp b2 b xrcd=x
destroy b2
srq_recv s wr_id=9 sge=dst+0:8
start a
send a wr_id=1 flags=SIGNALED
set_xrc_srqn a srqn=s
set_sge a addr=src+0 len=8
complete a
poll cs
=> wc b 9 SUCCESS RECV len=8
=> mem dst 0 5a*8
poll a.send
=> wc a 1 SUCCESS SEND
end
)",
         {{"=> wc a 1 SUCCESS SEND", "=> wc a 1 RETRY_EXC_ERR", "WR-BUILD-001"}}});
}

TEST(Data, SelfConnected) {
  Check({"a QP connected to itself",
         R"(qp a rc ops=0x1bff
connect a a
@mem
recv a wr_id=9 sge=dst+0:8
start a
rdma_write a wr_id=1 addr=dst+8
set_sge a addr=src+0 len=8
send a wr_id=2 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
poll a.recv
=> wc a 9 SUCCESS RECV len=8
=> mem dst 0 5a*16
poll a.send
=> wc a 2 SUCCESS SEND
settle
end
)",
         {{"mem dst 0 5a*16", "mem dst 0 5a*8", "WR-ORD-002"}}});
}

TEST(Data, UnreliableConnected) {
  Check({"UC: a faulty WRITE is dropped silently",
         R"(@uc
start a
rdma_write a wr_id=1 flags=SIGNALED rkey=dst^0x100 addr=dst+0
set_sge a addr=src+0 len=8
complete a
settle
=> state b RTS
start a
rdma_write a wr_id=2 flags=SIGNALED addr=dst+8
set_sge a addr=src+0 len=8
send a wr_id=3 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
poll a.send expect=3
=> wc a 1 SUCCESS RDMA_WRITE
=> wc a 2 SUCCESS RDMA_WRITE
=> wc a 3 SUCCESS SEND
settle
=> mem dst 8 5a*8
end
)",
         {
             {"mem dst 8 5a*8", "mem dst 0 5a*16", "WR-RESP-015"},
             {"a 1 SUCCESS RDMA_WRITE", "a 1 REM_ACCESS_ERR", "WR-RESP-015"},
             {"a 3 SUCCESS SEND", "a 3 RNR_RETRY_EXC_ERR", "WR-RESP-018"},
             {"=> mem dst 8 5a*8\n", "", "WR-DATA-005"},
         }});
  Check({"UC: nobody knows whether a faulty WRITE moved the responder to ERR",
         R"(@uc
start a
rdma_write a wr_id=1 flags=SIGNALED rkey=dst^0x100 addr=dst+0
set_sge a addr=src+0 len=8
rdma_write a wr_id=2 flags=SIGNALED addr=dst+8
set_sge a addr=src+0 len=8
complete a
poll a.send expect=2
=> wc a 1 SUCCESS RDMA_WRITE
=> wc a 2 SUCCESS RDMA_WRITE
settle
end
)",
         {{"settle\n", "settle\n=> mem dst 0 5a*8\n", "WR-RESP-015"}}});
}

TEST(Data, Datagrams) {
  Check({"UD: 40 bytes first, then the payload",
         R"(@ud
recv b wr_id=9 sge=dst+0:64
recv b wr_id=10 sge=dst+64:64
start a
send a wr_id=1 flags=SIGNALED
set_ud_addr a ah=h qpn=b
set_sge a addr=src+0 len=8
send_imm a wr_id=2 flags=SIGNALED imm=7
set_ud_addr a ah=h qpn=b qkey=0x22222222
set_sge a addr=src+0 len=8
complete a
poll a.send expect=2
=> wc a 1 SUCCESS SEND
=> wc a 2 SUCCESS SEND
poll b.recv
=> wc b 9 SUCCESS RECV len=48 src=a flags=1
=> mem dst 0 77*40
=> mem dst 40 5a*8
settle
end
)",
         {
             {"len=48", "len=8", "WR-UD-004"},
             {"mem dst 40 5a*8", "mem dst 40 5a*9", "WR-DATA-005"},
             {"=> mem dst 0 77*40\n=> mem dst 40 5a*8", "=> mem dst 0 5a*8", "WR-DATA-001"},
             {"=> mem dst 40 5a*8\nsettle",
              "=> mem dst 40 5a*8\npoll b.recv\n=> wc b 10 SUCCESS RECV len=48 src=a imm=7 "
              "\nsettle",
              "WR-UD-002"},
             {"=> wc a 2 SUCCESS SEND", "=> wc a 2 REM_OP_ERR", "WR-UD-002"},
             {"=> wc b 9 SUCCESS RECV len=48 src=a flags=1\n", "=> settled\n", "WR-UD-001"},
         }});
}

TEST(Data, SharedReceiveQueue) {
  Check({"receives of an SRQ may be taken in any order",
         R"(srq s n=16
qp a rc ops=SEND
qp b rc ops=SEND srq=s
connect a b
@mem
srq_recv s wr_id=9 sge=dst+0:8
srq_recv s wr_id=10 sge=dst+8:8
start a
send a wr_id=1 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
poll b.recv
=> wc b 10 SUCCESS RECV len=8
=> mem dst 8 5a*8
poll a.send
=> wc a 1 SUCCESS SEND
settle
end
)",
         {
             {"=> wc b 10 SUCCESS RECV len=8\n=> mem dst 8",
              "=> wc b 9 SUCCESS RECV len=8\n=> mem "
              "dst 0",
              ""},
             {"mem dst 8 5a*8", "mem dst 0 5a*8", "WR-DATA-004"},
             {"wc b 10 SUCCESS", "wc b 11 SUCCESS", "WR-COMP-015"},
         }});
}

TEST(Data, Xrc) {
  Check({"XRC: the message goes to the SRQ it names",
         R"(@xrc
srq_recv s wr_id=9 sge=dst+0:8
start a
send a wr_id=1 flags=SIGNALED
set_xrc_srqn a srqn=s
set_sge a addr=src+0 len=8
complete a
poll cs
=> wc b 9 SUCCESS RECV len=8
=> mem dst 0 5a*8
poll a.send
=> wc a 1 SUCCESS SEND
settle
end
)",
         {
             {"mem dst 0 5a*8", "mem dst 0 5b*8", "WR-DATA-001"},
             {"wc b 9 SUCCESS RECV len=8", "wc b 8 SUCCESS RECV len=8", "WR-COMP-015"},
             {"SUCCESS RECV len=8", "SUCCESS RECV len=9", "WR-COMP-008"},
         }});
}

// Found by AFL++: a load that came before another thread's store made the store's value a wrong
// one.
TEST(Data, LoadAndStoreOfTwoThreads) {
  Check({"a load sees memory before or behind the store",
         R"(mr m len=8 access=LOCAL_WRITE
thread t1
parallel
load m+0
=> mem m 0 00*8
t1: store m+0 bytes=63
join
load m+0
=> mem m 0 63
settle
end
)",
         {
             {"=> mem m 0 00*8\n", "=> mem m 0 63\n", ""},
             {"join\nload m+0\n=> mem m 0 63\n", "join\nload m+0\n=> mem m 0 64\n", "WR-DATA-005"},
         }});
}

}  // namespace
}  // namespace qpexam::judge
