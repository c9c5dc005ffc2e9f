// Talks to the server that this page came from, and to no other.
import { recall, remember } from "./memory.js";
/** @import {CheckAnswer, StartEvent, TokenEvent, Translation} from "./types.js" */

const API_KEY = "untold.key";

/** An answer that is an error, in one sentence. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Keeps the key until the browser window is closed. @param {string} key */
export const keepKey = (key) => remember(API_KEY, key, sessionStorage);

/**
 * Asks the server and waits for the whole answer.
 * @template Answer
 * @param {string} path below the page's address
 * @param {object} [body] what is sent; without it the server is only asked
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer>}
 */
export async function ask(path, body, signal) {
  const answer = await request(path, body, signal);
  return answer.json();
}

/**
 * @typedef {{event: "start", data: StartEvent} | {event: "token", data: TokenEvent}
 *   | {event: "end", data: {translation: Translation}}} StreamEvent
 */
/** @typedef {{event: "progress", data: {done: number, segments: number}} | {event: "end", data: CheckAnswer}} CheckEvent */

/**
 * Asks the server, and yields what happens as it happens.
 * @template {StreamEvent | CheckEvent} Happening
 * @param {string} path below the page's address
 * @param {object} body
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Happening>}
 */
export async function* watch(path, body, signal) {
  const answer = await request(path, body, signal);
  let ended = false;
  for await (const block of blocksOf(answer)) {
    const found = parseEvent(block);
    if (!found) continue;
    if (found.event === "error") throw new ApiError(500, found.data.error?.message ?? "The server stopped with an error.");
    ended ||= found.event === "end";
    yield found;
  }
  if (!ended) throw new ApiError(0, "The server stopped before its answer was complete: try again.");
}

/** Cuts a stream where its events end. @param {Response} answer */
async function* blocksOf(answer) {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { value: "", done: true };
    const blocks = (rest + (value ?? "")).split(/\r\n\r\n|\n\n|\r\r/);
    rest = blocks.pop() ?? "";
    yield* blocks;
    if (done) return;
  }
}

/** Reads one event of a stream; comments keep the connection alive and say nothing. @param {string} block @returns {any} */
export function parseEvent(block) {
  const lines = block.split(/\r?\n/);
  const field = (/** @type {string} */ name) => lines.filter((line) => line.startsWith(`${name}:`))
    .map((line) => line.slice(name.length + 1).replace(/^ /, "")).join("\n");
  const data = field("data");
  return data ? { event: field("event"), data: JSON.parse(data) } : null;
}

/** @param {string} path @param {object} [body] @param {AbortSignal} [signal] */
async function request(path, body, signal) {
  const sent = body ? { method: "POST", body: JSON.stringify(body) } : {};
  let answer;
  try {
    answer = await fetch(path, { ...sent, headers: headersOf(body), signal: signal ?? null, credentials: "same-origin" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The server does not answer: see whether untold serve still runs, and try again.");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => null);
  throw new ApiError(answer.status, told?.error?.message ?? `The server answered with the error ${answer.status}: try again.`);
}

/** @param {object} [body] @returns {Record<string, string>} */
function headersOf(body) {
  const key = recall(API_KEY, sessionStorage);
  return { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...(body ? { "Content-Type": "application/json" } : {}) };
}
