#!/bin/bash
# Each program named was built.
set -u
failures=0
for file in "$@"; do
  [ -s "$file" ] || { echo "FAILED: $file is empty or missing"; failures=$((failures + 1)); }
done
[ $# -gt 0 ] || { echo 'FAILED: no program was named'; failures=1; }
exit $((failures > 0))
