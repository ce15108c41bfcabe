"""Citations by author and year, and the list of references that they lead to."""

import re

from pybtex.backends.markdown import Backend
from pybtex.database import BibliographyData
from pybtex.style.formatting.unsrt import Style

from tools.notebook_book import Book, anchor, fragment

REFERENCES = "references"


class Citations:
    """Writes the citations of one chapter and remembers what was cited."""

    def __init__(self, book: Book):
        self.entries = book.references
        self.cited = set()

    def cite(self, role: str, content: str) -> str:
        """Write what a role says: ``{cite:t}`` in the sentence, ``{cite:p}`` in brackets.

        Raises
        ------
        ValueError
            For another role, or a key that is in no BibTeX file.
        """
        if role not in ("cite:t", "cite:p"):
            raise ValueError(f"a notebook knows no role {{{role}}}")
        links = []
        for key in (part.strip() for part in content.split(",")):
            if key not in self.entries:
                raise ValueError(f"no reference {key}")
            self.cited.add(key)
            who, year = authors(self.entries[key]), self.entries[key].fields.get("year", "no date")
            text = f"{who} ({year})" if role == "cite:t" else f"{who}, {year}"
            links.append(f"[{text}](#{fragment(REFERENCES)})")
        return ", ".join(links) if role == "cite:t" else f"({'; '.join(links)})"

    def references(self) -> str:
        """Return the section that lists what was cited; empty if nothing was."""
        if not self.cited:
            return ""
        data = BibliographyData({key: self.entries[key] for key in sorted(self.cited)})
        formatted = Style(sorting_style="author_year_title").format_bibliography(data)
        items = [" ".join(entry.text.render(Backend()).split()) for entry in formatted]
        # pybtex escapes more than Markdown needs.
        lines = [re.sub(r"\\([-.,:()/])", r"\1", f"- {item}") for item in items]
        return "\n".join([anchor(REFERENCES), "", "## References", "", *lines])


def authors(entry) -> str:
    """Last names of who wrote or edited an entry: one, two, or the first *et al.*."""
    people = entry.persons.get("author") or entry.persons.get("editor")
    if not people:
        raise ValueError(f"reference {entry.key} has neither author nor editor")
    names = [" ".join(str(name) for name in person.rich_last_names) for person in people]
    return " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
