// Errors of requester and responder, states, windows, creation, events.
#include <gtest/gtest.h>

#include "harness/judge/cases.h"

namespace qpexam::judge {
namespace {

// One request that must fail with `status`, under `clause`.
void Fails(const std::string& name, const std::string& setup, const std::string& build,
           const std::string& opcode, const std::string& status, const std::string& clause,
           const std::string& memory = "") {
  std::vector<Break> breaks = {
      {"=> wc a 1 " + status, "=> wc a 1 SUCCESS " + opcode, clause},
      {"=> wc a 1 " + status, "=> settled", "WR-ATOM-007"},
  };
  if (!memory.empty()) breaks.push_back({"settle\n", "settle\n" + memory + "\n", clause});
  Check({name,
         setup + "start a\n" + build + "complete a\npoll a.send\n=> wc a 1 " + status +
             "\nsettle\nend\n",
         breaks});
}

TEST(Errors, RemoteAccess) {
  const std::string sge = "set_sge a addr=src+0 len=8\n";
  const std::string rc = "@rc\nrecv b wr_id=9 sge=dst+128:64\n";
  Fails("unknown rkey", "@rc\n",
        "rdma_write a wr_id=1 flags=SIGNALED rkey=dst^0x100 addr=dst+0\n" + sge, "RDMA_WRITE",
        "REM_ACCESS_ERR", "WR-RESP-005", "=> mem dst 0 5a*8");
  Fails("out of range", "@rc\n", "rdma_write a wr_id=1 flags=SIGNALED addr=dst+252\n" + sge,
        "RDMA_WRITE", "REM_ACCESS_ERR", "WR-LIM-004", "=> mem dst 252 5a*4");
  Fails("before the region", "@rc\n", "rdma_read a wr_id=1 flags=SIGNALED addr=dst-4\n" + sge,
        "RDMA_READ", "REM_ACCESS_ERR", "WR-LIM-004");
  Fails("no right of the region", "@rc\nmr ro len=64 access=REMOTE_READ\n",
        "rdma_write a wr_id=1 flags=SIGNALED addr=ro+0\n" + sge, "RDMA_WRITE", "REM_ACCESS_ERR",
        "WR-RESP-005", "=> mem ro 0 5a*8");
  Fails("of another pd", "@rc\npd p\nmr other pd=p len=64 access=LOCAL_WRITE|REMOTE_WRITE\n",
        "rdma_write a wr_id=1 flags=SIGNALED addr=other+0\n" + sge, "RDMA_WRITE", "REM_ACCESS_ERR",
        "WR-RESP-005", "=> mem other 0 5a*8");
  Fails("deregistered", "@rc\nmr gone len=64 access=LOCAL_WRITE|REMOTE_WRITE\ndestroy gone\n",
        "rdma_write a wr_id=1 flags=SIGNALED addr=gone+0\n" + sge, "RDMA_WRITE", "REM_ACCESS_ERR",
        "WR-RESP-005");
  Fails("no right of the QP", "qp a rc ops=0x1bff\nqp b rc\nconnect a b access=REMOTE_READ\n@mem\n",
        "rdma_write a wr_id=1 flags=SIGNALED addr=dst+0\n" + sge, "RDMA_WRITE", "REM_INV_REQ_ERR",
        "WR-RESP-007", "=> mem dst 0 5a*8");
  Fails("misaligned atomic", "@rc\n",
        "atomic_fetch_add a wr_id=1 flags=SIGNALED addr=dst+4 add=1\n" + sge, "FETCH_ADD",
        "REM_INV_REQ_ERR", "WR-DATA-013", "=> mem dst 4 01");
  Fails("flush without the right", "@rc\nmr p len=64 access=LOCAL_WRITE|REMOTE_WRITE\n",
        "flush a wr_id=1 flags=SIGNALED addr=p+0 len=8\n", "FLUSH", "REM_ACCESS_ERR",
        "WR-DATA-018");
  Fails("flush of an unknown key", "@rc\n",
        "flush a wr_id=1 flags=SIGNALED rkey=dst^0x300 addr=dst+0 len=8\n", "FLUSH",
        "REM_ACCESS_ERR", "WR-DATA-032");
  Fails("atomic write without REMOTE_WRITE", "@rc\nmr ro len=64 access=REMOTE_READ\n",
        "atomic_write a wr_id=1 flags=SIGNALED addr=ro+0 bytes=0101010101010101\n", "ATOMIC_WRITE",
        "REM_ACCESS_ERR", "WR-DATA-033", "=> mem ro 0 01*8");
  Fails("write_imm to a bad key", rc,
        "rdma_write_imm a wr_id=1 flags=SIGNALED rkey=dst^0x100 addr=dst+0\n" + sge, "RDMA_WRITE",
        "REM_ACCESS_ERR", "WR-RESP-005");
}

TEST(Errors, Local) {
  Fails(
      "unknown lkey", "@rc\n",
      "rdma_write a wr_id=1 flags=SIGNALED addr=dst+0\nset_sge a addr=src+0 lkey=src^0x100 len=8\n",
      "RDMA_WRITE", "LOC_PROT_ERR", "WR-RESP-010", "=> mem dst 0 5a*8");
  Fails("lkey out of range", "@rc\n",
        "rdma_write a wr_id=1 flags=SIGNALED addr=dst+0\nset_sge a addr=src+252 len=8\n",
        "RDMA_WRITE", "LOC_PROT_ERR", "WR-RESP-010");
  Fails("read without LOCAL_WRITE", "@rc\nmr ro len=64 fill=1 access=0\n",
        "rdma_read a wr_id=1 flags=SIGNALED addr=dst+0\nset_sge a addr=ro+0 len=8\n", "RDMA_READ",
        "LOC_PROT_ERR", "WR-RESP-010", "=> mem ro 0 00*8");
  Fails("lkey of another pd", "@rc\npd p\nmr other pd=p len=64 access=LOCAL_WRITE\n",
        "rdma_write a wr_id=1 flags=SIGNALED addr=dst+0\nset_sge a addr=other+0 len=8\n",
        "RDMA_WRITE", "LOC_PROT_ERR", "WR-RESP-010");
}

TEST(Errors, Receiver) {
  const std::string send = "send a wr_id=1 flags=SIGNALED\nset_sge a addr=src+0 len=16\n";
  Fails("no receive", "@rc\n", send, "SEND", "RNR_RETRY_EXC_ERR", "WR-RESP-001");
  Fails("receive too short", "@rc\nrecv b wr_id=9 sge=dst+0:15\n", send, "SEND", "REM_INV_REQ_ERR",
        "WR-RESP-008");
  Fails("receive with a bad key", "@rc\nrecv b wr_id=9 sge=dst+0:16@dst^0x100\n", send, "SEND",
        "REM_OP_ERR", "WR-RESP-009");
  const std::string receive =
      "@rc\nrecv b wr_id=9 sge=dst+240:17\nstart a\nsend a wr_id=1 flags=SIGNALED\n";
  const std::string good =
      "set_sge a addr=src+0 len=16\ncomplete a\npoll a.send\n=> wc a 1 SUCCESS SEND\n"
      "poll b.recv\n=> wc b 9 SUCCESS RECV len=16\n=> mem dst 240 5a*16\nsettle\n=> state a "
      "RTS\n=> state b RTS\n";
  const std::string bad =
      "set_sge a addr=src+0 len=17\ncomplete a\npoll a.send\n=> wc a 1 SUCCESS SEND\n"
      "poll b.recv\n=> wc b 9 SUCCESS RECV len=17\n=> mem dst 240 5a*16\nsettle\n=> state a "
      "RTS\n=> state b RTS\n";
  const std::string refused =
      "set_sge a addr=src+0 len=16\ncomplete a\npoll a.send\n=> wc a 1 REM_OP_ERR\n"
      "poll b.recv\n=> wc b 9 LOC_PROT_ERR\nsettle\n=> state a ERR\n=> state b ERR\n";
  Check({"a receive that ends behind its region may take what fits",
         receive + good + "end\n",
         {{good, bad, "WR-RESP-009"}}});
  Check({"... or be refused whole",
         receive + refused + "end\n",
         {{"=> wc b 9", "=> wc b 8", "WR-COMP-015"}}});
  Check({"an atomic with four bytes of buffer may fail",
         "@rc\nstart a\natomic_fetch_add a wr_id=1 flags=SIGNALED addr=dst+0 add=1\n"
         "set_sge a addr=src+0 len=4\ncomplete a\nsettle\n=> state a ERR\n=> state b RTS\n"
         "poll a.send\n=> wc a 1 LOC_LEN_ERR\nend\n",
         {{"=> wc a 1 LOC_LEN_ERR", "=> wc a 7 LOC_LEN_ERR", "WR-SAMPLE-005"}}});
  Check({"the receiver's side of a short receive",
         "@rc\nrecv b wr_id=9 sge=dst+0:15\nstart a\n" + send +
             "complete a\npoll a.send\n=> wc a 1 REM_INV_REQ_ERR\npoll b.recv\n=> wc b 9 "
             "LOC_LEN_ERR\nsettle\n=> state a ERR\n=> state b ERR\nend\n",
         {
             {"=> wc b 9 LOC_LEN_ERR", "=> wc b 9 SUCCESS RECV len=16", "WR-RESP-008"},
             {"=> wc b 9 LOC_LEN_ERR", "=> wc b 9 SUCCESS RECV len=15", "WR-COMP-008"},
             {"state b ERR", "state b RTS", "WR-RESP-016"},
         }});
  Check({"RNR leaves the responder as it is",
         "@rc\nstart a\n" + send +
             "complete a\npoll a.send\n=> wc a 1 RNR_RETRY_EXC_ERR\nsettle\n=> state a ERR\n=> "
             "state b RTS\nend\n",
         {
             {"state b RTS", "state b ERR", "WR-STATE-013"},
             {"state a ERR", "state a RTS", "WR-RESP-016"},
         }});
  Check({"a receive in time",
         "@rc\nstart a\n" + send +
             "complete a\nrecv b wr_id=9 sge=dst+0:16\npoll a.send\n=> wc a 1 SUCCESS SEND\npoll "
             "b.recv\n=> wc b 9 SUCCESS RECV len=16\n=> mem dst 0 5a*16\nsettle\nend\n",
         {
             {"=> wc a 1 SUCCESS SEND\npoll b.recv\n=> wc b 9 SUCCESS RECV len=16\n=> mem dst 0 "
              "5a*16\n",
              "=> wc a 1 RNR_RETRY_EXC_ERR\n", ""},
             {"=> wc a 1 SUCCESS SEND", "=> wc a 1 REM_ACCESS_ERR", "WR-RESP-001"},
         }});
}

TEST(Errors, ReceiveInTimeForWrite) {
  Check(
      {"a WRITE_WITH_IMM is retried until its receive is there",
       "@rc\nstart a\nrdma_write_imm a wr_id=1 flags=SIGNALED addr=dst+0 imm=2\nset_sge a "
       "addr=src+0 len=8\ncomplete a\nrecv b wr_id=9\nsettle\n=> mem dst 0 5a*8\npoll a.send\n=> "
       "wc a "
       "1 SUCCESS RDMA_WRITE\npoll b.recv\n=> wc b 9 SUCCESS RECV_RDMA_WITH_IMM imm=2 len=8\nend\n",
       {{"=> mem dst 0 5a*8\npoll a.send\n=> wc a 1 SUCCESS RDMA_WRITE\npoll b.recv\n=> wc b 9 "
         "SUCCESS "
         "RECV_RDMA_WITH_IMM imm=2 len=8\n",
         "poll a.send\n=> wc a 1 RNR_RETRY_EXC_ERR\n", ""}}});
}

TEST(Errors, BehindOneThatWaits) {
  Check({"what waits may fail once its receive is there, and takes the rest with it",
         "@slow\nmw w\nstart a\nsend_inv a wr_id=1 flags=SIGNALED invalidate=w+5\nset_inline a "
         "addr=src+0 "
         "len=8\ncomplete a\nsettle\nstart a\nrdma_write a wr_id=2 flags=SIGNALED "
         "addr=dst+0\nset_sge a "
         "addr=src+0 len=8\ncomplete a\nrecv b wr_id=9 sge=dst+64:8\nsettle\n=> state a ERR\n=> "
         "state b "
         "ERR\npoll a.send expect=2\n=> wc a 1 RETRY_EXC_ERR\n=> wc a 2 WR_FLUSH_ERR\nend\n",
         {{"=> wc a 2 WR_FLUSH_ERR", "=> wc a 2 SUCCESS RDMA_WRITE", "WR-COMP-003"}}});
}

TEST(Errors, NoPeer) {
  const std::string write =
      "rdma_write a wr_id=1 flags=SIGNALED addr=dst+0\nset_sge a addr=src+0 len=8\n";
  Fails("peer destroyed", "@rc\ndestroy b\n", write, "RDMA_WRITE", "RETRY_EXC_ERR", "WR-RESP-004",
        "=> mem dst 0 5a*8");
  Fails("peer in RESET", "@rc\nmodify b state=RESET\n", write, "RDMA_WRITE", "RETRY_EXC_ERR",
        "WR-RESP-004", "=> mem dst 0 5a*8");
  Fails("peer in ERR", "@rc\nmodify b state=ERR\n", write, "RDMA_WRITE", "RETRY_EXC_ERR",
        "WR-RESP-004", "=> mem dst 0 5a*8");
  Check(
      {"timeout 0 never ends by time",
       "qp a rc ops=0x1bff\nqp b rc\nconnect a b timeout=0\n@mem\nmodify b state=RESET\nstart a\n" +
           write + "complete a\nsettle\npoll a.send expect=0\nend\n",
       {{"poll a.send expect=0", "poll a.send\n=> wc a 1 RETRY_EXC_ERR", "WR-RESP-017"}}});
}

TEST(States, Transitions) {
  Check({"the way up, and what is not on it",
         R"(qp a rc ops=SEND
modify a state=INIT
=> rc=0
=> state a INIT
modify a state=RTS
=> rc=22
=> state a INIT
modify a state=RTR without=RQ_PSN
=> rc=22 
=> state a INIT
modify a state=INIT qkey=5
=> rc=22  
=> state a INIT
modify a state=RESET
=> rc=0 
=> state a RESET
end
=> state a RESET
)",
         {
             {"=> rc=22\n=> state a INIT", "=> rc=0\n=> state a RTS", "WR-STATE-008"},
             {"=> rc=22 \n", "=> rc=0\n", "WR-STATE-009"},
             {"=> rc=22  \n", "=> rc=0\n", "WR-STATE-010"},
             {"=> rc=22\n=> state a INIT", "=> rc=22\n=> state a RTS", "WR-STATE-008"},
             {"=> rc=0 \n=> state a RESET", "=> rc=22\n=> state a INIT", "WR-STATE-012"},
             {"=> rc=0\n=> state a INIT", "=> rc=0\n=> state a RESET", "WR-STATE-013"},
             {"=> rc=0\n=> state a INIT", "=> rc=0\n=> state a INIT cached=RESET", "WR-STATE-013"},
         }});
}

TEST(States, ClaimedState) {  // WR-STATE-011
  Check({"a device may go by the state that the caller claims",
         R"(qp a rc ops=SEND
modify a state=INIT
=> rc=0
=> state a INIT
modify a state=RTS cur_state=RTS
=> rc=0 
=> state a RTS
end
=> state a RTS
)",
         {
             {"modify a state=RTS cur_state=RTS", "modify a state=RTS cur_state=INIT",
              "WR-STATE-008"},
         }});
}

TEST(States, Error) {
  Check({"going to ERR flushes everything",
         R"(@slow
recv a wr_id=20 sge=src+128:8
recv a wr_id=21 sge=src+136:8
start a
send a wr_id=1 flags=SIGNALED
set_sge a addr=src+0 len=8
send a wr_id=2
set_sge a addr=src+0 len=8
complete a
modify a state=ERR
=> state a ERR
start a
send a wr_id=3 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
=> rc=0
settle
poll a.send expect=3
=> wc a 1 WR_FLUSH_ERR
=> wc a 2 WR_FLUSH_ERR
=> wc a 3 WR_FLUSH_ERR
poll a.recv expect=2
=> wc a 20 WR_FLUSH_ERR
=> wc a 21 WR_FLUSH_ERR
end
)",
         {
             {"=> wc a 1 WR_FLUSH_ERR", "=> wc a 1 RETRY_EXC_ERR", ""},
             {"=> wc a 2 WR_FLUSH_ERR", "=> wc a 2 RETRY_EXC_ERR", "WR-COMP-003"},
             {"=> wc a 2 WR_FLUSH_ERR\n", "", "WR-COMP-003"},
             {"=> wc a 3 WR_FLUSH_ERR\n", "", "WR-COMP-003"},
             {"=> wc a 1 WR_FLUSH_ERR\n=> wc a 2 WR_FLUSH_ERR\n=> wc a 3 WR_FLUSH_ERR\n", "",
              "WR-STATE-006"},
             {"=> wc a 21 WR_FLUSH_ERR\n", "", "WR-STATE-006"},
             {"=> wc a 20 WR_FLUSH_ERR\n=> wc a 21 WR_FLUSH_ERR\n",
              "=> wc a 21 WR_FLUSH_ERR\n=> wc a 20 WR_FLUSH_ERR\n", "WR-DATA-004"},
             {"=> rc=0\nsettle\npoll a.send expect=3\n=> wc a 1 WR_FLUSH_ERR\n=> wc a 2 "
              "WR_FLUSH_ERR\n=> wc a 3 WR_FLUSH_ERR",
              "=> rc=22\nsettle\npoll a.send expect=2\n=> wc a 1 WR_FLUSH_ERR\n=> wc a 2 "
              "WR_FLUSH_ERR",
              ""},
             {"=> state a ERR", "=> state a RTS", "WR-STATE-013"},
         }});
}

TEST(States, ReceiveInReset) {
  Check(
      {"receives in RESET are refused, from INIT on accepted",
       "qp a rc ops=SEND\n@mem\nrecv a wr_id=1 sge=dst+0:8\n=> rc=22\nmodify a state=INIT\nrecv a "
       "wr_id=2 sge=dst+0:8\n=> rc=0\nend\n",
       {{"=> rc=22", "=> rc=0", "WR-STATE-014"}, {"=> rc=0", "=> rc=22", "WR-STATE-014"}}});
}

TEST(States, Reset) {
  Check({"RESET forgets what was outstanding; old completions may still be polled",
         R"(@slow
start a
send a wr_id=1 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
modify a state=RESET
=> state a RESET
poll a.send expect=0
modify b state=RESET
connect a b
recv b wr_id=9 sge=dst+0:8
start a
send a wr_id=2 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 2 SUCCESS SEND
poll b.recv
=> wc b 9 SUCCESS RECV len=8
=> mem dst 0 5a*8
settle
end
)",
         {
             {"=> wc a 2 SUCCESS SEND", "=> wc a 1 WR_FLUSH_ERR\n=> wc a 2 SUCCESS SEND", ""},
             {"=> wc a 2 SUCCESS SEND", "=> wc a 3 SUCCESS SEND", "WR-SAMPLE-001"},
         }});
}

TEST(Windows, BindUseInvalidate) {
  Check({"a window gives the rights asked for, until it is invalidated",
         R"(@rc
mw w
start b
bind_mw b wr_id=1 flags=SIGNALED mw=w addr=dst+0 len=64 access=REMOTE_WRITE
complete b
poll b.send
=> wc b 1 SUCCESS BIND_MW
start a
rdma_write a wr_id=2 flags=SIGNALED rkey=w+1 addr=dst+0
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 2 SUCCESS RDMA_WRITE
=> mem dst 0 5a*8
settle
start b
local_inv b wr_id=3 flags=SIGNALED invalidate=w+1
complete b
poll b.send
=> wc b 3 SUCCESS LOCAL_INV
start a
rdma_write a wr_id=4 flags=SIGNALED rkey=w+1 addr=dst+8
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 4 REM_ACCESS_ERR
settle
end
)",
         {
             {"b 1 SUCCESS BIND_MW", "b 1 MW_BIND_ERR", "WR-MW-004"},
             {"b 1 SUCCESS BIND_MW", "b 1 SUCCESS LOCAL_INV", "WR-COMP-006"},
             {"a 2 SUCCESS RDMA_WRITE", "a 2 REM_ACCESS_ERR", "WR-BUILD-001"},
             {"b 3 SUCCESS LOCAL_INV", "b 3 MW_BIND_ERR", "WR-MW-009"},
             {"a 4 REM_ACCESS_ERR", "a 4 SUCCESS RDMA_WRITE", "WR-RESP-005"},
         }});
}

TEST(Windows, BindMistakes) {
  const std::string end = "complete b\n=> rc=0\npoll b.send\n=> wc b 1 MW_BIND_ERR\nsettle\nend\n";
  struct Mistake {
    const char* name;
    const char* setup;
    const char* bind;
    const char* clause;
  };
  const Mistake mistakes[] = {
      {"no MW_BIND right", "mr m len=64 access=LOCAL_WRITE|REMOTE_WRITE\n",
       "mw=w addr=m+0 len=8 access=REMOTE_WRITE", "WR-MW-005"},
      {"write window over read-only memory", "mr m len=64 access=MW_BIND|REMOTE_READ\n",
       "mw=w addr=m+0 len=8 access=REMOTE_WRITE", "WR-MW-005"},
      {"mr of another pd", "pd p\nmr m pd=p len=64 access=MW_BIND|LOCAL_WRITE|REMOTE_WRITE\n",
       "mw=w addr=m+0 len=8 access=REMOTE_WRITE", "WR-MW-005"},
      {"length 0", "", "mw=w addr=dst+0 len=0 access=REMOTE_WRITE", "WR-MW-006"},
      {"outside the region", "", "mw=w addr=dst+252 len=8 access=REMOTE_WRITE", "WR-MW-017"},
  };
  for (const Mistake& m : mistakes) {
    Check({m.name,
           std::string("@rc\nmw w\n") + m.setup + "start b\nbind_mw b wr_id=1 flags=SIGNALED " +
               m.bind + "\n" + end,
           {{"b 1 MW_BIND_ERR", "b 1 SUCCESS BIND_MW", m.clause},
            {"=> rc=0\npoll b.send\n=> wc b 1 MW_BIND_ERR", "=> rc=22", ""}}});
  }
}

TEST(Windows, SendWithInvalidate) {
  Check({"the key is dead before the receive completion",
         R"(@rc
mw w
start b
bind_mw b wr_id=1 flags=SIGNALED mw=w addr=dst+0 len=64 access=REMOTE_WRITE
complete b
poll b.send
=> wc b 1 SUCCESS BIND_MW
recv b wr_id=9 sge=dst+128:8
start a
send_inv a wr_id=2 flags=SIGNALED invalidate=w+1
set_sge a addr=src+0 len=8
complete a
poll b.recv
=> wc b 9 SUCCESS RECV len=8 inv=w+1
=> mem dst 128 5a*8
poll a.send
=> wc a 2 SUCCESS SEND
start a
rdma_write a wr_id=3 flags=SIGNALED rkey=w+1 addr=dst+0
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 3 REM_ACCESS_ERR
settle
end
)",
         {
             {" inv=w+1\n=> mem", "\n=> mem", "WR-DATA-003"},
             {" inv=w+1\n=> mem", " inv=w+2\n=> mem", "WR-DATA-003"},
             {"a 3 REM_ACCESS_ERR", "a 3 SUCCESS RDMA_WRITE", "WR-RESP-005"},
         }});
}

TEST(Windows, Deregister) {
  Check({"a region with a window cannot go",
         R"(@rc
mw w
start b
bind_mw b wr_id=1 flags=SIGNALED mw=w addr=dst+0 len=64 access=REMOTE_WRITE
complete b
poll b.send
=> wc b 1 SUCCESS BIND_MW
destroy dst
=> rc=16
destroy w
=> rc=0
settle
end
)",
         {{"=> rc=16", "=> rc=0", "WR-MW-014"}, {"=> rc=0", "=> rc=16", "WR-MW-014"}}});
}

TEST(Creation, Operations) {
  Check({"what Table A does not have is refused",
         "qp a ud ops=SEND|RDMA_READ\n=> rc=95\nqp b rc ops=0x2000\n=> rc=22\nqp c rc ops=SEND "
         "sq=10\n=> granted=16,16,4,4,64\nend\n",
         {
             {"=> rc=95", "=> granted=16,16,4,4,64", "WR-CREATE-002"},
             {"=> rc=22", "=> granted=16,16,4,4,64", "WR-CREATE-002"},
             {"=> granted=16,16,4,4,64", "=> granted=9,16,4,4,64", "WR-CREATE-003"},
             {"=> granted=16,16,4,4,64", "=> granted=16,16,4,4,63", "WR-CREATE-003"},
             {"=> granted=16,16,4,4,64", "=> rc=22", "WR-CREATE-001"},
         }});
  Check({"XRC_RECV takes no send operations",
         "xrcd x\nqp b xrc_recv xrcd=x ops=SEND\n=> rc=22\nend\n",
         {{"=> rc=22", "=> rc=0", "WR-XRC-005"}}});
  Check(
      {"a QP in a multicast group is not destroyed",
       "qp a ud ops=SEND\nconnect a\nattach_mcast a\ndestroy a\n=> rc=16\ndetach_mcast a\ndestroy "
       "a\n=> rc=0\nend\n",
       {{"=> rc=16", "=> rc=0", "WR-CREATE-017"}}});
}

TEST(Events, OneShot) {
  Check({"one event an arming",
         R"(channel ch
cq c n=16 channel=ch
qp a rc ops=SEND
qp b rc ops=SEND recv_cq=c
connect a b
@mem
recv b wr_id=9 sge=dst+0:8
recv b wr_id=10 sge=dst+0:8
poll c expect=0
=> settled
arm c
start a
send a wr_id=1 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
get_cq_event ch
=> event c
poll c
=> wc b 9 SUCCESS RECV len=8
=> mem dst 0 5a*8
get_cq_event ch
=> rc=11
=> settled
poll a.send
=> wc a 1 SUCCESS SEND
settle
end
)",
         {
             {"=> rc=11\n=> settled", "=> event c", "WR-EVT-001"},
             {"get_cq_event ch\n=> event c", "load dst+0", "WR-EVT-004"},
         }});
  Check(
      {"armed for solicited completions",
       R"(channel ch
cq c n=16 channel=ch
qp a rc ops=SEND
qp b rc ops=SEND recv_cq=c
connect a b
@mem
recv b wr_id=9 sge=dst+0:8
poll c expect=0
=> settled
arm c solicited
start a
send a wr_id=1 flags=SIGNALED
set_sge a addr=src+0 len=8
complete a
poll a.send
=> wc a 1 SUCCESS SEND
get_cq_event ch
=> rc=11
=> settled
poll c
=> wc b 9 SUCCESS RECV len=8
=> mem dst 0 5a*8
settle
end
)",
       {
           {"=> rc=11\n=> settled", "=> event c", "WR-EVT-002"},
           {"flags=SIGNALED\nset_sge a addr=src+0 len=8\ncomplete a\npoll a.send\n=> wc a 1 "
            "SUCCESS SEND\nget_cq_event ch\n=> rc=11\n=> settled",
            "flags=SIGNALED|SOLICITED\nset_sge a addr=src+0 len=8\ncomplete a\npoll a.send\n=> wc "
            "a 1 SUCCESS SEND\nget_cq_event ch\n=> event c",
            ""},
       }});
}

TEST(Events, Overrun) {
  Check({"no CQ_ERR without an overrun",
         "@rc\ncq c n=4\nget_async_event\n=> rc=11\n=> settled\nend\n",
         {{"=> rc=11\n=> settled", "=> async CQ_ERR c", "WR-COMP-012"},
          {"=> rc=11\n=> settled", "=> async SQ_DRAINED a", "WR-STATE-003"},
          {"=> rc=11\n=> settled", "=> async QP_LAST_WQE_REACHED a", "WR-RESP-020"},
          {"=> rc=11\n=> settled", "=> async QP_ACCESS_ERR a", "WR-RESP-006"}}});
}

}  // namespace
}  // namespace qpexam::judge
