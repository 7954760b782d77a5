"""Turns shapes.tsv into the table of conformance/suites/litmus_suite.cc; refuses data it does not understand.

usage: embed.py shapes.tsv > shapes.inc
"""

import sys

HEADER = ["id", "init", "program", "show", "allowed", "forbidden", "verdict", "confidence", "clause", "model",
          "enumerated", "source"]


def main(path):
    seen = set()
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            cells = line.rstrip("\n").split("\t")

            def fail(message, number=number):
                sys.exit(f"{path}:{number}: {message}")

            if number == 1:
                if cells != HEADER:
                    fail("the header must be: " + " ".join(HEADER))
                continue
            if len(cells) != len(HEADER) or not all(cells):
                fail(f"{len(cells)} columns, expected {len(HEADER)}, none of them empty")
            row = dict(zip(HEADER, cells))
            seen.add(row["id"][:3])
            if row["program"] == "-":  # shown by another test, or by none for the reason given
                continue
            if row["verdict"] not in ("MUST", "MAY") or row["confidence"] not in ("H", "M", "L"):
                fail("verdict is MUST or MAY, confidence H, M or L")
            cells = [row[name] for name in HEADER[:10]]
            print("    {%s}," % ", ".join('"%s"' % cell for cell in cells))
    missing = [f"S{n:02}" for n in range(1, 41) if f"S{n:02}" not in seen]
    if missing:
        sys.exit(f"{path}: no row for " + ", ".join(missing))


if __name__ == "__main__":
    main(sys.argv[1])
