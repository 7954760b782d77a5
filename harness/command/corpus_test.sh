#!/bin/bash
# The whole corpus conforms on the reference, misuse and regressions included: what the first command of the README runs.
set -u
"$1" check --provider=reference --corpus=corpus --strict --json="${TEST_TMPDIR:-/tmp}/check.json" || exit 1
python3 harness/report/validate.py harness/report/qpexam-report-1.schema.json "${TEST_TMPDIR:-/tmp}/check.json"
