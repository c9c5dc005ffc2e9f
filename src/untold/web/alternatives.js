// Other translations of the same text, best first.
import { ask } from "./api.js";
import { button, make } from "./dom.js";
import { visible } from "./writing.js";
/** @import {Alternative, Translation} from "./types.js" */

export class AlternativeList {
  /** @param {(text: string) => void} choose */
  constructor(choose) {
    this.choose = choose;
    this.number = make("select", { id: "nbest" }, ...["none", "3", "5"].map((text) => make("option", { value: text === "none" ? "" : text, text })));
    this.label = make("label", {}, "Alternatives ", this.number);
    this.list = make("ol", { className: "plain" });
    this.element = make("section", { className: "card", hidden: "" }, make("h2", { text: "Alternatives" }), this.list);
  }

  clear() {
    this.element.hidden = true;
    this.list.replaceChildren();
  }

  /** Asks for alternatives, if the reader wants some. @param {object} body @param {AbortSignal} signal */
  async find(body, signal) {
    this.clear();
    const nbest = Number(this.number.value);
    if (!nbest) return;
    const answer = /** @type {{translations: Translation[]}} */ (await ask("v1/translate", { ...body, nbest }, signal));
    const [first] = answer.translations;
    if (first) this.#show([first, ...first.alternatives]);
  }

  /** @param {Alternative[]} found */
  #show(found) {
    const texts = [...new Map(found.map((each) => [each.text, each])).values()];
    this.element.hidden = false;
    this.list.replaceChildren(...texts.map(({ text, score }) => make("li", {},
      button({ className: "row" }, () => this.choose(text),
        make("span", { dir: "auto", text: visible(text) }), make("span", { className: "soft small", text: `score ${score.toFixed(3)}` })))));
  }
}
