#!/bin/bash
# Stand-in for Bazel's coverage report generator: joins the reports of all tests.
set -eu

reports=
out=
for arg in "$@"; do
  case "$arg" in
    --reports_file=*) reports=${arg#*=} ;;
    --output_file=*) out=${arg#*=} ;;
  esac
done

: > "$out"
while read -r report; do
  cat "$report" >> "$out"
done < "$reports"
