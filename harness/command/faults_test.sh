#!/bin/bash
# Each known mistake of the reference is caught by some test of the suites: a fault that nothing catches fails here.
set -u
export QPEXAM_SUITES=$PWD/$2
"$1" conform --faults --json="${TEST_TMPDIR:-/tmp}/faults.json" || exit 1
python3 harness/report/validate.py harness/report/qpexam-report-1.schema.json "${TEST_TMPDIR:-/tmp}/faults.json"
