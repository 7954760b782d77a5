#!/bin/bash -eu
# The same build as OSS-Fuzz's.
exec bash -eu "$SRC/qpexam/fuzzers/oss-fuzz/build.sh"
