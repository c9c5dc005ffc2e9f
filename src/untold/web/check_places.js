// Turns the records of a check into places as a list of findings shows them.
import { sum } from "./shares.js";
/** @import {CheckAnswer, CheckRecord, Part, Place} from "./types.js" */

const SUSPECTED_SIDE = { omission: "source", addition: "target" };

/** @param {CheckAnswer} answer @returns {Place[]} */
export function placesOf(answer) {
  return [...answer.results.map(placeOf), ...(answer.damages ?? [])];
}

/** Joins the answers about several files. @param {CheckAnswer[]} answers @returns {CheckAnswer} */
export function joinAnswers(answers) {
  const unchecked = /** @type {Record<string, number>} */ ({});
  for (const [reason, count] of answers.flatMap((each) => Object.entries(each.unchecked))) {
    unchecked[reason] = (unchecked[reason] ?? 0) + count;
  }
  return {
    model: answers[0]?.model ?? "",
    segments: sum(answers.map((each) => each.segments)),
    unchecked,
    findings: sum(answers.map((each) => each.findings)),
    results: answers.flatMap((each) => each.results),
    damages: answers.flatMap((each) => each.damages),
  };
}

/** @param {CheckRecord} record @returns {Place} */
function placeOf(record) {
  const { file, line, name, findings } = record;
  const known = words(name) === words(record.source.text) ? "" : name;
  const marks = findings.map(({ kind, probability }) => ({ kind, probability }));
  return { file, line, name: known, source: partsOf(record, "source"), target: partsOf(record, "target"), findings: marks };
}

/** @param {string} text */
const words = (text) => text.trim().split(/\s+/u).join(" ");

/**
 * Cuts a text into parts, with the number of the finding that suspects a part. Findings count
 * characters, not the units of two bytes that strings of this language have. Where a tokenizer has
 * changed the text too much to find its words again, the words are shown.
 * @param {CheckRecord} record
 * @param {"source" | "target"} side
 * @returns {Part[]}
 */
export function partsOf(record, side) {
  const own = record.findings.map((finding, number) => ({ finding, number })).filter(({ finding }) => SUSPECTED_SIDE[finding.kind] === side);
  const lost = own.some(({ finding }) => !finding.characters);
  const shown = record[side].words;
  const text = [...(lost ? shown.join(" ") : record[side].text)];
  const starts = [0];
  for (const word of shown) starts.push((starts.at(-1) ?? 0) + [...word].length + 1);
  const places = own.map(({ finding, number }) => {
    const [start, stop] = lost || !finding.characters ? [starts[finding.start] ?? 0, (starts[finding.stop] ?? 1) - 1] : finding.characters;
    return { start, stop, number };
  }).sort((a, b) => a.start - b.start);
  const parts = /** @type {Part[]} */ ([]);
  let done = 0;
  for (const { start, stop, number } of places) {
    parts.push([text.slice(done, start).join(""), null], [text.slice(start, stop).join(""), number]);
    done = stop;
  }
  parts.push([text.slice(done).join(""), null]);
  return parts.filter(([part]) => part);
}
