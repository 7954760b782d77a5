"""The report's page in a real browser: it draws the matrix, filters by its address, opens a clause, prints.

page_test.py QPEXAM

Needs Debian's chromium; without it every case is skipped and says so.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

QPEXAM = os.path.abspath(sys.argv[1])
FAULT = "faulty:fence-flag-lost"
TESTS = "Ord.*:Atom.*"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@unittest.skipUnless(CHROMIUM, "chromium is not installed (apt-get install chromium)")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.qpexam(1, "conform", f"--provider=reference,{FAULT}", f"--filter={TESTS}", "--json=b.json", "--html=b")
        cls.qpexam(0, "conform", "--provider=reference", f"--filter={TESTS}", "--json=a.json")

    @classmethod
    def qpexam(cls, status, *arguments):
        ran = subprocess.run([QPEXAM, *arguments], cwd=cls.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, check=False)
        if ran.returncode != status:
            raise AssertionError(f"status {ran.returncode} instead of {status}: {arguments}\n{ran.stdout[-2000:]}")

    def chromium(self, page, *flags):
        ran = subprocess.run(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={self.folder}/profile", "--virtual-time-budget=2000", *flags,
             f"file://{self.folder}/{page}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder},
            cwd=self.folder, text=True, timeout=100, check=False)
        self.assertEqual(ran.returncode, 0)
        return ran.stdout

    def test_filters_and_details_by_address(self):
        dom = self.chromium("b/index.html#group=ORD&verdict=violation&open=WR-ORD-005", "--dump-dom")
        shown = re.search(r'id="shown"[^>]*>([^<]*)<', dom).group(1)
        self.assertEqual(shown, "1 of 287 clauses")
        self.assertIn('aria-expanded="true"', dom)
        self.assertIn('<tr class="detail">', dom)
        self.assertIn("IBV_SEND_FENCE", dom[dom.index('<tr class="detail">'):])  # the statement or the source
        self.assertIn(f"program: qpexam conform --provider={FAULT} --filter=Ord.", dom)

    def test_the_page_of_two_runs_shows_what_differs(self):
        self.qpexam(1, "report", "a.json", "b.json", "--html=d")
        dom = self.chromium("d/index.html", "--dump-dom")
        self.assertIn("what two runs differ in", dom)
        self.assertIn("reference in a.json", dom)
        self.assertIn(f"{FAULT} in b.json", dom)
        self.assertEqual(re.findall(r'<td class="id">(WR-[A-Z]+-\d+)</td>', dom), ["WR-ORD-005"])

    def test_light_and_dark(self):
        pictures = []
        for scheme in ("0", "1"):  # dark, light
            name = f"scheme-{scheme}.png"
            self.chromium("b/index.html#group=ORD", f"--blink-settings=preferredColorScheme={scheme}",
                          f"--screenshot={name}", "--window-size=800,600")
            with open(os.path.join(self.folder, name), "rb") as file:
                pictures.append(file.read())
            self.assertEqual(pictures[-1][:8], b"\x89PNG\r\n\x1a\n")
        self.assertNotEqual(pictures[0], pictures[1])

    def test_it_prints(self):
        self.chromium("b/index.html", "--print-to-pdf=page.pdf", "--no-pdf-header-footer")
        with open(os.path.join(self.folder, "page.pdf"), "rb") as file:
            pdf = file.read()
        self.assertEqual(pdf[:5], b"%PDF-")
        self.assertGreater(len(pdf), 20000)


def write_xml(result, cases):
    """Bazel's test.xml, so that skipped cases are counted as such."""
    path = os.environ.get("XML_OUTPUT_FILE")
    if not path:
        return
    skipped = {test.id() for test, _ in result.skipped} or set()
    bad = {test.id() for test, _ in result.failures + result.errors}
    with open(path, "w", encoding="utf-8") as file:
        file.write('<testsuites><testsuite name="page_test">')
        for name in cases:
            inner = "<skipped message='no chromium'/>" if name in skipped else \
                "<failure message='see the log'/>" if name in bad else ""
            file.write(f'<testcase classname="Page" name="{name.rsplit(".", 1)[1]}">{inner}</testcase>')
        file.write("</testsuite></testsuites>\n")


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Page)
    names = [test.id() for test in suite]
    outcome = unittest.TextTestRunner(verbosity=2).run(suite)
    if CHROMIUM is None:
        outcome.skipped = [(test, "") for test in unittest.defaultTestLoader.loadTestsFromTestCase(Page)]
    write_xml(outcome, names)
    sys.exit(0 if outcome.wasSuccessful() else 1)
