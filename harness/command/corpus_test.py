"""The seeds reach what they are there for, by what happens when they run on the reference.

usage: corpus_test.py QPEXAM SEED...

Every state of a QP, and every status that a completion of either side can have on a device that is as
the specification says. (That every cell of table A, setter and offset of the ring is there is seen in
the programs themselves: //harness/program:corpus_test.)
"""

import os
import re
import subprocess
import sys
import tempfile

STATES = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"]
# Those of the group RESP, and REM_INV_RD_REQ_ERR for an unknown SRQ number (WR-XRC-004). Not among them: the other statuses
# of RD, those of tag matching, LOC_ACCESS_ERR, which is another provider's choice (WR-RESP-015), and those that only a
# broken device gives.
STATUSES = ["SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR", "REM_INV_REQ_ERR",
            "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "REM_INV_RD_REQ_ERR"]
FIRST = ("state-", "resp-", "xrc-", "mw-", "sge-")  # where most of them are


def main(qpexam, seeds):
    missing = set(STATES + STATUSES)
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace")
        for seed in sorted(seeds, key=lambda path: (not os.path.basename(path).startswith(FIRST), path)):
            subprocess.run([qpexam, "run", "--provider=reference", "--trace=" + trace, seed], check=True,
                           stdout=subprocess.DEVNULL)
            with open(trace, encoding="utf-8") as file:
                text = file.read().split("\nevents\n", 1)[1]
            missing -= set(re.findall(r"\b(?:cached|status)=([A-Z_]+)", text))
            if not missing:
                return
    sys.exit("no seed reaches " + ", ".join(sorted(missing)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
