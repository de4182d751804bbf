"""The links of our Markdown lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.test_architecture import ROOT, ours

LINK = re.compile(
    r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)\"",
    re.MULTILINE,
)
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
PAGES = [path for path in ours(".md") if path.parts[0] != "newsfragments" or path.name == "README.md"]


def anchors(page: Path) -> set[str]:
    """The anchors that a forge makes of a page's headings, and those set by hand."""
    text = CODE.sub(lambda found: found[0] if found[1] is None else "", page.read_text("utf-8"))
    headings = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", text, re.MULTILINE)
    by_hand = re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", text)
    slugs: list[str] = []
    for heading in headings:
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        slugs.append(slug if slug not in slugs else f"{slug}-{slugs.count(slug)}")
    return {*slugs, *by_hand}


def test_there_are_pages() -> None:
    """Else the test below would say nothing."""
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file of the checkout, its fragment a heading in it."""
    text = CODE.sub("", (ROOT / page).read_text("utf-8"))
    broken = []
    for found in LINK.finditer(text):
        link = next(group for group in found.groups() if group)
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, fragment = unquote(link).partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists():
            broken.append(f"{link}: no such file")
        elif fragment and target.suffix == ".md" and fragment not in anchors(target):
            broken.append(f"{link}: no such heading")

    assert [] == broken
