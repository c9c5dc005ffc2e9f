// Checks an existing translation, or a file of them, for what it leaves out and adds.
import { writeAddress } from "./address.js";
import { ask, watch } from "./api.js";
import { joinAnswers, placesOf } from "./check_places.js";
import { byId } from "./dom.js";
import { listenToDrops } from "./file_drop.js";
import { checkSummary, FindingList, whole } from "./finding_list.js";
import { copyButton, inBase64, saveFile, savePage } from "./saving.js";
import { Stepper } from "./stepper.js";
import { Trouble } from "./trouble.js";
import { counted, grouped } from "./writing.js";
/** @import {CheckAnswer, ExplainDocument, Limits, Place} from "./types.js" */
/** @import {CheckEvent} from "./api.js" */

export class CheckView {
  /**
   * @param {() => string} model the name of the chosen one
   * @param {Limits} limits
   * @param {() => void} show brings this view to the front
   */
  constructor(model, limits, show) {
    this.model = model;
    this.limits = limits;
    this.show = show;
    this.trouble = new Trouble();
    this.stepper = new Stepper();
    this.answer = /** @type {CheckAnswer | null} */ (null);
    this.source = /** @type {HTMLTextAreaElement} */ (byId("check-source"));
    this.target = /** @type {HTMLTextAreaElement} */ (byId("check-target"));
    this.threshold = /** @type {HTMLInputElement} */ (byId("threshold"));
    this.file = /** @type {HTMLInputElement} */ (byId("file"));
    this.list = new FindingList((place) => void this.trouble.guard(() => this.#explain(place)));
    this.stepper.element.hidden = true;
    byId("check-trouble").append(this.trouble.element);
    byId("check-results").append(this.list.element);
    byId("check-stepper").append(this.stepper.element);
    this.link = copyButton("Copy link", () => location.href);
    byId("check-tools").prepend(this.link);
    this.#listen();
  }

  #listen() {
    byId("check-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.checkPair();
    });
    this.file.addEventListener("change", () => void this.#checkFiles([...(this.file.files ?? [])]));
    listenToDrops((files) => void this.#checkFiles(files));
    byId("save-json").addEventListener("click", () => saveFile("untold-check.json", JSON.stringify(this.answer, null, 1), "application/json"));
    byId("save-html").addEventListener("click", () => void this.trouble.guard(() => this.#savePage()));
  }

  /** @param {string} source @param {string} target */
  fill(source, target) {
    [this.source.value, this.target.value] = [source, target];
  }

  async checkPair() {
    const [source, target] = [this.source.value, this.target.value];
    if (!source.trim() || !target.trim()) {
      this.trouble.say("A check compares two texts: write or paste both the source and its translation.", null);
      return;
    }
    writeAddress({ view: "check", model: this.model(), source, target });
    await this.trouble.guard(() => this.#check([{ pairs: [{ source, target }] }]));
  }

  /** @param {File[]} files */
  async #checkFiles(files) {
    if (!files.length) return;
    this.show();
    const most = this.limits.file_bytes;
    const large = files.find((file) => file.size > most);
    if (large) {
      this.trouble.say(`${large.name} has ${grouped(large.size)} bytes, and at most ${grouped(most)} are checked here: ` +
        "divide it, or use untold check.", null);
      return;
    }
    writeAddress({ view: "check", model: this.model() });
    await this.trouble.guard(async () =>
      this.#check(await Promise.all(files.map(async (file) => ({ file: { name: file.name, content: await inBase64(file) } })))));
    this.file.value = ""; // so that the same file can be chosen again
  }

  /** Has each part checked, and shows them together. @param {object[]} parts pairs or files */
  async #check(parts) {
    this.running?.abort();
    this.running = new AbortController();
    this.stepper.element.hidden = true;
    byId("check-status").textContent = "Checking…";
    const answers = /** @type {CheckAnswer[]} */ ([]);
    try {
      for (const part of parts) answers.push(...await this.#follow(part, this.running.signal));
    } catch (error) {
      byId("check-status").textContent = "";
      throw error;
    }
    this.answer = joinAnswers(answers);
    this.link.hidden = parts.some((part) => "file" in part); // no address holds a file
    const { segments, unchecked, findings, damages } = this.answer;
    this.summary = checkSummary(segments, unchecked, findings) + (damages?.length ? `; ${counted(damages.length, "damaged place")}` : "");
    byId("check-status").textContent = `${this.summary}.`;
    byId("check-answer").hidden = false;
    this.list.suspicious.checked = segments > 1 && findings > 0;
    this.list.show(placesOf(this.answer));
  }

  /** Has one part checked, and says how far it is. @param {object} part @param {AbortSignal} signal */
  async #follow(part, signal) {
    const answers = /** @type {CheckAnswer[]} */ ([]);
    const body = { model: this.model(), threshold: Number(this.threshold.value), stream: true, ...part };
    for await (const each of watch("v1/check", body, signal)) {
      const event = /** @type {CheckEvent} */ (each);
      if (event.event === "end") answers.push(event.data);
      else byId("check-status").textContent = `Checking… ${grouped(event.data.done)} of ${counted(event.data.segments, "segment")}`;
    }
    return answers;
  }

  async #savePage() {
    if (this.answer) await savePage("untold-check.html", "check_report.html", { summary: this.summary, places: placesOf(this.answer) });
  }

  /** @param {Place} place */
  async #explain(place) {
    const pairs = [{ source: whole(place.source), target: whole(place.target) }];
    const { sentences } = /** @type {ExplainDocument} */ (await ask("v1/explain", { model: this.model(), pairs }));
    if (!sentences[0]) return;
    this.stepper.element.hidden = false;
    this.stepper.open(sentences[0], sentences[0].target.words.length);
    this.stepper.element.scrollIntoView({ block: "start", behavior: "smooth" });
    this.stepper.player.slider.focus({ preventScroll: true });
  }
}
