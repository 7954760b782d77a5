"""The report's page in a real browser: it draws the matrix, filters by its address, opens a clause, is used by keyboard
alone, prints.

page_test.py QPEXAM

Needs Debian's chromium; without it every case is skipped and says so.
"""

import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

QPEXAM = os.path.abspath(sys.argv[1])
FAULT = "faulty:fence-flag-lost"
TESTS = "Ord.*:Atom.*"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A chromium that is driven key by key, over the pipe that its DevTools protocol has."""

    KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40}

    def __init__(self, folder, page):
        self.number = 0
        self.read = b""
        to_read, self.out = os.pipe()
        self.into, to_write = os.pipe()
        # It reads from 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "-", CHROMIUM, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tempfile.mkdtemp(dir=folder)}", "--remote-debugging-pipe",
             "--window-size=1200,900", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(to_read, to_write), env={**os.environ, "HOME": folder}, cwd=folder)
        os.close(to_read)
        os.close(to_write)
        self.session = None
        target = self.call("Target.createTarget", url=f"file://{folder}/{page}")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        deadline = time.monotonic() + 60
        while not self.js("document.readyState === 'complete' && document.querySelector('#shown')?.textContent"):
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.05)

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
            self.process.wait(30)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.read:
                assert select.select([self.into], [], [], 60)[0], f"chromium does not answer {method}"
                got = os.read(self.into, 65536)
                assert got, "chromium has ended"
                self.read += got
            one, self.read = self.read.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, *keys, shift=False):
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else None)
            code = self.KEYS.get(key) or ord(key.upper())
            event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown",
                      **event, **({"text": text} if text else {}))
            self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def focus(self):
        """What has the focus: an id, a row's clause, or a tag with its text."""
        return self.js("""(() => { const e = document.activeElement;
            const row = e.classList.contains('clause') && e.querySelector('.id');
            return row ? row.textContent : e.id || e.tagName.toLowerCase() + ' ' + e.textContent.trim(); })()""")


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

    # --- by keyboard alone ---

    def drive(self, page):
        browser = Browser(self.folder, page)
        self.addCleanup(browser.close)
        return browser

    def test_tab_reaches_everything_once(self):
        browser = self.drive("b/index.html#group=ORD")
        stops, places = [], []
        for _ in range(60):
            browser.press("Tab")
            place = browser.js("[...document.querySelectorAll('*')].indexOf(document.activeElement)")
            if place in places or browser.focus().startswith("body"):
                break
            places.append(place)
            stops.append(browser.focus())
        buttons = [stop for stop in stops if stop.startswith("button")]
        self.assertIn("button violation 1", buttons)
        rest = stops[len(buttons):]
        self.assertEqual(rest[:6], ["text", "group", "level", "verdict", "differ", "WR-ORD-001"])
        self.assertEqual(set(rest[6:]), {"a WR-ORD-005"})  # the findings; the other rows are the arrows'

    def test_filters_by_keyboard(self):
        browser = self.drive("b/index.html")
        shown = "document.querySelector('#shown').textContent"
        self.assertEqual(browser.js(shown), "287 of 287 clauses")
        browser.press("/")
        self.assertEqual(browser.focus(), "text")
        browser.press(*"ord-005")
        self.assertEqual(browser.js(shown), "1 of 287 clauses")
        browser.press("Escape")
        self.assertEqual(browser.js(shown), "287 of 287 clauses")
        browser.press("Tab", "ArrowDown")
        self.assertEqual(browser.focus(), "group")
        self.assertEqual(browser.js("document.querySelector('#group').value"), "CREATE")
        self.assertRegex(browser.js(shown), r"^[12]\d of 287 clauses$")
        # A tile's button chooses its verdict.
        for _ in range(40):
            if browser.focus() == "button violation 1":
                break
            browser.press("Tab", shift=True)
        browser.press("Enter")
        self.assertEqual(browser.js("document.querySelector('#verdict').value"), "violation")

    def test_arrows_enter_and_escape_in_the_matrix(self):
        browser = self.drive("b/index.html#group=ORD")
        details = "document.querySelectorAll('tr.detail').length"
        expanded = "document.activeElement.getAttribute('aria-expanded')"
        browser.press("/", "Tab", "Tab", "Tab", "Tab", "Tab")
        self.assertEqual(browser.focus(), "WR-ORD-001")
        browser.press("Enter")
        self.assertEqual((browser.js(details), browser.js(expanded)), (1, "true"))
        browser.press("ArrowDown")  # over the open detail
        self.assertEqual(browser.focus(), "WR-ORD-002")
        browser.press(" ")
        self.assertEqual(browser.js(details), 2)
        browser.press("Escape")
        self.assertEqual((browser.js(details), browser.js(expanded)), (1, "false"))
        browser.press("ArrowUp", "Escape")
        self.assertEqual((browser.focus(), browser.js(details)), ("WR-ORD-001", 0))
        browser.press("End")
        last = browser.focus()
        browser.press("ArrowDown")
        self.assertEqual(browser.focus(), last)
        self.assertGreater(last, "WR-ORD-010")
        # Tab leaves the table, and comes back to the same row.
        browser.press("Tab")
        self.assertEqual(browser.focus(), "a WR-ORD-005")
        browser.press("Tab", shift=True)
        self.assertEqual(browser.focus(), last)
        browser.press("Home")
        self.assertEqual(browser.focus(), "WR-ORD-001")

    def test_a_finding_leads_to_its_clause(self):
        browser = self.drive("b/index.html#group=ATOM")
        browser.press("/", "Tab", "Tab", "Tab", "Tab", "Tab", "Tab")
        self.assertEqual(browser.focus(), "a WR-ORD-005")
        browser.press("Enter")
        self.assertEqual(browser.focus(), "WR-ORD-005")
        self.assertEqual(browser.js("document.activeElement.getAttribute('aria-expanded')"), "true")
        self.assertIn(FAULT, browser.js("document.querySelector('tr.detail').textContent"))
        browser.press("Escape")
        self.assertEqual(browser.js("document.querySelectorAll('tr.detail').length"), 0)

    def test_coverage_names_operations_alone(self):
        self.qpexam(0, "conform", "--filter=Cap.TheRingWraps*:Builder.*:Raw.*:Create.*", "--html=c")
        browser = self.drive("c/index.html")
        self.assertEqual(
            browser.js("[...document.querySelectorAll('.cover td:first-child')].map(td => td.textContent)"),
            ["send", "send_imm", "send_inv", "rdma_write", "rdma_write_imm", "rdma_read", "atomic_cmp_swp",
             "atomic_fetch_add", "atomic_write", "flush", "bind_mw", "local_inv", "send_tso"])

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
