"""The functions of a provider that posting and polling reach, and which of their lines ran.

usage: reachable.py FOLDER LCOV

The roots are what FOLDER's sources assign to wr_* members, post_send, post_recv, post_srq_recv, poll_cq, and the polling
members of ibv_cq_ex; where that is a macro's doing, the functions that the macro names. A function reaches each function of FOLDER that its text names. Reading text finds more than a compiler
would (a name in a comment), never less. One line a function: name, place, lines that ran, lines; below it the lines that did
not. The last line is the total.
"""

import os
import re
import sys

MEMBER = (r"(?:wr_\w+|post_send|post_recv|post_srq_recv|poll_cq|start_poll|next_poll|end_poll|read_\w+)")
ROOT = re.compile(r"[.>]\s*" + MEMBER + r"\s*=\s*&?\s*(\w+)")


def functions(path):
    """(name, first line, last line, text) of each function defined in a file in the kernel's style."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")
    for start, line in enumerate(lines):
        if line != "{":
            continue
        head = start
        while head > 0 and lines[head - 1].strip() and not lines[head - 1].startswith(("}", "#", "/", " *")):
            head -= 1
        name = re.search(r"(\w+)\s*\(", "\n".join(lines[head:start]))
        end = next((i for i in range(start, len(lines)) if lines[i].startswith("}")), None)
        if name and end is not None:
            yield name.group(1), head + 1, end + 1, "\n".join(lines[start:end])


def main(folder, lcov):
    defined, roots, macros = {}, set(), []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not name.endswith((".c", ".h")):
            continue
        for function, first, last, text in functions(path):
            defined.setdefault(function, []).append((name, first, last, text))
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        roots |= set(ROOT.findall(text))
        macros += [set(re.findall(r"\w+", macro)) for macro in re.findall(r"^#define (?:.*\\\n)*.*", text, re.M)]
    for root in [name for name in roots if name not in defined]:
        roots |= set().union(*(macro for macro in macros if root in macro))
    reached, new = set(), [name for name in roots if name in defined]
    while new:
        name = new.pop()
        if name in reached:
            continue
        reached.add(name)
        for _, _, _, text in defined[name]:
            new += [word for word in set(re.findall(r"\w+", text)) if word in defined and word not in reached]

    ran, file = {}, None
    with open(lcov, encoding="utf-8") as data:
        for line in data:
            key, _, value = line.rstrip("\n").partition(":")
            if key == "SF":
                at = os.path.basename(folder) + "/"
                file = os.path.basename(value) if ("/providers/" + at) in value else None
            elif key == "DA" and file:
                number, count = value.split(",")[:2]
                ran[(file, int(number))] = max(ran.get((file, int(number)), 0), int(count))

    all_lines = all_ran = 0
    for name in sorted(reached):
        for file, first, last, _ in defined[name]:
            lines = [n for n in range(first, last + 1) if (file, n) in ran]
            missed = [n for n in lines if not ran[(file, n)]]
            if not lines:  # never compiled for this machine
                continue
            all_lines += len(lines)
            all_ran += len(lines) - len(missed)
            print("%s %s:%d %d of %d" % (name, file, first, len(lines) - len(missed), len(lines)))
            if missed:
                print("    " + " ".join(map(str, missed)))
    if not all_lines:
        sys.exit("%s: no line of a function that posting or polling reaches was compiled" % folder)
    print("%d functions, %d of %d lines ran, %.1f %%" % (len(reached), all_ran, all_lines, 100.0 * all_ran / all_lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
