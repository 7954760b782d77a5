#!/bin/bash
# verbs_version_test.sh PROGRAM EXPECTED: which libibverbs the program uses.
set -eu
found=$("$1")
[ "$found" = "$2" ] || { echo "$1 uses libibverbs '$found', expected '$2'" >&2; exit 1; }
