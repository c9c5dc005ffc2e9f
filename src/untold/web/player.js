// Buttons and a slider that step, and a clock that plays.
import { button, draw, make } from "./dom.js";

const PAUSE_BETWEEN = 1100; // milliseconds
const ICONS = {
  first: "M2 2h2v12H2zM14 2v12L5 8z", back: "M12 2v12L3 8z", play: "M4 2v12l9-6z",
  pause: "M3 2h4v12H3zM9 2h4v12H9z", forth: "M4 2v12l9-6z", last: "M12 2h2v12h-2zM2 2v12l9-6z",
};

export class Player {
  /** @param {(step: number) => void} go */
  constructor(go) {
    this.go = go;
    this.step = 0;
    this.last = 0;
    this.timer = 0;
    this.buttons = {
      first: this.#button("first", "First step", "Home", () => 0),
      back: this.#button("back", "Previous step", "arrow key", () => this.step - 1),
      play: button({ className: "play", "aria-label": "Play", title: "Play" }, () => this.#play(), icon("play")),
      forth: this.#button("forth", "Next step", "arrow key", () => this.step + 1),
      last: this.#button("last", "Last step", "End", () => this.last),
    };
    this.buttons.first.classList.add("edge");
    this.buttons.last.classList.add("edge");
    this.slider = make("input", { type: "range", min: "0", value: "0", "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.byHand(Number(this.slider.value)));
    this.count = make("output", { dir: "ltr" });
    this.element = make("div", { className: "card player", role: "group", "aria-label": "Steps" },
      ...Object.values(this.buttons), this.slider, this.count);
  }

  /**
   * @param {"first" | "back" | "forth" | "last"} name
   * @param {string} label
   * @param {string} key
   * @param {() => number} step
   */
  #button(name, label, key, step) {
    return button({ "aria-label": label, title: `${label} (${key})` }, () => this.byHand(step()), icon(name));
  }

  /** Steps because the reader wants it, which stops the clock. @param {number} step */
  byHand(step) {
    this.pause();
    this.go(step);
  }

  /** @param {number} step @param {number} last @param {string} news */
  show(step, last, news) {
    [this.step, this.last] = [step, last];
    this.slider.max = String(last);
    this.slider.value = String(step);
    this.slider.setAttribute("aria-valuetext", news);
    this.count.textContent = `${step + 1} / ${last + 1}`;
    const { first, back, forth, last: end } = this.buttons;
    const focused = document.activeElement;
    first.disabled = back.disabled = step === 0;
    end.disabled = forth.disabled = step === last;
    if (focused instanceof HTMLButtonElement && focused.disabled && this.element.contains(focused)) this.slider.focus();
    if (step === last) this.pause();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.#showPlay();
  }

  #play() {
    if (this.timer) return this.pause();
    if (this.step === this.last) this.go(0);
    this.timer = window.setInterval(() => this.go(this.step + 1), PAUSE_BETWEEN);
    return this.#showPlay();
  }

  #showPlay() {
    const label = this.timer ? "Pause" : "Play";
    this.buttons.play.replaceChildren(icon(this.timer ? "pause" : "play"));
    this.buttons.play.title = label;
    this.buttons.play.setAttribute("aria-label", label);
  }
}

/** @param {keyof ICONS} name */
function icon(name) {
  return draw("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, draw("path", { d: ICONS[name] }));
}
