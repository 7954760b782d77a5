#!/bin/bash
# See readme_test.py. The tree's root is the folder that tests start in.
exec python3 harness/command/readme_test.py "$@"
