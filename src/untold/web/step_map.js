// The overview of all steps: a row for each source word, a column for each target word.
import { button, make, unseen } from "./dom.js";
import { CATEGORIES, END, sum, turns } from "./shares.js";
import { counted, direction, percent, standsUpright, visible } from "./writing.js";
/** @import {Sentence, Triple} from "./types.js" */

const CELLS_AT_ONCE = 6000; // cells that are drawn without being asked for

export class StepMap {
  /** @param {(step: number) => void} choose */
  constructor(choose) {
    this.choose = choose;
    this.table = make("table", { className: "map" }, make("caption", {
      className: "hidden",
      text: "Shares of past, future and redundant of each source word (rows) before each target word (columns), in percent",
    }));
    this.scroll = make("div", { className: "scroll", tabindex: "0", role: "region", "aria-label": "All steps" }, this.table);
    this.ask = make("p");
    this.element = make("section", { className: "card overview" },
      make("h3", { text: "All steps: past rises from below, a frame marks where it overtakes future" }), this.ask, this.scroll);
  }

  /** @param {Sentence} sentence @param {Triple[][]} shares */
  build(sentence, shares) {
    const cells = shares.length * sentence.source.words.length;
    this.scroll.setAttribute("aria-label", sentence.system ? `All steps of ${visible(sentence.system)}` : "All steps");
    this.table.querySelectorAll("thead, tbody").forEach((part) => part.remove());
    this.ask.replaceChildren();
    this.scroll.hidden = cells > CELLS_AT_ONCE;
    if (cells <= CELLS_AT_ONCE) return this.#fill(sentence, shares);
    this.ask.append(button({ className: "quiet", text: `Draw all ${counted(cells, "cell")}` }, () => {
      this.ask.replaceChildren();
      this.scroll.hidden = false;
      this.#fill(sentence, shares);
    }));
  }

  /** @param {Sentence} sentence @param {Triple[][]} shares */
  #fill({ source, target }, shares) {
    const columns = [...target.words, END];
    const turned = shares.map((row, step) => turns(shares[step - 1], row));
    const head = make("tr", {}, make("td", { "aria-hidden": "true" }), ...columns.map((word, step) => {
      const end = step === target.words.length;
      const chosen = button({ tabindex: "-1", text: visible(word) }, () => this.choose(step));
      return make("th", {
        scope: "col", lang: (end ? "en" : target.language) || undefined,
        className: end ? "end" : standsUpright(word) ? "upright" : "",
      }, chosen);
    }));
    const rows = source.words.map((word, place) => make("tr", {},
      make("th", { scope: "row", lang: source.language || undefined, title: visible(word) }, make("bdi", { text: visible(word) })),
      ...shares.map((row, step) => this.#cell(row[place] ?? [0, 0, 0], step,
        turned[step]?.told.has(place) ? "told" : turned[step]?.fallen.has(place) ? "fallen" : ""))));
    this.table.append(make("thead", {}, head), make("tbody", {}, ...rows));
    this.table.dir = direction(target.text);
    this.table.style.setProperty("--columns", String(columns.length));
  }

  /** @param {Triple} shares @param {number} step @param {string} turn */
  #cell(shares, step, turn) {
    // Rounded: browsers draw nothing when two stops differ by a rounding error.
    const level = (/** @type {number} */ count) => `${Math.min(100, 100 * sum(shares.slice(0, count))).toFixed(1)}%`;
    const news = { told: ", just told", fallen: ", untold again" }[turn] ?? "";
    const words = CATEGORIES.map((name, g) => `${name} ${percent(shares[g] ?? 0)}`).join(", ") + news;
    const cell = make("td", { title: words, className: turn }, unseen(words));
    cell.style.background = `linear-gradient(to top, var(--past) ${level(1)}, var(--future) ${level(1)} ` +
      `${level(2)}, var(--redundant) ${level(2)} ${level(3)}, transparent ${level(3)})`;
    cell.addEventListener("click", () => this.choose(step));
    return cell;
  }

  /** Marks the column of a step and brings it into view. @param {number} step */
  show(step) {
    for (const row of this.table.rows) {
      [...row.cells].forEach((cell, column) => cell.classList.toggle("now", column === step + 1));
    }
    const head = this.table.rows[0]?.cells[step + 1], label = this.table.rows[1]?.cells[0];
    if (!head || !label) return;
    const seen = this.scroll.getBoundingClientRect(), place = head.getBoundingClientRect();
    const hidden = label.getBoundingClientRect().width; // under the row's word
    const start = this.table.dir === "rtl" ? 0 : hidden, end = hidden - start;
    if (place.left < seen.left + start) this.scroll.scrollLeft -= seen.left + start - place.left + 8;
    else if (place.right > seen.right - end) this.scroll.scrollLeft += place.right - seen.right + end + 8;
  }
}
