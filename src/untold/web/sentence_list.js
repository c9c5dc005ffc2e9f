// A list of sentences with their translations that can be searched.
import { button, make, rested } from "./dom.js";
import { likely } from "./shares.js";
import { counted, grouped, visible } from "./writing.js";
/** @import {Sentence} from "./types.js" */

const SENTENCES_AT_ONCE = 200; // that are drawn, so that thousands stay quick

export class SentenceList {
  /** @param {Sentence[]} sentences @param {(number: number) => void} choose */
  constructor(sentences, choose) {
    this.choose = choose;
    this.rows = sentences.map((sentence, number) => ({
      sentence, number, text: `${sentence.source.text}\n${sentence.target.text}`.toLowerCase(),
    }));
    this.found = this.rows;
    this.drawn = 0;
    this.current = 0;
    this.search = make("input", { type: "search", placeholder: "Search both texts", "aria-label": "Search sentences", autocomplete: "off" });
    this.search.addEventListener("input", rested(() => this.#choose(), 120));
    this.status = make("p", { className: "soft small", role: "status" });
    this.list = make("ol");
    this.more = button({ className: "quiet", text: "Show more" }, () => this.#draw());
    this.element = make("nav", { className: "sentences", "aria-label": "Sentences" }, this.search, this.status, this.list, this.more);
    this.#choose();
  }

  #choose() {
    const text = this.search.value.trim().toLowerCase();
    this.found = this.rows.filter((row) => row.text.includes(text));
    this.drawn = 0;
    this.list.replaceChildren();
    this.#draw();
  }

  #draw() {
    const rows = this.found.slice(this.drawn, this.drawn + SENTENCES_AT_ONCE);
    this.drawn += rows.length;
    this.list.append(...rows.map(({ sentence, number }) => this.#item(sentence, number)));
    this.more.hidden = this.drawn === this.found.length;
    this.status.textContent = this.found.length === this.rows.length
      ? counted(this.rows.length, "sentence") : `${grouped(this.found.length)} of ${counted(this.rows.length, "sentence")}`;
    this.mark(this.current);
  }

  /** @param {Sentence} sentence @param {number} number */
  #item({ source, target, untold }, number) {
    const lacking = (untold ?? []).filter((_, place) => likely(untold, place)).length;
    const chosen = button({ "data-number": String(number) }, () => this.choose(number),
      make("span", { text: visible(source.text), lang: source.language || undefined, dir: "auto" }),
      make("span", { className: "soft", text: visible(target.text), lang: target.language || undefined, dir: "auto" }));
    if (lacking) chosen.append(make("span", { className: "badge", text: `○ ${lacking} untold` }));
    return make("li", {}, chosen);
  }

  /** Marks the sentence that is shown. @param {number} number */
  mark(number) {
    this.current = number;
    for (const each of this.list.querySelectorAll("button")) {
      const chosen = each.dataset.number === String(number);
      each.setAttribute("aria-current", String(chosen));
      if (!chosen) continue;
      const list = this.list.getBoundingClientRect(), place = each.getBoundingClientRect();
      if (place.top < list.top || place.bottom > list.bottom) this.list.scrollTop += place.top - list.top;
    }
  }
}
