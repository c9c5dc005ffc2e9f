// Lines between linked words, drawn behind them.
import { draw } from "./dom.js";

/** @typedef {{from: Element | null, to: Element | null, kind: string, strong: boolean, probability: number}} Line */

export class LinkLines {
  /** @param {HTMLElement} stage holds both ends of every line */
  constructor(stage) {
    this.stage = stage;
    this.svg = draw("svg", { className: "lines", "aria-hidden": "true" });
    this.lines = /** @type {Line[]} */ ([]);
    stage.prepend(this.svg);
    new ResizeObserver(() => this.#draw()).observe(stage);
  }

  /** @param {Line[]} lines */
  show(lines) {
    this.lines = lines;
    this.#draw();
  }

  #draw() {
    const stage = this.stage.getBoundingClientRect();
    this.svg.setAttribute("viewBox", `0 0 ${stage.width} ${stage.height}`);
    this.svg.replaceChildren(...this.lines.flatMap((line) => {
      if (!line.from || !line.to) return [];
      const from = line.from.getBoundingClientRect(), to = line.to.getBoundingClientRect();
      const [x1, y1] = [from.left + from.width / 2 - stage.left, from.bottom - stage.top];
      const [x2, y2] = [to.left + to.width / 2 - stage.left, to.top - stage.top];
      const bend = Math.max(18, (y2 - y1) / 2);
      const points = [x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2].map((number) => number.toFixed(1));
      const path = draw("path", {
        d: `M${points.slice(0, 2).join(" ")}C${points.slice(2).join(" ")}`,
        className: `${line.kind}${line.strong ? " strong" : ""}`,
      });
      path.style.opacity = line.strong ? "1" : String(0.25 + 0.5 * line.probability);
      return [path];
    }));
  }
}
