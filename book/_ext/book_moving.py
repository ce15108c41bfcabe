"""Pictures with a slider, on the site: Plotly draws them, the page's own slider moves them.

A cell leaves what is to be drawn (``gma_ref.plots.moving``). Here it gets a place on the page, its slider, and its
alternative text, which stands there in words until the picture is drawn, and where it never is.
"""

import hashlib
import json
import os
import shutil
from html import escape
from importlib.resources import files
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from gma_ref.plots.moving import SITE

MARK = 'class="moving-content"'
PAGE = """\
<div class="moving">
<div class="moving-picture" style="min-height: {height}px" role="img" aria-label="{alt}"><p>{alt}</p></div>
<div class="moving-control" hidden>
<label for="{name}-slider"></label><input type="range" id="{name}-slider"><strong aria-hidden="true"></strong>
<output for="{name}-slider"></output>
</div>
{content}
</div>
"""


class PlaceMoving(SphinxPostTransform):
    """Write the page's part around what a cell left."""

    default_priority = 900  # after MyST-NB has chosen among the kinds of output
    formats = ("html",)

    def run(self, **kwargs) -> None:
        """Find the outputs, and take the alternative text from the options of their cell."""
        for node in list(self.document.findall(nodes.raw)):
            if MARK not in node.astext():
                continue
            alt = self.alternative(node)
            if not alt:
                logging.getLogger(__name__).warning("a moving picture needs mystnb.image.alt", location=node)
            content = node.astext()
            height = json.loads(content.partition(">")[2].rpartition("<")[0])["layout"]["height"]
            name = "moving-" + hashlib.sha256(content.encode()).hexdigest()[:8]
            page = PAGE.format(name=name, height=height, alt=escape(alt), content=content)
            node.children = [nodes.Text(page)]

    @staticmethod
    def alternative(node) -> str:
        """Return the alternative text of the cell that a node came from."""
        while node is not None:
            if node.get("nb_element") == "cell_code":
                image = node["cell_metadata"].get("mystnb", {}).get("image", {})
                return " ".join(image.get("alt", "").split())
            node = node.parent
        return ""


def tell_kernels(app: Sphinx) -> None:
    """Let the cells know that they run for the site."""
    os.environ[SITE] = "1"


def load_scripts(app: Sphinx, pagename, templatename, context: dict, doctree) -> None:
    """Give the script to pages that have such a picture, and the site Plotly's own from the installed package."""
    if MARK not in context.get("body", ""):
        return
    plotly = Path(app.outdir) / "_static" / "plotly.min.js"
    if not plotly.exists():
        plotly.parent.mkdir(parents=True, exist_ok=True)
        with files("plotly").joinpath("package_data/plotly.min.js").open("rb") as source, plotly.open("wb") as target:
            shutil.copyfileobj(source, target)
    app.add_js_file("moving.js", loading_method="defer")


def setup(app: Sphinx) -> dict:
    """Connect the above."""
    app.connect("builder-inited", tell_kernels, priority=100)
    app.connect("html-page-context", load_scripts)
    app.add_post_transform(PlaceMoving)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
