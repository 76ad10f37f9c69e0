"""What tests of pages and figures share: reading tags, opening a page in a browser, and finding texts that overlap."""

from __future__ import annotations

import html
import html.parser
import json
import re
import shutil
import subprocess
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

HOSTILE = '<script>alert("1")</script> $x$ | & \'../'
"""A name that a page must be careful with."""


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


def read_html(text):
    """The tags and text of HTML, whose tags match."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def words_of(path):
    """What a page says, in one line."""
    return " ".join("".join(read_html(path.read_text("utf-8")).text).split())


def check_alone(path, images):
    """A page that needs nothing but itself: no other files, no scripts, links that lead somewhere, pictures with words."""
    text = path.read_text("utf-8")
    read = read_html(text)
    assert all(link.startswith(("data:", "#")) for link in read.links)
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(read.ids)
    assert len(set(read.ids)) == len(read.ids)
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in read.ids)
    assert "<script" not in text
    assert all(len(image["alt"]) > 20 for image in read.images)
    assert len(read.images) == images


def check_texts(figure):
    """No text of a figure is cut, and no two overlap."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer, size = canvas.get_renderer(), figure.bbox
    whole = {text for part in (*figure.axes, *figure.legends) for text in part.findobj(Text)}
    texts = [text for text in figure.findobj(Text) if text not in whole]  # over all axes
    for ax in figure.axes:
        titles = [text for text in ax.get_children() if isinstance(text, Text)]
        texts += [*titles, ax.xaxis.label, ax.yaxis.label]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [label for tick in ticks for label in (tick.label1, tick.label2)]
    for legend in figure.legends:
        texts += [legend.get_title(), *legend.get_texts()]
    shown = [t for t in texts if t.get_text() and t.get_visible()]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in shown]
    assert len(boxes) > 8
    for text, box in boxes:
        assert (box.min >= size.min - 1).all(), text
        assert (box.max <= size.max + 1).all(), text
    for (one, a), (two, b) in combinations(boxes, 2):
        assert (a.max <= b.min + 1).any() or (b.max <= a.min + 1).any(), (one, two)


FRAME = """<!DOCTYPE html><html><body style="margin:0">
<iframe id="f" src="{url}" style="border:0;width:{width}px;height:800px"></iframe>
<script>
document.getElementById("f").onload = () => {{
  const d = document.getElementById("f").contentDocument, w = d.documentElement.clientWidth;
  const scrolls = e => e && d.defaultView.getComputedStyle(e).overflowX === "auto";
  const wide = [...d.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > w + 1
    && !scrolls(e.parentElement.closest("table"))  // a wide table has a bar of its own
    && !e.closest("thead")).map(e => e.tagName);  // hidden where the table becomes cards
  const broken = [...d.images].filter(i => !i.naturalWidth).length, first = d.images[0];
  document.body.setAttribute("data-found", JSON.stringify({{width: w, scroll: d.documentElement.scrollWidth,
    wide: wide.length, images: d.images.length, broken: broken,
    first: first.naturalWidth > first.naturalHeight ? "wide" : "narrow"}}));
}};
</script></body></html>"""


def open_page(path, width, folder):
    """Facts about a page in a browser window of that width, and what the browser had to say."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium here: the page was not opened in a browser (apt-get install it)")
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(url=path.as_uri(), width=width), encoding="utf-8")
    options = ["headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars", "disable-dev-shm-usage", "allow-file-access-from-files",
               "enable-logging=stderr", "virtual-time-budget=5000", f"user-data-dir={folder}/profile", "dump-dom"]  # fmt: skip
    command = [browser, *(f"--{option}" for option in options), frame.as_uri()]
    result = subprocess.run(command, capture_output=True, check=False, encoding="utf-8", timeout=600)  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    seen = re.search(r'data-found="([^"]*)"', result.stdout)
    assert seen, result.stdout[-500:]
    return json.loads(html.unescape(seen[1])), result.stderr
