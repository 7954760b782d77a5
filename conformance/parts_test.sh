#!/bin/bash
# See parts_test.py.
exec python3 conformance/parts_test.py "$1"
