#!/usr/bin/env python3
"""Counts the test cases that really ran, from Bazel's build event files (--build_event_json_file).

count_tests.py EVENTS.json...

Prints "N passed, N failed, N skipped" over all files as its last line, with one line for each test case that failed
before it. A case is a GoogleTest case, or a whole program that reports none. A target that failed without a failed
case (a sanitizer's report at exit, a crash, a timeout, no build) counts as one failure. Exits 0 when nothing failed
and something passed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field


@dataclass
class Counts:
    passed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)


def cases_of(path):
    """Yields (name, outcome) for each case in a test.xml; outcome is passed, failed or skipped."""
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.get("status") == "notrun":  # filtered out, or another shard's
            continue
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed"
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            yield name, "skipped"
        else:
            yield name, "passed"


def count_target(counts, label, result):
    """Adds one run of one shard of a test target."""
    failed_before = len(counts.failures)
    for output in result.get("testActionOutput", []):
        if output["name"] != "test.xml":
            continue
        path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
        try:
            for name, outcome in cases_of(path):
                if outcome == "failed":
                    counts.failures.append(f"{label} {name}")
                elif outcome == "skipped":
                    counts.skipped += 1
                else:
                    counts.passed += 1
        except (OSError, ET.ParseError) as error:
            counts.failures.append(f"{label} has no readable test.xml: {error}")
    if result["status"] not in ("PASSED", "FLAKY") and len(counts.failures) == failed_before:
        counts.failures.append(f"{label} {result['status']}")


def count_file(counts, path):
    with open(path, encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            if "testResult" in event:
                count_target(counts, event["id"]["testResult"]["label"], event["testResult"])
            elif event.get("testSummary", {}).get("overallStatus") == "FAILED_TO_BUILD":
                counts.failures.append(event["id"]["testSummary"]["label"] + " does not build")
            elif "aborted" in event and "targetCompleted" in event["id"]:
                counts.failures.append(event["id"]["targetCompleted"]["label"] + " does not build")


def main(paths):
    counts = Counts()
    for path in paths:
        try:
            count_file(counts, path)
        except (OSError, ValueError, KeyError) as error:
            counts.failures.append(f"{path} is no complete event file: {error!r}")
    for failure in counts.failures:
        print("FAILED", failure)
    print(f"{counts.passed} passed, {len(counts.failures)} failed, {counts.skipped} skipped")
    return 1 if counts.failures or not counts.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
