"""Runs the commands of the documents, and compares what they print with what a document shows.

In a ```console block a line "$ ./qpexam ..." must end with status 0, or 1 where the shown output tells of findings; the
lines below it are what it prints. A line "..." stands for any lines. Numbers and runs of spaces count as equal: times
differ, and the corpus grows.

Commands in other blocks and in `...` of the text are run as well, for their status: 1 on a faulty reference, 3 where a
device or a guest is asked for (no test opens one), else 0. What is only a placeholder there is replaced (PLACES), and
what would take minutes is run over a part (LESS).

usage: readme_test.py QPEXAM [--shown] DOCUMENT...   --shown: only those whose output the document shows
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile

SEED = "corpus/seeds/01-manual-example.qpx"
PLACES = [
    (r"\bNAME\b", "flags-of-previous-request"),
    (r"WR-(GROUP-nnn|\.\.\.)", "WR-COMP-001"),
    (r"\bP\b", "faulty:flags-of-previous-request"),
    (r"\bCOMMAND\b", "run"),
    (r"^(\S*/)?(NEW|FILE)(\.qpx)?$|(?<==)FILE$", SEED),
    (r"^[AB]\.json$", "before.json"),
    (r"^\S*\.qpx\.trace$", "trace.txt"),
    (r"(?<=--seconds=)\d+", "1"),
]
# What a command is given besides where its whole run is another test's.
LESS = {
    "conform": ["--group=SAMPLE"],
    "check": ["--filter=build"],
    "fuzz": ["--output=findings", "--runs=20"],
}
# Commands whose argument is not a program.
GIVEN = {("judge", SEED): "trace.txt", ("report", SEED): "before.json"}


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


def mentioned(text):
    """Each other command: in blocks that are not ```console, and between backticks in the text."""
    prose, blocks = [], []
    for i, part in enumerate(re.split(r"^```(.*)\n", text, flags=re.M)):
        if i % 4 == 0:
            prose.append(part)
        elif i % 4 == 2:
            blocks.append(part)
    for block in blocks:
        if block.startswith("$ "):
            continue
        for line in block.splitlines():
            if re.match(r"\s*(\w+=\S* )*\./qpexam(\s|$)", line):
                yield line
    for span in re.findall(r"`([^`]+)`", "\n".join(prose)):
        span = " ".join(span.split())
        if re.match(r"(\w+=\S* )*(\./)?qpexam [a-z-]", span):
            yield span


def matches(expected, printed):
    """Whether the lines fit, with "..." for any number of them."""
    if not expected:
        return not printed
    if expected[0].strip() == "...":
        return any(matches(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and normal(expected[0]) == normal(printed[0]) and matches(expected[1:], printed[1:])


def words_of(command):
    """The arguments as the test gives them, and the status to expect; no arguments where there is nothing to run."""
    words = shlex.split(command, comments=True)
    while "=" in words[0] and not words[0].startswith("-"):
        words.pop(0)  # the launcher's variables
    words = words[1:]
    if not words or words[0] in ("test", "exec") or "packaged:" in command or words[-1] == "...":
        return [], 0  # the launcher's own tests and //harness/packaged's; a sentence
    for i, word in enumerate(words):
        for pattern, value in PLACES:
            words[i] = re.sub(pattern, value, words[i])
        words[i] = GIVEN.get((words[0], words[i]), words[i])
    # A name alone, in a sentence about what the command is for.
    if len(words) == 1 and words[0] in ("run", "fmt", "judge", "report", "minimize", "emit-c", "diff"):
        return ["help", words[0]], 0
    if words[:2] == ["conform", "--faults"] and not any(w.startswith("--fault=") for w in words):
        words.append("--fault=flags-of-previous-request")
    elif not any(w.startswith(("--group", "--filter", "--fault", "--runs")) for w in words):
        words += LESS.get(words[0], [])
    joined = " ".join(words)
    if "device:" in joined or "vm:" in joined:
        return words, 3
    if "--engine=libfuzzer" in joined or "--engine=afl" in joined:
        return words, 4  # the launcher builds those; the program alone says so
    return words, 1 if "faulty:" in joined and words[0] != "minimize" else 0


def main():
    shown_only = "--shown" in sys.argv
    qpexam, documents = os.path.abspath(sys.argv[1]), [os.path.abspath(d) for d in sys.argv[2:] if d != "--shown"]
    root = os.getcwd()
    failures, ran = 0, 0
    with tempfile.TemporaryDirectory() as work:
        os.symlink(os.path.join(root, "corpus"), os.path.join(work, "corpus"))
        environment = dict(os.environ, QPEXAM_VM_CACHE=os.path.join(work, "vm"))

        def run(words, **more):
            return subprocess.run([qpexam] + words, capture_output=True, text=True, timeout=600, cwd=work,
                                  stdin=subprocess.DEVNULL, **more)

        for words in (["check", "--provider=reference", "--filter=build", "--json=before.json"],
                      ["check", "--provider=reference", "--filter=build", "--json=after.json"],
                      ["run", SEED, "--trace=trace.txt"]):
            done = run(words, env=environment)
            if done.returncode != 0:
                print("%s: status %d\n%s" % (" ".join(words), done.returncode, done.stderr))
                return 1
        # Without apt, and with an empty cache, no guest can be had: none is booted by mistake.
        bare = dict(environment, PATH="/nonexistent")
        seen = set()
        for document in documents:
            with open(document, encoding="utf-8") as file:
                text = file.read()
            name = os.path.relpath(document, root)
            for command, expected in examples(text):
                words = shlex.split(command)
                if words[0] != "./qpexam" or words[1] == "test":
                    continue  # the launcher's own tests run those
                ran += 1
                done = run(words[1:], env=environment)
                printed = done.stdout.splitlines()
                findings = any(line.startswith("violation ") for line in expected)
                if done.returncode != (1 if findings else 0):
                    print("%s: %s\n  ended with status %d\n%s" % (name, command, done.returncode, done.stderr))
                    failures += 1
                elif not matches([l for l in expected if l.strip()], [l for l in printed if l.strip()]):
                    print("%s: %s\n  prints something else than the document shows:\n%s" % (name, command, done.stdout))
                    failures += 1
            for command in [] if shown_only else mentioned(text):
                words, status = words_of(command)
                if not words or tuple(words) in seen:
                    continue
                seen.add(tuple(words))
                ran += 1
                done = run(words, env=bare if status == 3 else environment)
                if done.returncode != status:
                    print("%s: %s\n  run as: %s\n  ended with status %d, not %d\n%s%s" %
                          (name, command, " ".join(words), done.returncode, status, done.stdout[-2000:], done.stderr))
                    failures += 1
    if not ran:
        print("no document holds a command")
        failures += 1
    print("%d commands ran, %d failed" % (ran, failures))
    return 1 if failures else 0


sys.exit(main())
