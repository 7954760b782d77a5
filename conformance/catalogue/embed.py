"""Turns groups.tsv and clauses/*.tsv into C++ tables; refuses data it does not understand.

usage: embed.py groups.tsv exempt.tsv clauses/a.tsv clauses/b.tsv ... > clauses.inc
"""

import os
import sys

HEADER = ["id", "level", "confidence", "layer", "dangerous", "statement", "source",
          "how to test", "untested"]
LEVELS = {"MUST": "kMust", "SHOULD": "kShould", "MAY": "kMay", "UNDEFINED": "kUndefined"}
CONFIDENCES = {"H": "kHigh", "M": "kMedium", "L": "kLow"}
LAYERS = {"lib": "kLib", "kernel": "kKernel", "device": "kDevice"}
DANGEROUS = {"yes": "true", "no": "false"}


def fail(path, line, message):
    sys.exit("%s:%d: %s" % (path, line, message))


def rows(path):
    """Yields (line number, cells) of a file, header first."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            yield number, line.rstrip("\n").split("\t")


def quoted(text):
    """A C++ string literal. Octal escapes: a following digit can never join them."""
    out = []
    for byte in text.encode("utf-8"):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append("\\%03o" % byte)
    return '"' + "".join(out) + '"'


def pick(table, value, path, line, what):
    if value not in table:
        fail(path, line, "%s is '%s', expected one of %s" % (what, value, ", ".join(table)))
    return table[value]


def exemptions(path):
    """Returns {(clause, "rule" or "fault"): why} of the clauses that lack a rule or a fault."""
    out = {}
    for line, cells in rows(path):
        if line == 1:
            if cells != ["clause", "lacks", "why"]:
                fail(path, line, "the header must be: clause lacks why")
            continue
        if len(cells) != 3 or not cells[2]:
            fail(path, line, "expected a clause, what it lacks, and why")
        if cells[1] not in ("rule", "fault"):
            fail(path, line, "lacks is '%s', expected rule or fault" % cells[1])
        if (cells[0], cells[1]) in out:
            fail(path, line, "%s lacks a %s twice" % (cells[0], cells[1]))
        out[cells[0], cells[1]] = cells[2]
    return out


def clauses(path, group, exempt):
    """Returns the initialisers of one group's file, checking ids and columns; takes from exempt."""
    out = []
    for line, cells in rows(path):
        if line == 1:
            if cells != HEADER:
                fail(path, line, "the header must be: " + " ".join(HEADER))
            continue
        if len(cells) != len(HEADER):
            fail(path, line, "%d columns, expected %d" % (len(cells), len(HEADER)))
        ident, level, confidence, layer, dangerous, statement, source, test, untested = cells
        expected = "WR-%s-%03d" % (group, line - 1)
        if ident != expected:
            fail(path, line, "id is '%s', expected '%s'" % (ident, expected))
        if not (statement and source and test and untested):
            fail(path, line, "an empty cell ('-' means none)")
        out.append("    {%s, %s, Level::%s, Confidence::%s, Layer::%s, %s,\n     %s,\n     %s,\n"
                   "     %s,\n     %s,\n     %s, %s},"
                   % (quoted(ident), quoted(group), pick(LEVELS, level, path, line, "level"),
                      pick(CONFIDENCES, confidence, path, line, "confidence"),
                      pick(LAYERS, layer, path, line, "layer"),
                      pick(DANGEROUS, dangerous, path, line, "dangerous"), quoted(statement),
                      quoted(source), quoted(test), quoted("" if untested == "-" else untested),
                      quoted(exempt.pop((ident, "rule"), "")),
                      quoted(exempt.pop((ident, "fault"), ""))))
    return out


def main(groups_path, exempt_path, paths):
    exempt = exemptions(exempt_path)
    files = {os.path.splitext(os.path.basename(path))[0].upper(): path for path in paths}
    groups, body = [], []
    for line, cells in rows(groups_path):
        if line == 1:
            continue
        if len(cells) != 7:
            fail(groups_path, line, "%d columns, expected 7" % len(cells))
        if cells[0] not in files:
            fail(groups_path, line, "no file clauses/%s.tsv" % cells[0].lower())
        groups.append("    {%s, %s, %s}," % (quoted(cells[0]), quoted(cells[1]), ", ".join(cells[2:])))
        body += clauses(files.pop(cells[0]), cells[0], exempt)
    if files:
        fail(groups_path, 1, "no line for the groups of " + ", ".join(sorted(files.values())))
    if exempt:
        fail(exempt_path, 1, "no such clauses: " + ", ".join(sorted(name for name, _ in exempt)))
    print("constexpr Clause kClauses[] = {\n%s\n};\n" % "\n".join(body))
    print("constexpr Group kGroups[] = {\n%s\n};" % "\n".join(groups))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
