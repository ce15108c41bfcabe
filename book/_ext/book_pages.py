"""What surrounds the text of a page: the buttons over it and the scripts it loads."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx


def drop_thebe(app: Sphinx, pagename, templatename, context: dict, doctree) -> None:
    """Leave out the live-code scripts, which Jupyter Book always adds: they name a foreign host."""
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context[kind] if "thebe" not in describe(file)]


def describe(file) -> str:
    """Return the name of a script or style sheet, or its text where it stands in the page."""
    return f"{getattr(file, 'filename', None) or ''} {getattr(file, 'attributes', {}).get('body', '')}"


def arrange_buttons(app: Sphinx, pagename, templatename, context: dict, doctree) -> None:
    """Offer the chapter's notebook in one click, on Colab and as a download, instead of in a menu."""
    buttons = context.get("header_buttons", [])
    for index, button in enumerate(buttons):
        if button.get("label") == "launch-buttons":
            (colab,) = button["buttons"]
            buttons[index] = colab | {
                "icon": "fas fa-play",
                "tooltip": "Open this chapter in Google Colab",
                "label": "colab",
            }
            buttons.insert(0, buttons.pop(index))
    notebook = Path(app.env.doc2path(pagename)).with_suffix(".ipynb")
    if context.get("ipynb_source") and notebook.exists():
        # The theme offers the executed notebook, written for the site. Readers get the one that runs anywhere.
        shutil.copyfile(notebook, Path(app.outdir) / "_sources" / context["ipynb_source"])


def mend_citations(app: Sphinx, pagename, templatename, context: dict, doctree) -> None:
    """Call the list of works no list: docutils gives its entries a role that screen readers refuse in one."""
    if "body" in context:
        context["body"] = context["body"].replace(
            '<div role="list" class="citation-list">', '<div class="citation-list">'
        )


def setup(app: Sphinx) -> dict:
    """Run after the theme (priority 501) and the extensions have said what they want."""
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("html-page-context", arrange_buttons, priority=900)
    app.connect("html-page-context", mend_citations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
