#!/bin/bash
export QPEXAM_SUITES=$PWD/$4
exec python3 harness/command/conform_test.py "$1" "$2" "$3"
