// What is wider than its box can be scrolled with a pointer; this lets the keyboard reach it too.

const SCROLLERS = ".bd-article :is(div.math, pre, .pst-scrollable-table-container)";

function letKeysScroll() {
  for (const box of document.querySelectorAll(SCROLLERS)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

document.addEventListener("DOMContentLoaded", async () => {
  await window.MathJax?.startup?.promise; // formulas have no width before
  const watcher = new ResizeObserver(letKeysScroll);
  document.querySelectorAll(SCROLLERS).forEach((box) => watcher.observe(box));
});
