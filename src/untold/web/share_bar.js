// A bar that past, future and redundant divide.
import { make } from "./dom.js";
import { CATEGORIES, SAID, SIGNS } from "./shares.js";
import { percent } from "./writing.js";

/** Makes an empty bar; screen readers hear its numbers elsewhere. */
export function shareBar() {
  return make("div", { className: "bar", "aria-hidden": "true" }, ...CATEGORIES.map((name) => make("i", { className: name })));
}

/** @param {Element} bar @param {readonly number[]} shares */
export function fillBar(bar, shares) {
  [...bar.children].forEach((part, g) => {
    if (part instanceof HTMLElement) part.style.width = `${100 * (shares[g] ?? 0)}%`;
  });
}

/** Explains signs and colours, and says how the whole source is divided. */
export class ShareKey {
  constructor() {
    this.bar = shareBar();
    this.numbers = CATEGORIES.map(() => make("b"));
    this.items = CATEGORIES.map((name, g) => make("li", {}, make("i", { className: name }),
      `${SIGNS[name]} ${SAID[name]} (${name.toUpperCase()}) `, this.numbers[g] ?? ""));
    this.element = make("div", { className: "total" }, this.bar, make("ul", { className: "key" }, ...this.items));
  }

  /** @param {number[]} means @param {boolean} redundant */
  show(means, redundant) {
    fillBar(this.bar, means);
    this.items.forEach((item, g) => { item.hidden = CATEGORIES[g] === "redundant" && !redundant; });
    this.numbers.forEach((number, g) => { number.textContent = `${percent(means[g] ?? 0)} %`; });
  }
}
