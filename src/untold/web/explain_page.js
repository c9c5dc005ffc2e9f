// The page of `untold explain`: its data stand in the page itself.
import { byId, make } from "./dom.js";
import { SentenceList } from "./sentence_list.js";
import { Stepper, stepByKeys } from "./stepper.js";
import { themeButton } from "./theme.js";
/** @import {ExplainDocument, Sentence} from "./types.js" */

const UNCALIBRATED = "No word is underlined at the end, because there are no probabilities: give them to the model by " +
  "untold calibrate MODEL --source F --target F.";

class ExplainPage {
  /** @param {ExplainDocument} data */
  constructor(data) {
    this.sentences = data.sentences;
    this.current = 0;
    const systems = data.sentences.some((sentence) => sentence.against) ? 2 : 1;
    this.steppers = Array.from({ length: systems }, () => new Stepper(() => this.#address()));
    this.list = new SentenceList(data.sentences, (number) => this.open(number, [0, 0]));
    this.list.element.hidden = data.sentences.length < 2;
    document.body.classList.toggle("listed", data.sentences.length > 1);
    this.panels = make("div", { className: "panels" }, ...this.steppers.map((each) => each.element));
    byId("list").append(this.list.element);
    byId("content").append(this.panels);
    byId("tools").append(themeButton());
    window.addEventListener("hashchange", () => this.fromAddress());
  }

  /** @param {number} number @param {number[]} steps of the system and of the one beside it */
  open(number, steps) {
    this.current = number;
    const sentence = this.sentences[number];
    if (!sentence) return;
    const beside = sentence.against ?? null;
    this.panels.classList.toggle("two", beside !== null);
    [sentence, beside].forEach((each, place) => {
      const stepper = this.steppers[place];
      if (!stepper) return;
      stepper.element.hidden = !each;
      if (each) stepper.open(each, steps[place] ?? 0);
      else stepper.sentence = null;
    });
    this.list.mark(number);
    byId("scores").textContent = scores(sentence) + (beside ? ` Beside it: ${scores(beside)}` : "");
    byId("calibration").textContent = sentence.untold ? "" : UNCALIBRATED;
  }

  #address() {
    const [own, other] = this.steppers.map((each) => each.step + 1);
    const second = this.sentences[this.current]?.against ? `.${other}` : "";
    try { history.replaceState(null, "", `#${this.current + 1}.${own}${second}`); } catch { /* some browsers refuse it in files */ }
  }

  fromAddress() {
    const [number = 1, ...steps] = location.hash.slice(1).split(".").map(Number);
    const known = number >= 1 && number <= this.sentences.length;
    this.open(known ? number - 1 : 0, steps.map((step) => (step || 1) - 1));
  }
}

/** @param {Sentence} sentence */
function scores({ target, score, log_probability }) {
  const how = target.given ? "The translation was given." : "The translation is the model's own.";
  return `${how} Score ${score.toFixed(3)}, log probability ${log_probability.toFixed(3)}.`;
}

stepByKeys();
new ExplainPage(JSON.parse(byId("data").textContent ?? "")).fromAddress();
