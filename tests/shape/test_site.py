"""The docs site: its pages are all there, and its check sees what is wrong with a built one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import docs, docs_check, walk
from tests.shape.source import ROOT

TESTS = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)

PAGE = """<html><head><link href="site.css" rel="stylesheet">{head}</head><body>
<nav class="md-nav md-nav--primary"><nav><a href="index.html">Start</a></nav>{nav}</nav>
<h1 id="start">Start</h1>{body}</body></html>
"""


def test_every_test_of_the_walk_stands_on_a_page() -> None:
    pages = walk.pages()
    chapters = sorted(walk.WALK.glob("test_*.py"))
    assert len(pages) == len(chapters) + 2
    for path in chapters:
        wanted = TESTS.findall(path.read_text("utf-8"))
        assert wanted
        assert TESTS.findall(pages[walk.page_name(path)]) == wanted


def test_a_chapter_is_prose_and_code(tmp_path: Path) -> None:
    path = tmp_path / "test_07_naps.py"
    path.write_text(
        '"""Chapter 7. Naps ``help``."""\n\nimport time\n\nSHORT = 1\n\n\n'
        '# Why not.\ndef test_a_nap_ends() -> None:\n    """It *does*."""\n    time.sleep(SHORT)\n'
    )
    assert walk.chapter(path) == (
        "# 7. Naps\n\nNaps `help`.\n\n```python\nimport time\n\nSHORT = 1\n```\n\n\n"
        "## A nap ends\n\nIt *does*.\n\n"
        "```python\n# Why not.\ndef test_a_nap_ends() -> None:\n    time.sleep(SHORT)\n```\n"
    )


def test_the_navigation_names_each_page_once(tmp_path: Path) -> None:
    docs.prepare(tmp_path)
    named = re.findall(r'"([\w/.-]+\.md)"', (tmp_path / docs.CONFIG.name).read_text("utf-8"))
    pages = tmp_path / "pages"
    made = sorted(str(path.relative_to(pages)) for path in pages.rglob("*.md"))
    assert sorted(named) == made


def test_the_first_page_is_the_readme() -> None:
    title = (ROOT / "README.md").read_text("utf-8").partition("\n")[0]
    assert docs.front().startswith(title)
    assert "](docs/" not in docs.front()


def faults(tmp_path: Path, **parts: str) -> list[str]:
    """What the check says of a site of one page."""
    html, sources = tmp_path / "html", tmp_path / "pages"
    for folder in (html, sources):
        folder.mkdir()
    (sources / "index.md").touch()
    (html / "site.css").write_text(parts.pop("css", ""), "utf-8")
    filled = PAGE.format(**{"head": "", "nav": "", "body": "", **parts})
    (html / "index.html").write_text(filled, "utf-8")
    return docs_check.faults(html, sources)


def test_a_whole_site_has_no_fault(tmp_path: Path) -> None:
    assert not faults(tmp_path, body='<a href="#start">up</a> <a href="https://example.org">x</a>')


@pytest.mark.parametrize(
    ("part", "text", "told"),
    [
        ("body", '<a href="gone.html">x</a>', "index.html: leads nowhere: gone.html"),
        ("body", '<a href="#gone">x</a>', "index.html: no such anchor: #gone"),
        (
            "head",
            '<script src="https://cdn.example/x.js"></script>',
            "loads https://cdn.example/x.js",
        ),
        ("head", '<link rel="preconnect" href="//fonts.example">', "loads //fonts.example"),
        ("body", '<img src="http://example.org/x.png">', "loads http://example.org/x.png"),
        ("body", '<pre class="mermaid"></pre>', 'would load class="mermaid"'),
        ("css", "@import url(https://fonts.example/css);", "site.css: loads fonts.example/css"),
    ],
)
def test_a_fault_is_seen(tmp_path: Path, part: str, text: str, told: str) -> None:
    assert told in "\n".join(faults(tmp_path, **{part: text}))


def test_a_page_outside_the_navigation_is_seen(tmp_path: Path) -> None:
    assert not faults(tmp_path)
    (tmp_path / "pages" / "lost.md").touch()
    (tmp_path / "html" / "lost.html").write_text("<html></html>", "utf-8")
    told = docs_check.faults(tmp_path / "html", tmp_path / "pages")
    assert told == ["not in the navigation: lost.html"]
