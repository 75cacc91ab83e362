"""The report in a real browser, headless: nothing is asked of the network, nothing goes wrong, figures are there.

Needs Chromium: `apt-get install chromium`, or the path of one in the variable CHROMIUM. `make browser` runs this.
"""

import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import widefield as wf
from widefield.studies import plots, report
from widefield.studies.answers import Answer, Study, Table
from widefield.studies.plan import LEVELS, Plan

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install chromium, or name one in the variable CHROMIUM"
)

PROBE = """
<script>
addEventListener("load", () => {
  const images = [...document.images].map((i) => [i.complete, i.naturalWidth, i.naturalHeight]);
  const asked = performance.getEntriesByType("resource").map((entry) => entry.name);
  const wide = document.documentElement.scrollWidth > innerWidth;
  document.title = JSON.stringify({images, wide, asked: asked.filter((name) => !name.startsWith("data:"))});
});
</script>
"""


def small_study(folder):
    """Answers that were made up, of all kinds that have figures."""
    rng = np.random.default_rng(0)
    steps = np.array([0, 1, 3, 10])
    data = xr.Dataset(
        {
            "test_loss": (("hidden_layers", "split"), 0.5 + 0.1 * rng.random((2, 4))),
            "train_loss": (("hidden_layers", "split"), 0.1 + 0.1 * rng.random((2, 4))),
            "stopping_step": ("hidden_layers", [3, 10]),
            "test_curve": (("hidden_layers", "split", "step"), 0.5 + rng.random((2, 4, 4))),
        },
        {"hidden_layers": [1, 2], "step": steps},
    )
    table = Table(("hidden layers", "test loss"), (("1", "0.5 ± 0.1"), ("2 <b>", "0.4 ± 0.1")), 1)
    answer = Answer("depth", "How deep?", "Take 2 layers & be happy.", 2, table, data, "wf.solve(problem)  # <now>")
    problem = wf.Problem(wf.MLP(), (np.eye(3), np.arange(3.0)), optimiser=wf.SGD(0.1, steps=3))
    plan = Plan(LEVELS[0], {"depth": 3.0}, ("width",))
    return Study(folder, {"depth": answer}, {"width": "no time"}, plan, problem, "import widefield as wf", "3 samples",
                 "widefield study t.csv", 3.0)  # fmt: skip


class Server(http.server.BaseHTTPRequestHandler):
    """Hands out one page, and remembers what it was asked for."""

    page, seen = b"", []

    def do_GET(self):
        self.seen.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *words):
        pass


def browsed(url, folder, *options):
    """Open an address in headless Chromium."""
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={folder}", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--window-size=1000,900", "--enable-logging=stderr", "--virtual-time-budget=4000", *options, url,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture
def page(tmp_path):
    """A report: that of a real study if the variable names its folder, else one that is made up."""
    if given := os.environ.get("WIDEFIELD_REPORT"):
        return Path(given).read_text()
    made = small_study(tmp_path)
    return report.page(made, {name: plots.png(plots.figure(answer)) for name, answer in made.answers.items()})


def test_the_report_opens_without_a_request_or_an_error(page, tmp_path):
    Server.page, Server.seen = page.replace("</head>", f"{PROBE}</head>").encode(), []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        ran = browsed(f"http://127.0.0.1:{server.server_port}/report.html", tmp_path / "profile", "--dump-dom")
    finally:
        server.shutdown()
        server.server_close()
    assert set(Server.seen) == {"/report.html"}
    found = json.loads(re.search(r"<title>(.*?)</title>", ran.stdout)[1].replace("&amp;", "&"))
    assert found["asked"] == []
    assert len(found["images"]) == page.count("<img")
    assert all(complete and width > 300 and height > 200 for complete, width, height in found["images"])
    assert not found["wide"], "the page is wider than the window"
    assert "CONSOLE" not in ran.stderr, ran.stderr


def test_the_report_can_be_printed_to_a_picture(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page)
    picture = tmp_path / "report.png"
    browsed(path.as_uri(), tmp_path / "profile", f"--screenshot={picture}")
    import matplotlib.image

    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[:2] == (900, 1000)
    assert pixels[..., :3].std() > 0.03, "an empty page"
