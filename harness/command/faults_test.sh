#!/bin/bash
# Each known mistake of the reference is caught by some test of the suites, and breaks little besides its own clause: a
# fault that nothing catches fails here, and one that breaks more than three unrelated clauses.
set -u
export QPEXAM_SUITES=$PWD/$2
"$1" conform --faults --breadth --json="${TEST_TMPDIR:-/tmp}/faults.json" || exit 1
python3 harness/report/validate.py harness/report/qpexam-report-1.schema.json "${TEST_TMPDIR:-/tmp}/faults.json"
