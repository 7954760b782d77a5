#!/bin/bash
# A verdict as a test, of qpexam_provider(): provider_test.sh QPEXAM SUITES COMMAND PROVIDER.
export QPEXAM_SUITES=$PWD/$2
exec "./$1" "$3" --provider="hosted:$4"
