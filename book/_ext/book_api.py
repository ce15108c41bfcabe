"""The API page: in the documentation of a room, a name means what the room itself calls so."""

from importlib import import_module

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx


def name_in_full(app: Sphinx, doctree: nodes.document) -> None:
    """Write out the names of types, of which the reference and the PyTorch room have one each."""
    for link in doctree.findall(addnodes.pending_xref):
        room = ".".join((link.get("py:module") or "").split(".")[:2])
        if link.get("refdomain") == "py" and link.get("reftype") == "class" and room.startswith("gma_ref."):
            meant = getattr(import_module(room), link["reftarget"], None)
            if isinstance(meant, type):
                link["reftarget"] = f"{meant.__module__}.{meant.__qualname__}"


def setup(app: Sphinx) -> dict:
    """Register the change of each page as it is read."""
    app.connect("doctree-read", name_in_full)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
