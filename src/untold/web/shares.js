// What an explanation says at each of its steps. Nothing here touches the page.
/** @import {Sentence, Triple} from "./types.js" */

export const CATEGORIES = /** @type {const} */ (["past", "future", "redundant"]);
export const SIGNS = { past: "✓", future: "○", redundant: "–" };
export const SAID = { past: "told", future: "untold", redundant: "neither" };
export const END = "(end)";
export const LIKELY = 0.5; // a word is marked as untold or added from this probability on

/** @param {number[]} numbers */
export const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The category with the largest share. @param {Triple} shares */
export const largest = (shares) => CATEGORIES[shares.indexOf(Math.max(...shares))] ?? "redundant";

/** @param {number[] | null | undefined} probabilities @param {number} place */
export const likely = (probabilities, place) => (probabilities?.[place] ?? 0) >= LIKELY;

/** Lets past and future divide what redundant takes from a word. @param {Triple} shares @returns {Triple} */
export function withoutRedundant([past, future]) {
  const rest = past + future;
  return rest > 0 ? [past / rest, future / rest, 0] : [0, 1, 0];
}

/** @param {Triple | undefined} shares */
const isPast = (shares) => shares !== undefined && shares[0] > shares[1];

/**
 * The source words in which past has just overtaken future, or the other way round.
 * A word that is mostly neither has not been told just now.
 * @param {Triple[] | undefined} before
 * @param {Triple[]} now
 */
export function turns(before, now) {
  const told = new Set(), fallen = new Set();
  now.forEach((shares, place) => {
    if (!before || largest(shares) === "redundant") return;
    if (isPast(shares) && !isPast(before[place])) told.add(place);
    if (!isPast(shares) && isPast(before[place])) fallen.add(place);
  });
  return { told, fallen };
}

/** @param {Sentence} sentence @param {number} step */
export function turnsAt(sentence, step) {
  return turns(sentence.shares[step - 1], sentence.shares[step] ?? []);
}

/** The mean shares of all source words. @param {Triple[]} row */
export const means = (row) => CATEGORIES.map((_, g) => sum(row.map((word) => word[g] ?? 0)) / Math.max(1, row.length));

/** The source word that a target word was copied from. @param {Sentence} sentence @param {number} step */
export function copiedFrom({ source, copies }, step) {
  const copy = copies.find((each) => each.target === step);
  return copy && source.words[copy.source];
}

/**
 * The links of a sentence, by the model and by people, each with where it comes from.
 * @param {Sentence} sentence
 */
export function allLinks({ links = [], gold_links: gold }) {
  const key = (/** @type {{source: number, target: number}} */ { source, target }) => `${source} ${target}`;
  const own = new Set(links.map(key)), theirs = new Set((gold ?? []).map(key));
  const found = links.map((link) => ({ ...link, kind: !gold ? "model" : theirs.has(key(link)) ? "agreed" : "extra" }));
  const missed = (gold ?? []).filter((link) => link.sure && !own.has(key(link)));
  return [...found, ...missed.map(({ source, target }) => ({ source, target, probability: 1, kind: "missed" }))];
}

/**
 * Says a step in words, for screen readers.
 * @param {Sentence} sentence
 * @param {number} step
 * @param {Triple[]} row the shares as they are shown
 */
export function inWords(sentence, step, row) {
  const { source, target } = sentence;
  const from = copiedFrom(sentence, step);
  const next = (target.words[step] ?? "the end") + (from === undefined ? "" : `, copied from ${from}`);
  const { told, fallen } = turns(sentence.shares[step - 1], row);
  const named = (/** @type {Iterable<number>} */ places) => [...places].map((place) => source.words[place]).join(", ");
  const parts = [];
  if (told.size) parts.push(`just told: ${named(told)}`);
  if (fallen.size) parts.push(`untold again: ${named(fallen)}`);
  const linked = (sentence.links ?? []).filter((link) => link.target === step).map((link) => link.source);
  if (linked.length) parts.push(`linked to: ${named(linked)}`);
  for (const name of CATEGORIES) {
    const places = row.flatMap((shares, place) => (largest(shares) === name ? [place] : []));
    if (places.length) parts.push(`${SAID[name]}: ${named(places)}`);
  }
  if (step === target.words.length) {
    parts.push(...judged("left untold", source.words, sentence.untold), ...judged("added", target.words, sentence.added));
  }
  return { place: `Step ${step + 1}, before ${next}`, words: `${parts.join("; ")}.` };
}

/** @param {string} what @param {string[]} words @param {number[] | null | undefined} probabilities */
function judged(what, words, probabilities) {
  const found = words.flatMap((word, place) =>
    (likely(probabilities, place) ? [`${word}, probability ${probabilities?.[place]?.toFixed(2)}`] : []));
  return found.length ? [`${what}: ${found.join(", ")}`] : [];
}
