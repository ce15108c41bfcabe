// What is wider than its box can be scrolled with a pointer. This lets the keyboard reach it too, and shows it.

const SCROLLERS = ".bd-article :is(div.math, pre, .pst-scrollable-table-container)";

function markWider() {
  for (const box of document.querySelectorAll(SCROLLERS)) {
    const wider = box.scrollWidth > box.clientWidth;
    box.classList.toggle("wider", wider);
    if (wider) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

document.addEventListener("DOMContentLoaded", async () => {
  await window.MathJax?.startup?.promise; // formulas have no width before
  const watcher = new ResizeObserver(markWider);
  document.querySelectorAll(SCROLLERS).forEach((box) => watcher.observe(box));
});
