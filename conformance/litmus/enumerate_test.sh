#!/bin/bash
# The data is complete under the three models of order, and the check can fail.
set -u
data=conformance/litmus/shapes.tsv
python3 conformance/litmus/enumerate.py --check "$data" || exit 1
sed 's/^\(S08\t.*\)\t2\t-\tMUST/\1\t1 2\t-\tMUST/' "$data" > "$TEST_TMPDIR/wrong.tsv"
cmp -s "$data" "$TEST_TMPDIR/wrong.tsv" && { echo "S08 is not as this test thinks"; exit 1; }
if python3 conformance/litmus/enumerate.py --check "$TEST_TMPDIR/wrong.tsv"; then
  echo "a set with a member too many was accepted"
  exit 1
fi
