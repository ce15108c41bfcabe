"""Formulas on the site: the book's colours, and numbered equations of several lines."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from gma_ref.plots.palette import PALETTE


def palette_css() -> str:
    """Return the palette as CSS: one variable and one class per symbol, with a value for each theme."""
    light = "".join(f"  --sym-{name}: {shades.light};\n" for name, shades in PALETTE.items())
    dark = "".join(f"  --sym-{name}: {shades.dark};\n" for name, shades in PALETTE.items())
    rules = "".join(f".sym-{name} {{ color: var(--sym-{name}); }}\n" for name in PALETTE)
    return f'html {{\n{light}}}\nhtml[data-theme="dark"] {{\n{dark}}}\n{rules}'


def add_macros(app: Sphinx, config) -> None:
    r"""Give MathJax one macro per symbol: ``\query{...}`` sets its argument in the class ``sym-query``."""
    macros = {name: [rf"\class{{sym-{name}}}{{#1}}", 1] for name in PALETTE}
    config.mathjax3_config = {
        "loader": {"load": ["[tex]/html"]},
        "tex": {"packages": {"[+]": ["html"]}, "macros": macros},
        # Formulas keep their menu, but the Tab key does not stop at each of them.
        "options": {"menuOptions": {"settings": {"inTabOrder": False}}},
    }


def write_palette(app: Sphinx) -> None:
    """Write the palette's style sheet where the pages look for it."""
    if app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        static.mkdir(parents=True, exist_ok=True)
        (static / "palette.css").write_text(palette_css(), encoding="utf-8")
        app.add_css_file("palette.css")


class NumberedLines(SphinxPostTransform):
    r"""Keep ``\tag`` out of the environment that Sphinx wraps around an equation of several lines.

    Sphinx sets whatever holds a line break in ``split``, and MathJax refuses ``\tag`` there. An equation
    with a number brings its own environment, so its text goes out as it stands.
    """

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs) -> None:
        """Wrap each numbered equation in plain display delimiters."""
        for node in self.document.findall(nodes.math_block):
            text = node.astext()
            if r"\tag{" in text and r"\\" in text and not node["nowrap"]:
                node["nowrap"] = True
                node.children = [nodes.Text(rf"\[{text}\]")]


def setup(app: Sphinx) -> dict:
    """Connect the above."""
    app.connect("config-inited", add_macros)
    app.connect("builder-inited", write_palette)
    app.add_post_transform(NumberedLines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
