"""Words and chapters lead to each other: from a term to its meaning, and from there to where it is explained."""

import os.path
import re
from pathlib import Path

import pytest

from tools.notebook_book import Book

ROOT = Path(__file__).parents[2]
GLOSSARY = "book/appendix/glossary.md"
BOOK = Book(ROOT)
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")


def entries():
    """Yield the terms of each entry, in lower case, and its text."""
    body = re.search(r"^```\{glossary\}\n(.*?)^```", BOOK.chapters[GLOSSARY], re.DOTALL | re.MULTILINE)[1]
    for terms, text in re.findall(r"((?:^\S.*\n)+)((?:^[ ]{2}.*\n|^\n)+)", body, re.MULTILINE):
        yield tuple(terms.lower().splitlines()), text


def terms_of(page):
    """Return the terms that a page links to, in lower case."""
    roles = re.findall(r"\{term\}`(?:[^`<]*<)?([^`<>]+)>?`", BOOK.chapters[page])
    return {" ".join(role.lower().split()) for role in roles}


def home(text):
    """Return the page that the first link of a definition leads to."""
    path, label = LINK.search(text).groups()
    return BOOK.labels[label].chapter if label else os.path.normpath(f"book/appendix/{path}")


ENTRIES = list(entries())
every_entry = pytest.mark.parametrize(("terms", "text"), ENTRIES, ids=lambda part: part[0].replace(" ", "-"))


def test_the_glossary_is_sorted_and_defines_each_term_once():
    terms = [term for entry, _ in ENTRIES for term in entry]
    assert len(terms) == len(set(terms)) > 30
    assert set(terms) == set(BOOK.terms)
    assert [entry[0] for entry, _ in ENTRIES] == sorted(entry[0] for entry, _ in ENTRIES)


def test_every_term_that_a_page_uses_is_in_the_glossary():
    used = {page: terms_of(page) for page in BOOK.chapters}
    assert used["book/routing/latent_memory.md"]
    assert {page: terms - set(BOOK.terms) for page, terms in used.items() if terms - set(BOOK.terms)} == {}


@every_entry
def test_a_definition_leads_to_where_the_term_is_explained_and_back(terms, text):
    assert LINK.search(text), "a definition without a link"
    page = home(text)
    assert page in BOOK.chapters
    if page.startswith("book/routing/"):
        assert terms_of(page) & set(terms), f"{page} does not lead back to {terms[0]!r}"
