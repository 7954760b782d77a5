#!/bin/bash
# A provider with known deviations: `check` and `conform` see each of them, count them apart and end with status 0.
# known_deviations_test.sh QPEXAM SUITES PROVIDER [COMMAND...]
set -u
qpexam=$PWD/$1
export QPEXAM_SUITES=$PWD/$2
provider=$3
shift 3
[ $# -gt 0 ] || set -- check conform

failures=0
for command in "$@"; do
  out=$TEST_TMPDIR/$command
  "$qpexam" $command --provider="$provider" > "$out" 2>&1 < /dev/null
  status=$?
  if [ $status != 0 ]; then
    echo "FAILED: qpexam $command --provider=$provider ends with status $status"
    grep -v '^  skipped' "$out" | tail -150
    failures=$((failures + 1))
  fi
done
exit $((failures > 0))
