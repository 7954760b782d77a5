#!/bin/bash
# The whole corpus conforms on the reference, misuse and regressions included: what the first command of the README runs.
# And the seeds reach every state and status.
set -u
"$1" check --provider=reference --corpus=corpus --strict --json="${TEST_TMPDIR:-/tmp}/check.json" || exit 1
python3 harness/report/validate.py harness/report/qpexam-report-1.schema.json "${TEST_TMPDIR:-/tmp}/check.json" || exit 1
python3 harness/command/corpus_test.py "$1" corpus/seeds/*.qpx
