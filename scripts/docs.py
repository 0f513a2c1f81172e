"""Builds the docs site from docs/, the README, the changelog and the walk, and checks it.

    python -m scripts.docs          writes build/docs/html; fails at any warning or fault

Runs with what the dependency group ``docs`` brings; benbi itself need not be installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts import docs_check, walk

ROOT: Final = Path(__file__).parents[1]
CONFIG: Final = ROOT / "zensical.toml"
PLACE: Final = ROOT / "build" / "docs"

_FENCE: Final = re.compile(r"^( *)```(python|sh|ini) +(\S+)$", re.MULTILINE)
_CHAPTER: Final = re.compile(r"(?<!\[)`walk/test_(\d\d_\w+)\.py`")
_PICTURE: Final = re.compile(r"^!\[([^\]]*)\]\((\w+\.svg)\)$", re.MULTILINE)


def prepare(place: Path) -> None:
    """Writes all pages and the configuration into an empty folder."""
    pages = place / "pages"
    shutil.copytree(ROOT / "docs", pages)
    (pages / "decisions" / "README.md").rename(pages / "decisions" / "index.md")
    for path in pages.rglob("*.md"):
        path.write_text(fit(path.read_text("utf-8"), path.parent), "utf-8")
    (pages / "index.md").write_text(fit(front(), pages), "utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    (pages / "changelog.md").write_text(changelog, "utf-8")
    (pages / "walk").mkdir()
    for name, text in walk.pages().items():
        (pages / "walk" / name).write_text(text, "utf-8")
    (place / CONFIG.name).write_text(expanded(CONFIG.read_text("utf-8"), pages), "utf-8")


def front() -> str:
    """The README as the first page: its links lead where the pages stand on the site."""
    text = (ROOT / "README.md").read_text("utf-8")
    text = text.replace("](docs/decisions)", "](docs/decisions/index.md)")
    return text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changelog.md)")


def fit(text: str, folder: Path) -> str:
    """A page as the generator wants it; on code hosts it reads the same.

    ``folder`` is where its pictures are: they go into the page, so that they take its colours.
    """

    def fence(found: re.Match[str]) -> str:
        indent, language, word = found.groups()
        shown = "" if word in ("run", "background") else f' title="{word}"'
        return f"{indent}```{language}{shown}"

    def picture(found: re.Match[str]) -> str:
        drawing = (folder / found[2]).read_text("utf-8").strip()
        return f'<div class="drawing" role="img" aria-label="{found[1]}">\n{drawing}\n</div>'

    text = text.replace("](../tests/walk)", "](walk/index.md)")
    text = _PICTURE.sub(picture, _FENCE.sub(fence, text))
    return _CHAPTER.sub(r"[`walk/test_\1.py`](walk/\1.md)", text)


def expanded(config: str, pages: Path) -> str:
    """The configuration with the files in the place of a "*", but for those it names itself."""

    def files(found: re.Match[str]) -> str:
        names = sorted(str(path.relative_to(pages)) for path in pages.glob(found[1]))
        return ", ".join(f'"{name}"' for name in names if f'"{name}"' not in config)

    return re.sub(r'"([\w/]+/\*\.md)"', files, config)


def build(place: Path) -> list[str]:
    """Builds the site into ``place / "html"`` and returns what is wrong with it."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    prepare(place)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode()
    if done.returncode or re.search(r"\bwarning", said, re.IGNORECASE):
        return [said]
    return docs_check.faults(place / "html", place / "pages")


def main() -> int:
    if wrong := build(PLACE):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    pages = len(list((PLACE / "html").rglob("*.html")))
    print(f"docs: {pages} pages in {(PLACE / 'html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
