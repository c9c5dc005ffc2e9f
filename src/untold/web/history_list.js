// What was translated in this browser: kept here alone, until it is cleared.
import { button, make } from "./dom.js";
import { recall, remember } from "./memory.js";
import { visible } from "./writing.js";

const HISTORY_KEY = "untold.history";
const KEPT = 30, LONGEST_KEPT = 2000;

/** @typedef {{text: string, translation: string, model: string}} Entry */

export class HistoryList {
  /** @param {(entry: Entry) => void} choose */
  constructor(choose) {
    this.choose = choose;
    this.entries = /** @type {Entry[]} */ ([]);
    try {
      const kept = JSON.parse(recall(HISTORY_KEY) ?? "[]");
      if (Array.isArray(kept)) this.entries = kept.filter((each) => typeof each?.text === "string" && typeof each?.translation === "string");
    } catch { /* what cannot be read is forgotten */ }
    this.list = make("ol", { className: "plain" });
    this.summary = make("summary");
    this.element = make("details", { className: "history" }, this.summary,
      make("p", { className: "soft small", text: "Kept in this browser alone." }), this.list,
      button({ className: "quiet", text: "Clear history" }, () => this.#keep([])));
    this.#draw();
  }

  /** @param {Entry} entry */
  add(entry) {
    if (entry.text.length > LONGEST_KEPT) return;
    this.#keep([entry, ...this.entries.filter((each) => each.text !== entry.text || each.model !== entry.model)].slice(0, KEPT));
  }

  /** @param {Entry[]} entries */
  #keep(entries) {
    this.entries = entries;
    remember(HISTORY_KEY, entries.length ? JSON.stringify(entries) : null);
    this.#draw();
  }

  #draw() {
    this.element.hidden = !this.entries.length;
    this.summary.textContent = `History (${this.entries.length})`;
    this.list.replaceChildren(...this.entries.map((entry) => make("li", {}, button({ className: "row" }, () => this.choose(entry),
      make("span", { dir: "auto", text: visible(entry.text) }), make("span", { className: "soft", dir: "auto", text: visible(entry.translation) })))));
  }
}
