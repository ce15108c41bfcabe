// Pictures with a slider. Plotly is a large script, so it is fetched when such a picture comes near the screen.

const PLOTLY = new URL("plotly.min.js", document.currentScript.src);
const AT_ONCE = { mode: "immediate", frame: { duration: 0, redraw: true }, transition: { duration: 0 } };
let plotly;

function loadPlotly() {
  plotly ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = PLOTLY;
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });
  return plotly;
}

async function drawPicture(box) {
  await loadPlotly();
  const { data, layout, frames, config, labels, notes, slider, start } = JSON.parse(
    box.querySelector(".moving-content").textContent
  );
  const picture = box.querySelector(".moving-picture");
  const control = box.querySelector(".moving-control");
  const input = control.querySelector("input");

  function say(step) {
    control.querySelector("strong").textContent = labels[step];
    control.querySelector("output").textContent = notes[step];
    input.setAttribute("aria-valuetext", labels[step]);
  }

  picture.replaceChildren();
  await Plotly.newPlot(picture, data, layout, config);
  await Plotly.addFrames(picture, frames);
  control.querySelector("label").textContent = slider;
  Object.assign(input, { min: 0, max: labels.length - 1, value: start });
  say(start);
  control.hidden = false;
  input.addEventListener("input", () => {
    say(input.value);
    Plotly.animate(picture, [input.value], AT_ONCE);
  });
}

// Each is drawn once, whoever asks: the reader who comes near, or the check of the site.
const drawn = new Map();
function drawOnce(box) {
  if (!drawn.has(box)) drawn.set(box, drawPicture(box));
  return drawn.get(box);
}

window.drawMovingPictures = () => Promise.all([...document.querySelectorAll(".moving")].map(drawOnce));

const watcher = new IntersectionObserver(
  (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => drawOnce(entry.target)),
  { rootMargin: "1000px" }
);
document.querySelectorAll(".moving").forEach((box) => watcher.observe(box));
