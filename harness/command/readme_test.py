"""Runs the commands of a document and compares what they print with what the document shows.

In a ```console block a line "$ ./qpexam ..." is run in the root of the tree and must end with status 0, or 1 where the
shown output tells of findings; the lines below it are what it prints. A line "..." stands for any lines. Numbers and
runs of spaces count as equal: times differ, and the corpus grows.

usage: readme_test.py QPEXAM DOCUMENT...
"""

import os
import re
import shlex
import subprocess
import sys


def normal(line):
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.]*", "N", line)).strip()


def examples(text):
    """(command, expected lines) of each command in ```console blocks."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.S | re.M):
        command, lines = None, []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, lines
                command, lines = line[2:], []
            else:
                lines.append(line)
        if command:
            yield command, lines


def matches(expected, printed):
    """Whether the lines fit, with "..." for any number of them."""
    if not expected:
        return not printed
    if expected[0].strip() == "...":
        return any(matches(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and normal(expected[0]) == normal(printed[0]) and matches(expected[1:], printed[1:])


def main():
    qpexam, documents = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failures, ran = 0, 0
    for document in documents:
        with open(document, encoding="utf-8") as file:
            text = file.read()
        for command, expected in examples(text):
            words = shlex.split(command)
            if words[0] != "./qpexam" or words[1] == "test":
                continue  # the launcher's own tests run those
            ran += 1
            done = subprocess.run([qpexam] + words[1:], capture_output=True, text=True, timeout=600,
                                  stdin=subprocess.DEVNULL)
            printed = done.stdout.splitlines()
            findings = any(line.startswith("violation ") for line in expected)
            if done.returncode != (1 if findings else 0):
                print("%s: %s\n  ended with status %d\n%s" % (document, command, done.returncode, done.stderr))
                failures += 1
            elif not matches([l for l in expected if l.strip()], [l for l in printed if l.strip()]):
                print("%s: %s\n  prints something else than the document shows:\n%s" % (document, command, done.stdout))
                failures += 1
    if not ran:
        print("no document holds a command")
        failures += 1
    print("%d commands ran, %d failed" % (ran, failures))
    return 1 if failures else 0


sys.exit(main())
