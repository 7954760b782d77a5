#!/bin/bash
# Stand-in for Bazel's LcovMerger: joins a test's lcov files (*.dat) and drops the records of filtered sources.
set -eu

dir=
out=
filters=()
for arg in "$@"; do
  case "$arg" in
    --coverage_dir=*) dir=${arg#*=} ;;
    --output_file=*) out=${arg#*=} ;;
    --filter_sources=*) filters+=("${arg#*=}") ;;
  esac
done

dropped=$(IFS='|'; echo "${filters[*]}")
find "$dir" -name '*.dat' -print0 | sort -z | xargs -0 -r cat | awk -v dropped="^(${dropped})$" '
  /^SF:/           { keep = (substr($0, 4) !~ dropped) }
  keep             { print }
  /^end_of_record/ { keep = 0 }' > "$out"
