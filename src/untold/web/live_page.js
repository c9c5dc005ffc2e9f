// The live page: two views, one model for both, and what the address asks for.
import { readAddress } from "./address.js";
import { ask } from "./api.js";
import { CheckView } from "./check_view.js";
import { byId, make } from "./dom.js";
import { stepByKeys } from "./stepper.js";
import { themeButton } from "./theme.js";
import { TranslateView } from "./translate_view.js";
import { Trouble } from "./trouble.js";
/** @import {Catalogue, Model} from "./types.js" */

const UNCHECKED = "This model is not calibrated, so that it cannot check: choose another one, or run untold calibrate.";
const VIEWS = ["translate", "check"];

/** Shows one view. @param {string} name @param {boolean} [focus] */
function showView(name, focus = false) {
  for (const each of VIEWS) {
    const tab = byId(`${each}-tab`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    byId(each).hidden = each !== name;
    if (focus && each === name) tab.focus();
  }
}

function listenToTabs() {
  VIEWS.forEach((name, place) => {
    const tab = byId(`${name}-tab`);
    tab.addEventListener("click", () => showView(name));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      showView(VIEWS[(place + 1) % VIEWS.length] ?? name, true);
    });
  });
}

/** @param {Model} model */
function modelLabel({ name, source_language: source, target_language: target }) {
  return source && target && !name.includes(source) ? `${name} (${source} → ${target})` : name;
}

/** @param {Catalogue} catalogue */
function start(catalogue) {
  const models = /** @type {HTMLSelectElement} */ (byId("model"));
  const other = /** @type {HTMLSelectElement} */ (byId("other"));
  models.replaceChildren(...catalogue.models.map((model) => make("option", { value: model.name, text: modelLabel(model) })));
  other.append(...catalogue.models.map((model) => make("option", { value: model.name, text: modelLabel(model) })));
  /** @type {HTMLElement} */ (other.parentElement).hidden = catalogue.models.length < 2;
  const beam = /** @type {HTMLInputElement} */ (byId("beam"));
  beam.max = String(catalogue.limits.beam);
  const wanted = readAddress();
  models.value = catalogue.models.some((model) => model.name === wanted.model) ? wanted.model ?? "" : catalogue.default;
  const translate = new TranslateView(catalogue, () => models.value);
  const check = new CheckView(() => models.value, catalogue.limits);
  byId("settings").append(translate.alternatives.label);
  models.addEventListener("change", () => {
    translate.offerExamples();
    noteModel(catalogue, models.value);
    if (!byId("translate").hidden) void translate.run("");
  });
  noteModel(catalogue, models.value);
  const follow = () => fromAddress(translate, check);
  window.addEventListener("hashchange", follow);
  follow();
}

/** Says why a model cannot check. @param {Catalogue} catalogue @param {string} name */
function noteModel(catalogue, name) {
  const model = catalogue.models.find((each) => each.name === name);
  byId("check-note").textContent = model?.calibrated ? "" : UNCHECKED;
}

/** @param {TranslateView} translate @param {CheckView} check */
function fromAddress(translate, check) {
  const { view, text, prefix, step, source = "", target = "" } = readAddress();
  showView(view === "check" ? "check" : "translate");
  if (view === "check" && source) {
    check.fill(source, target);
    void check.checkPair();
  } else if (text) translate.begin({ text, prefix, step });
  else if (translate.text.value) void translate.run(""); // typed while the page was loading
}

listenToTabs();
stepByKeys();
byId("tools").append(themeButton());
const startTrouble = new Trouble();
byId("start-trouble").append(startTrouble.element);
void startTrouble.guard(async () => start(await ask("v1/models")));
