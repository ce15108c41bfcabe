"""What only a browser can say of a page: what it asks for, shows, hides and refuses to show."""

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

# Markup that should have been rendered, and markers that Sphinx and LaTeX leave where a reference failed.
RAW = re.compile(
    r"\\[A-Za-z]{2,}|\\[()\[\]]|\$\$|(?<![\\\w])\$[^\s$][^$]*\$|\?\?\?|\{[a-z:]+\}`|\(eq-\S*\)=|^\s*(```|:::)|:label:",
    re.MULTILINE,
)
COLOUR_RULES = ("color-contrast", "link-in-text-block")
FILE_NAME = re.compile(r"^[\w./-]+\.(png|svg|jpe?g|gif|webp)$|^[0-9a-f]{16,}", re.IGNORECASE)

UNFOLD = """() => {
  for (const box of document.querySelectorAll('details')) box.open = true;
  for (const button of document.querySelectorAll('.toggle-hidden > .toggle-button, .toggle-hidden .toggle-button'))
    button.click();
  for (const box of document.querySelectorAll('.toggle-hidden')) box.classList.remove('toggle-hidden');
}"""

# A chapter has thousands of coloured words of code, in a dozen colours. One of each is enough, in each kind of box.
THIN_OUT = """() => {
  const seen = new Set();
  for (const word of document.querySelectorAll('pre span[class]')) {
    const key = [word, word.closest('.cell_input, .cell_output'), word.closest('.admonition, details, dd')]
      .map(node => node?.className).join('|');
    if (seen.has(key)) word.replaceWith(...word.childNodes);
    seen.add(key);
  }
}"""

# Text as it stands on the page, code and rendered formulas left out, one block a line.
TEXT = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, node =>
    node.parentElement.closest('mjx-container, script, style, noscript, template, pre, code')
      ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  const blocks = new Map();
  while (walker.nextNode()) {
    const block = walker.currentNode.parentElement.closest('p, li, td, th, dt, dd, h1, h2, h3, h4, div, body');
    blocks.set(block, (blocks.get(block) ?? '') + walker.currentNode.data);
  }
  const alts = [...document.querySelectorAll('[alt]')].map(image => image.alt);
  return [...blocks.values(), ...alts, document.title];
}"""

ERRORS = """() => [...document.querySelectorAll('mjx-merror, [data-mjx-error], mjx-mtext[style*="color: red"]')]
  .map(node => node.dataset.mjxError ?? node.closest('mjx-container').innerText)"""

IMAGES = """() => [
  ...[...document.querySelectorAll('main img')].map(image => image.getAttribute('alt') ?? ''),
  ...[...document.querySelectorAll('main figure svg, main .cell_output svg')].map(
    image => image.getAttribute('aria-label') ?? image.querySelector('title')?.textContent ?? ''),
]"""

# The content of a picture, without its padding, against its file.
SQUEEZED = """() => [...document.querySelectorAll('main img')].filter(image => {
  const style = getComputedStyle(image), across = ['Left', 'Right'], down = ['Top', 'Bottom'];
  const inner = (size, sides) => size - sides.reduce((sum, side) => sum + parseFloat(style['padding' + side]), 0);
  const width = inner(image.clientWidth, across), height = inner(image.clientHeight, down);
  const stretch = width * image.naturalHeight / (height * image.naturalWidth);
  return image.naturalHeight && height && Math.abs(stretch - 1) > 0.03;
}).map(image => image.alt.slice(0, 40))"""

# Elements that reach past the right edge and cannot be scrolled to.
WIDE = """() => {
  const edge = document.documentElement.clientWidth + 1;
  const scrolls = node => ['auto', 'scroll'].includes(getComputedStyle(node).overflowX);
  const reachable = node => {
    for (let up = node.parentElement; up && up !== document.body; up = up.parentElement)
      if (scrolls(up) && up.getBoundingClientRect().right <= edge) return true;
    return false;
  };
  const found = [...document.querySelectorAll('main *')].filter(node => {
    const box = node.getBoundingClientRect();
    return box.right > edge && box.width > 1 && box.left < edge + 2000 && !reachable(node)
      && getComputedStyle(node).visibility !== 'hidden' && !node.closest('mjx-assistive-mml, .bd-sidebar-secondary');
  });
  const outer = found.filter(node => !found.includes(node.parentElement));
  const names = outer.map(node => `<${node.tagName.toLowerCase()} class="${node.className}">`);
  if (document.documentElement.scrollWidth >= edge) names.push(`the page, ${document.documentElement.scrollWidth} px`);
  return names;
}"""

SEARCH_FIELDS = """() => [...document.querySelectorAll('input[type=search], .search-button__button')]
  .filter(node => node.checkVisibility({visibilityProperty: true, opacityProperty: true})).length"""


def settle(page: Page) -> None:
    """Wait until MathJax has set the formulas, and let nothing move or fade from then on."""
    page.evaluate("window.MathJax?.startup?.promise")
    page.add_style_tag(content="*, ::before, ::after { transition: none !important; animation: none !important; }")
    page.evaluate(UNFOLD)
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")


def raw_markup(page: Page) -> list[str]:
    """Report LaTeX, MyST or a failed reference that a reader would see."""
    found = [match[0] for text in page.evaluate(TEXT) for match in RAW.finditer(text)]
    return [f"shows raw markup: {text}" for text in dict.fromkeys(found)]


def formula_errors(page: Page) -> list[str]:
    """Report formulas that MathJax could not read."""
    return [f"has a formula that MathJax refuses: {text}" for text in page.evaluate(ERRORS)]


def images_without_words(page: Page) -> list[str]:
    """Report figures whose alternative text is missing or is a file's name."""
    texts = page.evaluate(IMAGES)
    return [f"has a figure with the alternative text {text!r}" for text in texts if not text or FILE_NAME.match(text)]


def squeezed(page: Page) -> list[str]:
    """Report pictures that are not shown in the proportions they were made with."""
    return [f"squeezes the picture {name}" for name in page.evaluate(SQUEEZED)]


def too_wide(page: Page) -> list[str]:
    """Report what sticks out of the screen to the right."""
    return [f"is wider than the screen: {name}" for name in page.evaluate(WIDE)[:3]]


def search_fields(page: Page) -> list[str]:
    """Report a page that has no place to search, or more than one."""
    count = page.evaluate(SEARCH_FIELDS)
    return [] if count == 1 else [f"shows {count} search fields"]


def barriers(page: Page, rules: tuple[str, ...] = ()) -> list[str]:
    """Report what axe calls serious or critical, by all its rules or only by some."""
    # Without preload: axe would fetch the style sheets that others import, and from the wrong folder.
    options = {"resultTypes": ["violations"], "preload": False} | ({"runOnly": list(rules)} if rules else {})
    # Formulas are drawn by style sheets: there is no text in them to measure, only many elements to walk through.
    page.evaluate(THIN_OUT)
    violations = Axe().run(page, {"exclude": [["mjx-container"]]}, options).response["violations"]
    return [
        f"axe, {violation['impact']}: {violation['help']}: {node['html'][:120]}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"][:3]
    ]


CHECKS = (search_fields, raw_markup, formula_errors, images_without_words, squeezed, too_wide)
