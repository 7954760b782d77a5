"""`qpexam conform` and `qpexam report` as a CI system meets them: what is written fits the schema, the same run writes
the same bytes, and whatever contradicts the expectations fails the run.

conform_test.py QPEXAM SCHEMA EXPECTATIONS
"""

import copy
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ET

QPEXAM, SCHEMA, EXPECTATIONS = (os.path.abspath(path) for path in sys.argv[1:4])

spec = importlib.util.spec_from_file_location("validate", os.path.join(os.path.dirname(SCHEMA), "validate.py"))
validate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(validate)

# A fault that breaks one clause: what it fails, by hand from the suite.
FAULT = "faulty:fence-flag-lost"
FAULT_FILTER = "Ord.FencedOperationsSeeTheRead/send"
FAULT_CLAUSE = "WR-ORD-005"


def without_timing(path):
    """The bytes of a report apart from its `timing` object."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    stripped, count = re.subn(r'"timing": \{[^{}]*\}', '"timing": {}', text)
    assert count == 1, path
    return stripped


class Conform(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        # Two whole runs: the tree's expectations, and others that the reference does not meet.
        with open(EXPECTATIONS, encoding="utf-8") as file:
            cls.known = file.read()
        cls.first = cls.run_in(cls.folder, 0, "conform", "--json=a.json", "--junit=a.xml", "--html=a")
        cls.wrong = cls.write("wrong.tsv",
                              "reference\t*\tWR-ATOM-002\tNo.SuchTest\tviolation\tnever\t-\n"
                              "skips\treference\t0\n")
        cls.second = cls.run_in(cls.folder, 1, "conform", "--json=b.json", "--expectations=wrong.tsv")

    @classmethod
    def run_in(cls, folder, status, *arguments):
        ran = subprocess.run([QPEXAM, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, text=True, check=False)
        if ran.returncode != status:
            raise AssertionError(f"status {ran.returncode} instead of {status}: {arguments}\n{ran.stdout[-3000:]}")
        return ran.stdout

    def qpexam(self, status, *arguments):
        return self.run_in(self.folder, status, *arguments)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, text):
        with open(cls.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def load(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def fits(self, name):
        with open(SCHEMA, encoding="utf-8") as file:
            schema = json.load(file)
        self.assertEqual(list(validate.errors(schema, self.load(name), schema)), [])

    # --- the forms ---

    def test_the_reports_fit_the_schema(self):
        self.qpexam(1, "conform", f"--provider=reference,{FAULT}", f"--filter={FAULT_FILTER}", "--json=f.json")
        self.qpexam(0, "check", "--provider=reference", "--filter=atom", "--json=check.json")
        self.qpexam(1, "report", "a.json", "f.json", "--json=differ.json", "--html=differ")
        self.qpexam(0, "report", "a.json", "--json=sum.json")
        for name in ("a.json", "b.json", "f.json", "check.json", "differ.json", "sum.json"):
            with self.subTest(name):
                self.fits(name)
        self.assertIn({"provider": FAULT, "clause": "", "before": "absent", "after": "present"},
                      self.load("differ.json")["differences"])

    def test_the_schema_check_can_fail(self):
        with open(SCHEMA, encoding="utf-8") as file:
            schema = json.load(file)
        broken = copy.deepcopy(self.load("a.json"))
        broken["effort"] = "some"
        del broken["providers"]["reference"]["counts"]["tests"]
        broken["extra"] = 1
        self.assertEqual(len(list(validate.errors(schema, broken, schema))), 3)

    def test_a_report_names_what_it_found(self):
        self.qpexam(1, "conform", f"--provider={FAULT}", f"--filter={FAULT_FILTER}", "--json=g.json")
        provider = self.load("g.json")["providers"][FAULT]
        self.assertEqual(provider["clauses"][FAULT_CLAUSE]["verdict"], "violation")
        finding = provider["findings"][0]
        self.assertEqual((finding["kind"], finding["clause"], finding["where"]),
                         ("violation", FAULT_CLAUSE, FAULT_FILTER))
        self.assertTrue(finding["what"] and finding["allowed"])
        # The line that it gives as the program shows the finding again.
        self.qpexam(1, *finding["program"].split()[1:])

    def test_junit_is_well_formed_and_counts_right(self):
        root = ET.parse(self.path("a.xml")).getroot()
        suites = list(root.iter("testsuite"))
        self.assertEqual([suite.get("name") for suite in suites], ["reference"])
        cases = list(suites[0].iter("testcase"))
        counts = self.load("a.json")["providers"]["reference"]["counts"]
        self.assertEqual(len(cases), counts["tests"])
        self.assertEqual(int(suites[0].get("tests")), counts["tests"])
        self.assertEqual(sum(case.find("skipped") is not None for case in cases), counts["skipped"])
        self.assertEqual(int(suites[0].get("skipped")), counts["skipped"])
        self.assertEqual(int(suites[0].get("failures")), 0)
        for case in cases:
            if case.find("skipped") is not None:
                self.assertTrue(case.find("skipped").get("message"), f"{case.get('name')}: skipped without a reason")
        self.qpexam(1, "conform", f"--provider={FAULT}", f"--filter={FAULT_FILTER}", "--junit=f.xml")
        failed = [case for case in ET.parse(self.path("f.xml")).getroot().iter("testcase")
                  if case.find("failure") is not None]
        self.assertEqual([f"{case.get('classname')}.{case.get('name')}" for case in failed], [f"{FAULT}.{FAULT_FILTER}"])

    def test_the_page_is_one_file_with_the_data(self):
        with open(self.path("a/index.html"), encoding="utf-8") as file:
            page = file.read()
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))
        self.assertEqual(len(data["clauses"]), 287)
        self.assertEqual(len(data["tests"]), self.load("a.json")["providers"]["reference"]["counts"]["tests"])
        self.assertEqual(re.findall(r'(?:src|href)="(?!#)', page), [])

    def test_the_same_run_writes_the_same_bytes(self):
        self.assertEqual(without_timing(self.path("a.json")), without_timing(self.path("b.json")))
        for name in ("c.json", "d.json"):
            self.qpexam(0, "check", "--provider=reference", "--filter=build", f"--json={name}")
        self.assertEqual(without_timing(self.path("c.json")), without_timing(self.path("d.json")))

    # --- how it runs ---

    def test_strict_makes_a_warning_fail_the_run(self):
        # A fault of a clause that is only SHOULD.
        fault, clause = "faulty:no-drained-event", "WR-STATE-003"
        run = ["conform", f"--provider={fault}", "--group=STATE"]
        told = self.qpexam(0, *run, "--json=told.json", "--junit=told.xml")
        self.assertNotRegex(told, rf"(?m)^warning {clause} ")
        strict = self.qpexam(1, *run, "--strict", "--json=strict.json", "--junit=strict.xml")
        self.assertRegex(strict, rf"(?m)^warning {clause} in State\.")
        for name, failures in (("told", 0), ("strict", 1)):
            self.assertEqual(self.load(f"{name}.json")["providers"][fault]["clauses"][clause]["verdict"], "warning")
            self.assertEqual(len(list(ET.parse(self.path(f"{name}.xml")).getroot().iter("failure"))), failures)
        # And where nothing warns it changes nothing.
        self.qpexam(0, "conform", "--group=STATE", "--strict")

    def test_groups_and_levels_choose_the_tests_that_name_them(self):
        named = {}
        listed = subprocess.run([os.environ["QPEXAM_SUITES"], "--list_clauses"], stdout=subprocess.PIPE, text=True,
                                check=True).stdout
        for line in listed.splitlines():
            test, clause = line.split("\t")
            named.setdefault(clause, set()).add(test)
        self.qpexam(0, "clauses", "--json=clauses.json")
        clauses = self.load("clauses.json")
        by = {c["id"]: c for c in (clauses["clauses"] if isinstance(clauses, dict) else clauses)}
        for flags, wanted in ((["--group=ATOM"], lambda c: c["group"] == "ATOM"),
                              (["--level=may"], lambda c: c["level"] == "MAY"),
                              (["--group=ud", "--group=STATE", "--level=should"],
                               lambda c: c["group"] in ("UD", "STATE") and c["level"] == "SHOULD")):
            with self.subTest(flags):
                expected = set().union(*(tests for id, tests in named.items() if wanted(by[id])))
                self.qpexam(0, "conform", *flags, "--junit=chosen.xml")
                ran = {f"{case.get('classname')}.{case.get('name')}".split(".", 1)[1]
                       for case in ET.parse(self.path("chosen.xml")).getroot().iter("testcase")}
                self.assertEqual(ran, expected)
                self.assertTrue(ran)
        self.qpexam(2, "conform", "--group=NONE")
        self.qpexam(2, "conform", "--level=perhaps")

    # --- ends that nobody planned ---

    def start(self, *arguments):
        """Starts a run of the suites; also the folder by which its processes are told."""
        folder = tempfile.mkdtemp(dir=self.folder)
        started = subprocess.Popen([QPEXAM, *arguments], cwd=self.folder, env={**os.environ, "TMPDIR": folder},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   text=True)
        return started, folder

    def await_processes(self, folder, good):
        """Waits until `good` holds for the number of processes of the suites whose results lie in `folder`."""
        count = -1
        for _ in range(600):
            count = 0
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        count += folder.encode() in file.read()
                except OSError:
                    pass
            if good(count):
                return
            time.sleep(0.1)
        self.fail(f"{count} processes")

    def test_no_child_outlives_a_killed_run(self):
        # Supervisor, worker, and the test's own child, which hangs.
        run, folder = self.start("conform", "--provider=faulty:failed-complete-keeps-lock",
                                 "--filter=Crit.FailedCompleteReleasesTheRegion/too_many_sges")
        self.await_processes(folder, lambda count: count >= 3)
        run.kill()
        run.communicate()
        self.await_processes(folder, lambda count: count == 0)

    def test_an_interrupt_leaves_a_report(self):
        run, folder = self.start("conform", "--effort=full", "--json=interrupted.json")
        self.await_processes(folder, lambda count: count >= 2)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, out)
        self.assertIn("interrupted; this is what was found until then", out)
        self.fits("interrupted.json")
        self.assertTrue(self.load("interrupted.json")["interrupted"])
        self.await_processes(folder, lambda count: count == 0)

    def test_a_full_disk_is_said_and_costs_only_the_file(self):
        out = self.qpexam(2, "conform", f"--provider={FAULT}", f"--filter={FAULT_FILTER}", "--json=/dev/full")
        self.assertIn("/dev/full: not all could be written: ", out)
        self.assertRegex(out, rf"(?m)^violation {FAULT_CLAUSE} in {FAULT_FILTER}: ")

    # --- expectations ---

    def test_an_entry_that_nothing_used_fails_a_whole_run(self):
        self.assertRegex(self.second, r"(?m)^unused expectation WR-ATOM-002 in No\.SuchTest: line 1 ")

    def test_more_skips_than_the_bound_fail_a_whole_run(self):
        self.assertRegex(self.second, r"(?m)^too many skips: \d+ tests were skipped, line 2 of the expectations")

    def test_the_tree_bounds_the_skips_of_each_provider_it_names(self):
        named = {line.split("\t")[0] for line in self.known.splitlines() if line and line[0] != "#"} - {"skips"}
        bounded = {line.split("\t")[1] for line in self.known.splitlines() if line.startswith("skips\t")}
        self.assertEqual(named - bounded, set())
        self.assertIn("reference", bounded)

    def test_every_skip_says_why(self):
        skipped = [line for line in self.first.splitlines() if line.startswith("  skipped ")]
        self.assertEqual(sum(int(line.split()[1].rstrip(":")) for line in skipped),
                         self.load("a.json")["providers"]["reference"]["counts"]["skipped"])
        self.assertNotIn("no reason given", self.first)

    def test_an_unexpected_failure_fails_the_run(self):
        self.write("none.tsv", "# nothing is known\n")
        out = self.qpexam(1, "conform", f"--provider={FAULT}", f"--filter={FAULT_FILTER}", "--expectations=none.tsv")
        self.assertRegex(out, rf"(?m)^violation {FAULT_CLAUSE} in {FAULT_FILTER}: ")

    def test_an_expected_failure_does_not(self):
        self.write("known.tsv", f"{FAULT}\t*\t{FAULT_CLAUSE}\t{FAULT_FILTER}\tviolation\tit is a fault\t-\n")
        out = self.qpexam(0, "conform", f"--provider={FAULT}", f"--filter={FAULT_FILTER}", "--expectations=known.tsv",
                          "--json=known.json")
        self.assertIn("1 known deviations seen", out)
        self.assertIn(f"known {FAULT_CLAUSE}: it is a fault (1 test; -)", out)
        with open(os.path.join(self.folder, "known.json"), encoding="utf-8") as file:
            provider = json.load(file)["providers"][FAULT]
        self.assertEqual([f["known"] for f in provider["findings"]], ["it is a fault"])
        self.assertEqual((provider["counts"]["known"], provider["counts"]["violation"]), (1, 0))

    def test_an_unexpected_pass_fails_the_run(self):
        self.write("passes.tsv", f"reference\t*\t{FAULT_CLAUSE}\t{FAULT_FILTER}\tviolation\tit was one\t-\n")
        out = self.qpexam(1, "conform", f"--filter={FAULT_FILTER}", "--expectations=passes.tsv")
        self.assertRegex(out, rf"(?m)^unexpected pass {FAULT_CLAUSE} in {FAULT_FILTER}: conforms where line 1 ")

    def test_an_entry_of_another_version_does_not_count(self):
        self.write("old.tsv", f"{FAULT}\t..43.9\t{FAULT_CLAUSE}\t{FAULT_FILTER}\tviolation\tmended\t-\n")
        self.qpexam(1, "conform", f"--provider={FAULT}", f"--filter={FAULT_FILTER}", "--expectations=old.tsv")

    def test_a_malformed_file_is_refused_with_its_line(self):
        self.write("bad.tsv", "# c\nreference\t*\n")
        self.assertIn("bad.tsv:2: ", self.qpexam(2, "conform", f"--filter={FAULT_FILTER}", "--expectations=bad.tsv"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
