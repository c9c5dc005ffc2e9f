// Says in a line how a translation went.
import { largest } from "./shares.js";
import { counted, coveredWords } from "./writing.js";
/** @import {Sentence} from "./types.js" */

/**
 * Says the score, how often the search changed its mind and, after words that the reader gave, what remained.
 * @param {Sentence} sentence
 * @param {string} prefix what the reader gave
 * @param {number} revisions
 */
export function summarize({ score, source, target, shares }, prefix, revisions) {
  const changes = revisions ? `; the search changed its mind ${counted(revisions, "time")}` : "";
  const done = `Translated, score ${score.toFixed(3)}${changes}.`;
  if (!prefix.trim()) return done;
  const row = shares[coveredWords(target.words, prefix)] ?? [];
  const left = row.filter((each) => largest(each) === "future").length;
  return `${done} After your words, ${left} of ${counted(source.words.length, "source word")} were still untold.`;
}
