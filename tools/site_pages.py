"""What only a browser can say of a page: what it asks for, shows, hides and refuses to show."""

import re

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

# Markup that should have been rendered, and markers that Sphinx and LaTeX leave where a reference failed.
RAW = re.compile(
    r"\\[A-Za-z]{2,}|\\[()\[\]]|\$\$|(?<![\\\w])\$[^\s$][^$]*\$|\w?[_^]\{[^}]*\}?|\?\?\?|\{[a-z:]+\}`|\(eq-\S*\)="
    r"|^\s*(```|:::)|:label:",
    re.MULTILINE,
)
# Measuring contrast takes axe ten times as long as all its other rules together.
ALL_BUT_CONTRAST = {"rules": {"color-contrast": {"enabled": False}}}
CONTRAST = {"runOnly": ["color-contrast"]}
LINKS = {"runOnly": ["link-in-text-block"]}  # the one other rule that depends on colours
FILE_NAME = re.compile(r"^[\w./-]+\.(png|svg|jpe?g|gif|webp)$|^[0-9a-f]{16,}", re.IGNORECASE)

UNFOLD = """() => {
  for (const box of document.querySelectorAll('details')) box.open = true;
  for (const button of document.querySelectorAll('.toggle-hidden > .toggle-button, .toggle-hidden .toggle-button'))
    button.click();
  for (const box of document.querySelectorAll('.toggle-hidden')) box.classList.remove('toggle-hidden');
}"""

# Pictures far down would be asked for only when a reader gets there.
HURRY = """() => Promise.allSettled([...document.querySelectorAll('[loading=lazy]')].map(node => {
  node.loading = 'eager';
  return node.decode?.();
}).concat(window.drawMovingPictures?.()))"""

# Formulas are thousands of elements, drawn by style sheets: axe finds no text there. It needs to know their place only.
BLANK_FORMULAS = """() => {
  const formulas = [...document.querySelectorAll('mjx-container')].map(node => [node, node.getBoundingClientRect()]);
  for (const [formula, box] of formulas) {
    const blank = document.createElement('span');
    blank.style.cssText = `display: inline-block; width: ${box.width}px; height: ${box.height}px`;
    formula.replaceWith(blank);
  }
}"""

# Of the texts that look alike, since they and all around them have the same names, styles and colours, keep the first.
# The shade of what can be scrolled goes too: axe measures nothing that stands on a gradient.
THIN_OUT = """() => {
  for (const box of document.querySelectorAll('.wider')) box.classList.remove('wider');
  const looks = node => {
    if (!node || node === document.body) return '';
    const style = getComputedStyle(node);
    const own = [node.tagName, node.className, node.getAttribute('style'), style.color, style.backgroundColor];
    return own.join('|') + '\\n' + looks(node.parentElement);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) if (walker.currentNode.data.trim()) texts.push(walker.currentNode);
  const keys = texts.map(text => looks(text.parentElement));
  texts.forEach((text, index) => { if (keys.indexOf(keys[index]) < index) text.data = ' '; });
  for (const word of document.querySelectorAll('pre span')) if (!word.textContent.trim()) word.remove();
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
  ...[...document.querySelectorAll('main :is(figure, .cell_output) :is(svg, [role=img])')]
    .filter(image => !image.parentElement.closest('[role=img]'))
    .map(image => image.getAttribute('aria-label') ?? image.querySelector('title')?.textContent ?? ''),
]"""

# The content of a picture, without its padding, against its file.
SQUEEZED = """() => [...document.querySelectorAll('main img')].filter(image => {
  const style = getComputedStyle(image), across = ['Left', 'Right'], down = ['Top', 'Bottom'];
  const inner = (size, sides) => size - sides.reduce((sum, side) => sum + parseFloat(style['padding' + side]), 0);
  const width = inner(image.clientWidth, across), height = inner(image.clientHeight, down);
  const stretch = width * image.naturalHeight / (height * image.naturalWidth);
  return image.naturalHeight && height && Math.abs(stretch - 1) > 0.03;
}).map(image => image.alt.slice(0, 40))"""

# Elements that reach past an edge of the screen and cannot be scrolled to.
OUTSIDE = """() => {
  const edge = document.documentElement.clientWidth + 1;
  const scrolls = node => ['auto', 'scroll'].includes(getComputedStyle(node).overflowX);
  const reachable = node => {
    for (let up = node.parentElement; up && up !== document.body; up = up.parentElement)
      if (scrolls(up) && up.getBoundingClientRect().right <= edge) return true;
    return false;
  };
  const found = [...document.querySelectorAll('main *')].filter(node => {
    const box = node.getBoundingClientRect();
    const right = box.right > edge && box.left < edge + 2000 && !reachable(node);
    const left = box.left < -1 && box.right > -2000;  // nothing scrolls there
    return (left || right) && box.width > 1 && box.height > 1
      && node.checkVisibility({visibilityProperty: true}) && !node.closest('mjx-assistive-mml, .bd-sidebar-secondary');
  });
  const outer = found.filter(node => !found.includes(node.parentElement));
  const names = outer.map(node => `<${node.localName} class="${node.getAttribute('class')}">`);
  if (document.documentElement.scrollWidth >= edge) names.push(`the page, ${document.documentElement.scrollWidth} px`);
  return names;
}"""

# Boxes that hide the end of what they hold. The invisible twin of a formula, which is wider, does not count.
CUT = """() => {
  const twins = document.head.appendChild(document.createElement('style'));
  twins.textContent = 'mjx-assistive-mml { display: none !important; }';
  const found = [...document.querySelectorAll('main *')].filter(node =>
    ['hidden', 'clip'].includes(getComputedStyle(node).overflowX)
      && node.clientWidth > 1 && node.scrollWidth > node.clientWidth + 1
      && node.checkVisibility({visibilityProperty: true}) && !node.closest('mjx-container, .bd-sidebar-secondary'));
  twins.remove();
  return found.map(node =>
    `<${node.localName} class="${node.getAttribute('class')}">: ${node.innerText.replace(/\\s+/g, ' ').slice(0, 60)}`);
}"""

# Pictures that their slider does not change. It is put back where it was.
STUCK = """async () => {
  const found = [];
  for (const box of document.querySelectorAll('.moving')) {
    const picture = box.querySelector('.moving-picture'), slider = box.querySelector('input[type=range]');
    const move = async value => {
      const before = picture.innerHTML;
      slider.value = value;
      slider.dispatchEvent(new Event('input'));
      for (let waits = 0; waits < 100 && picture.innerHTML === before; waits++)
        await new Promise(done => setTimeout(done, 50));
      return picture.innerHTML !== before;
    };
    const first = slider.value, other = first === slider.max ? slider.min : slider.max;
    if (!picture.querySelector('svg') || !(await move(other)) || !(await move(first)))
      found.push(picture.getAttribute('aria-label').slice(0, 40));
  }
  return found;
}"""

SEARCH_FIELDS = """() => [...document.querySelectorAll('input[type=search], .search-button__button')]
  .filter(node => node.checkVisibility({visibilityProperty: true, opacityProperty: true})).length"""


def settle(page: Page) -> None:
    """Wait until all is loaded and MathJax has set the formulas, and let nothing move or fade from then on."""
    page.evaluate("window.MathJax?.startup?.promise")
    page.add_style_tag(content="*, ::before, ::after { transition: none !important; animation: none !important; }")
    page.evaluate(UNFOLD)
    page.evaluate(HURRY)
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


def stuck(page: Page) -> list[str]:
    """Report pictures that should move with their slider and do not."""
    return [f"has a picture that does not move: {name}" for name in page.evaluate(STUCK)]


def outside(page: Page) -> list[str]:
    """Report what sticks out of the screen, to the right or to the left."""
    return [f"is wider than the screen: {name}" for name in page.evaluate(OUTSIDE)[:3]]


def cut_off(page: Page) -> list[str]:
    """Report boxes that are too narrow for what they hold and do not scroll."""
    return [f"cuts off what is in {name}" for name in page.evaluate(CUT)[:3]]


def search_fields(page: Page) -> list[str]:
    """Report a page that has no place to search, or more than one."""
    count = page.evaluate(SEARCH_FIELDS)
    return [] if count == 1 else [f"shows {count} search fields"]


def barriers(page: Page, themes: tuple[str, str]) -> list[str]:
    """Report what axe calls serious or critical in each theme; it empties the page on its way, so it comes last."""
    page.evaluate(BLANK_FORMULAS)
    page.evaluate(AXE_SCRIPT)
    first, second = themes
    faults = violations(page, first, ALL_BUT_CONTRAST) + violations(page, second, LINKS)
    page.evaluate(THIN_OUT)
    for theme in themes:
        faults += violations(page, theme, CONTRAST)
    return faults


def violations(page: Page, theme: str, rules: dict) -> list[str]:
    """Run some of axe's rules in one theme."""
    page.emulate_media(color_scheme=theme)
    page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
    # Without preload: axe would fetch the style sheets that others import, and from the wrong folder.
    options = {"resultTypes": ["violations"], "preload": False} | rules
    return [
        f"axe, {found['impact']}: {found['help']}: {node['html'][:120]} ({theme})"
        for found in page.evaluate("options => axe.run(options)", options)["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"][:3]
    ]


CHECKS = (search_fields, raw_markup, formula_errors, images_without_words, squeezed, stuck, outside, cut_off)
