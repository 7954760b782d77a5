"""The suites in parts: as shards of a test runner, and in blocks of one run. No part may lose a test, run one twice or
find something else, also where a test hangs and its process starts anew.

parts_test.py SUITES
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

SUITES = os.path.abspath(sys.argv[1])
FILTER = "Atom.*:Ord.*:Crit.*:Litmus.*"
# A fault that makes a test of these suites hang.
HANGS = "faulty:complete-waits-for-others"
HANGS_FILTER = "Conc.*:Evt.*"


def run(*flags, device="reference", filter_=FILTER, shard=None):
    """Status, and the results: test -> (outcome, verdicts)."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        results, status_file = os.path.join(folder, "results"), os.path.join(folder, "shards")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("TEST_", "GTEST_", "XML_"))}
        if shard is not None:
            env.update(TEST_SHARD_INDEX=str(shard[0]), TEST_TOTAL_SHARDS=str(shard[1]),
                       TEST_SHARD_STATUS_FILE=status_file)
        ran = subprocess.run([SUITES, f"--device={device}", f"--gtest_filter={filter_}", f"--results={results}", *flags],
                             env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        with open(results, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        assert shard is None or os.path.exists(status_file), "sharding is not announced to the test runner"
    tests = {}
    for line in lines[1:]:
        assert line["test"] not in tests, f"{line['test']} ran twice"
        tests[line["test"]] = (line["outcome"], {id: c["verdict"] for id, c in line["clauses"].items()})
    return ran.returncode, tests


class Parts(unittest.TestCase):
    def together(self, parts):
        """The results of all parts; each must have some, and no two the same."""
        all_of_them = {}
        for status, tests in parts:
            self.assertTrue(tests, "a part without a test")
            self.assertEqual(all_of_them.keys() & tests.keys(), set())
            self.assertEqual(status != 0, any(outcome not in ("pass", "skip") for outcome, _ in tests.values()))
            all_of_them.update(tests)
        return all_of_them

    def test_shards_make_up_the_whole(self):
        status, whole = run()
        self.assertEqual(status, 0)
        self.assertGreater(len(whole), 100)
        for total in (2, 5):
            self.assertEqual(self.together([run(shard=(mine, total)) for mine in range(total)]), whole)

    def test_blocks_make_up_the_whole_however_many_run_at_a_time(self):
        _, whole = run()
        for jobs in (1, 3):
            status, tests = run("--blocks=7", f"--jobs={jobs}")
            self.assertEqual((status, tests), (0, whole))

    def test_blocks_of_a_shard(self):
        _, whole = run()
        self.assertEqual(self.together([run("--blocks=3", "--jobs=2", shard=(mine, 2)) for mine in range(2)]), whole)

    def test_a_shard_goes_on_behind_a_test_that_hangs(self):
        def hanging(*flags, **more):
            return run("--test_seconds=2", *flags, device=HANGS, filter_=HANGS_FILTER, **more)
        status, whole = hanging()
        self.assertEqual(status, 1)
        hung = [test for test, (outcome, _) in whole.items() if outcome == "hang"]
        self.assertTrue(hung)
        self.assertEqual(list(whole).index(hung[0]) + 1 < len(whole), True)
        self.assertEqual(self.together([hanging(shard=(mine, 2)) for mine in range(2)]).keys(), whole.keys())
        self.assertEqual(hanging("--blocks=4", "--jobs=2")[1].keys(), whole.keys())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
