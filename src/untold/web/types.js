// The shapes of what the server and `untold explain` send, for readers and for the type checker.
// docs/explain.md and docs/check.md describe every field.

/** @typedef {[number, number, number]} Triple shares of past, future and redundant */
/** @typedef {{text: string, language: string, words: string[]}} Side */
/** @typedef {{source: number, target: number, probability: number}} Link */
/** @typedef {{source: number, target: number, sure: boolean}} GoldLink */

/**
 * @typedef {object} Sentence
 * @property {Side} source
 * @property {Side & {given: boolean}} target
 * @property {Triple[][]} shares before each target word and before the end
 * @property {{source: number, target: number}[]} flips
 * @property {{source: number, target: number, probability: number}[]} copies
 * @property {number} score
 * @property {number} log_probability
 * @property {number[] | null} [untold]
 * @property {number[] | null} [added]
 * @property {Link[]} [links]
 * @property {GoldLink[] | null} [gold_links]
 * @property {string} [system]
 * @property {Sentence | null} [against]
 */

/** @typedef {{categories: string[], sentences: Sentence[]}} ExplainDocument */

/**
 * @typedef {object} Model
 * @property {string} name
 * @property {string} source_language
 * @property {string} target_language
 * @property {boolean} separates
 * @property {boolean} calibrated
 * @property {boolean} copies
 * @property {string[]} examples
 */

/** @typedef {{characters: number, texts: number, beam: number, file_bytes: number, segments: number}} Limits */
/** @typedef {{default: string, models: Model[], limits: Limits}} Catalogue */
/** @typedef {{text: string, score: number, log_probability: number}} Alternative */
/** @typedef {Alternative & {alternatives: Alternative[], trace: Sentence | null}} Translation */
/** @typedef {{model: string, categories: string[], source: Side}} StartEvent */

/**
 * @typedef {object} TokenEvent the best translation so far
 * @property {number} index
 * @property {string} text
 * @property {string[]} words
 * @property {number} kept
 * @property {boolean} revised
 * @property {boolean} complete
 * @property {Triple[] | null} shares
 */

/** @typedef {{text: string, words: string[], probabilities: number[], any: number}} JudgedSide */

/**
 * @typedef {object} Finding
 * @property {"omission" | "addition"} kind
 * @property {number} probability
 * @property {string} text
 * @property {number} start
 * @property {number} stop
 * @property {[number, number] | null} characters
 */

/** @typedef {{file: string, line: number, name: string, source: JudgedSide, target: JudgedSide, findings: Finding[]}} CheckRecord */
/** @typedef {{file: string, line: number, damage: string}} DamageRecord */

/**
 * @typedef {object} CheckAnswer
 * @property {string} model
 * @property {number} segments
 * @property {Record<string, number>} unchecked
 * @property {number} findings
 * @property {CheckRecord[]} results
 * @property {DamageRecord[]} damages
 */

/** @typedef {[string, number | null]} Part a stretch of text and the number of its finding */
/** @typedef {{kind: "omission" | "addition", probability: number}} Mark */

/**
 * @typedef {object} Place a segment or a damage as a list of findings shows it
 * @property {string} file
 * @property {number} line
 * @property {string} [damage]
 * @property {string} [name]
 * @property {Part[]} [source]
 * @property {Part[]} [target]
 * @property {Mark[]} [findings]
 */

export {};
