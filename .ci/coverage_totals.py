"""Sums coverage/lcov.info up by room: usage: coverage_totals.py LCOV.INFO [FOLDER]

Tables of data (*.inc) and helpers of tests (*testing.h) are no code to be covered and are left out. With FOLDER each of its
files is a line, with the numbers of the lines and of the branches that nothing took.
"""

import collections
import os
import sys

ROOMS = ("conformance", "fuzzers", "harness", "reference")


def main(path, folder=None):
    root = os.getcwd() + "/"
    totals = collections.OrderedDict()
    with open(path, encoding="utf-8") as file:
        for line in file:
            key, _, value = line.rstrip("\n").partition(":")
            if key == "SF":
                name = value[len(root):] if value.startswith(root) else value
                lines, branches = {}, {}
            elif key == "DA":
                number, count = value.split(",")[:2]
                lines[int(number)] = max(lines.get(int(number), 0), int(count))
            elif key == "BRDA":
                number, block, branch, count = value.split(",")
                at = (int(number), block, branch)
                branches[at] = max(branches.get(at, 0), 0 if count == "-" else int(count))
            elif key == "end_of_record":
                for room in ROOMS:  # also where the path is one of Bazel's own folders
                    at = name.find("/" + room + "/") + 1
                    if at or name.startswith(room + "/"):
                        break
                else:
                    continue
                name = name[at:]
                if name.endswith((".inc", "testing.h")) or (folder and not name.startswith(folder)):
                    continue
                group = name if folder else "/".join(name.split("/")[:2])
                total = totals.setdefault(group, [0, 0, 0, 0, [], []])
                missed = [number for number, count in sorted(lines.items()) if not count]
                untaken = [key[0] for key, count in sorted(branches.items()) if not count]
                for i, n in enumerate((len(lines), len(lines) - len(missed), len(branches), len(branches) - len(untaken))):
                    total[i] += n
                total[4] += missed
                total[5] += untaken
    whole = [0, 0, 0, 0]
    for name in sorted(totals):
        total = totals[name]
        whole = [a + b for a, b in zip(whole, total)]
        report(name, total)
        if folder and (total[4] or total[5]):
            print("    lines", *total[4])
            print("    branches", *total[5])
    report("all", whole)


def report(name, total):
    print("%-40s lines %5.1f %% of %6d   branches %5.1f %% of %6d"
          % (name, 100 * total[1] / max(total[0], 1), total[0], 100 * total[3] / max(total[2], 1), total[2]))


if __name__ == "__main__":
    main(*sys.argv[1:])
