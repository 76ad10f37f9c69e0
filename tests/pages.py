"""What tests of HTML pages share: reading their tags, and opening them in a browser."""

from __future__ import annotations

import html
import html.parser
import json
import re
import shutil
import subprocess

import pytest


class Reader(html.parser.HTMLParser):
    """Tags, links and text of a page; an error where tags do not match."""

    VOID = frozenset({"meta", "link", "img", "br", "source"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.text, self.images = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        facts = dict(attrs)
        self.ids += [facts["id"]] if "id" in facts else []
        self.links += [facts[key] for key in ("href", "src", "srcset") if key in facts]
        self.images += [facts] if tag == "img" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read_page(path):
    """The tags and text of a whole page."""
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    assert reader.open == []
    return reader


def check_alone(path, images):
    """A page that needs nothing but itself: no other files, no scripts, links that lead somewhere, pictures with words."""
    read = read_page(path)
    assert all(link.startswith(("data:", "#")) for link in read.links)
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(read.ids)
    assert len(set(read.ids)) == len(read.ids)
    assert "<script" not in path.read_text(encoding="utf-8")
    assert all(len(image["alt"]) > 20 for image in read.images)
    assert len(read.images) == images


FRAME = """<!DOCTYPE html><html><body style="margin:0">
<iframe id="f" src="{url}" style="border:0;width:{width}px;height:800px"></iframe>
<script>
document.getElementById("f").onload = () => {{
  const d = document.getElementById("f").contentDocument, w = d.documentElement.clientWidth;
  const wide = [...d.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > w + 1
    && !e.closest("thead")).map(e => e.tagName);  // hidden where the table becomes cards
  const broken = [...d.images].filter(i => !i.naturalWidth).length, first = d.images[0];
  document.body.setAttribute("data-found", JSON.stringify({{width: w, scroll: d.documentElement.scrollWidth,
    wide: wide.length, images: d.images.length, broken: broken,
    first: first.naturalWidth > first.naturalHeight ? "wide" : "narrow"}}));
}};
</script></body></html>"""


def open_page(path, width, folder):
    """Facts about a page in a browser window of that width, and what the browser had to say."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium here: the page was not opened in a browser (apt-get install it)")
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(url=path.as_uri(), width=width), encoding="utf-8")
    result = subprocess.run(
        [
            found,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--allow-file-access-from-files",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            f"--user-data-dir={folder}/profile",
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    seen = re.search(r'data-found="([^"]*)"', result.stdout)
    assert seen, result.stdout[-500:]
    return json.loads(html.unescape(seen[1])), result.stderr
