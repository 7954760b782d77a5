#!/bin/bash
export QPEXAM_SUITES=$PWD/$2
exec python3 harness/command/page_test.py "$1"
