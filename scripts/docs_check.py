"""What must hold of a built docs site: every link arrives, nothing comes from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads without being asked. A link that a reader may follow is no such thing.
_LOADS = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "image": "href",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "use": "href",
    "video": "src",
}
_IN_STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//([^\"')\s]+)")
# The theme's script fetches what draws these from elsewhere as soon as a page has one.
_FETCHED_WHEN_USED = ('class="mermaid"', 'class="glightbox"', 'data-md-component="source"')


@dataclass
class Page:
    """What a page of HTML names: its anchors, its links, what it loads, and its navigation."""

    anchors: set[str] = field(default_factory=set[str])
    links: list[str] = field(default_factory=list[str])
    loads: list[str] = field(default_factory=list[str])
    navigation: list[str] = field(default_factory=list[str])


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name.removeprefix("xlink:"): value or "" for name, value in attrs}
        if "id" in given:
            self.page.anchors.add(given["id"])
        if tag == "nav" and (self._depth or "md-nav--primary" in given.get("class", "")):
            self._depth += 1
        if tag in _LOADS and (address := given.get(_LOADS[tag])):
            self.page.loads.append(address)
        elif tag == "a" and "href" in given:
            self.page.links.append(given["href"])
            if self._depth:
                self.page.navigation.append(given["href"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "nav" and self._depth:
            self._depth -= 1


def read(path: Path) -> Page:
    """A built page, parsed."""
    reader = _Reader()
    reader.feed(path.read_text("utf-8"))
    return reader.page


def faults(html: Path, sources: Path) -> list[str]:
    """What is wrong with a built site, one line each. ``sources`` are the pages it was made of."""
    pages = {path: read(path) for path in sorted(html.rglob("*.html"))}
    made = {html / path.relative_to(sources).with_suffix(".html") for path in sources.rglob("*.md")}
    found = [f"not built: {path.relative_to(html)}" for path in sorted(made - set(pages))]
    for path, page in pages.items():
        name = path.relative_to(html)
        found += [f"{name}: loads {address}" for address in page.loads if _outside(address)]
        found += [
            f"{name}: {wrong}" for link in page.links if (wrong := _broken(link, path, pages))
        ]
        text = path.read_text("utf-8")
        found += [f"{name}: would load {word}" for word in _FETCHED_WHEN_USED if word in text]
    for path in html.rglob("*.css"):
        outside = _IN_STYLE.findall(path.read_text("utf-8"))
        found += [f"{path.relative_to(html)}: loads {address}" for address in outside]
    return found + _unreachable(html, made, pages)


def _outside(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _broken(link: str, path: Path, pages: dict[Path, Page]) -> str:
    parts = urlsplit(link)
    # The page for a missing address has addresses from the root: it is served from anywhere.
    if parts.scheme or parts.netloc or path.name == "404.html":
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"leads nowhere: {link}"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return f"no such anchor: {link}"
    return ""


def _unreachable(html: Path, made: set[Path], pages: dict[Path, Page]) -> list[str]:
    start = html / "index.html"
    if start not in pages:
        return ["no index.html"]
    named = {(html / urlsplit(link).path).resolve() for link in pages[start].navigation}
    named = {path / "index.html" if path.is_dir() else path for path in named}
    left = sorted(path for path in made if path.resolve() not in named)
    return [f"not in the navigation: {path.relative_to(html)}" for path in left]
