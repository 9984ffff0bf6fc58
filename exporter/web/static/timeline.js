// The last hours, stacked by class: useful below, wasted on top, the expected number as a line.
import { h, s, setText, setAttributes } from "./dom.js";
import { className, clock, count } from "./words.js";

const HEIGHT = 132;
const LEFT = 34;
const BELOW = 16;
/** A key moves by a part of the range; a shorter drag is a click. */
const STEPS = 60;
const LEAST = 6;
export const RANGES = { "5m": 300, "1h": 3600, "6h": 21600 };

export class Timeline {
  constructor(model, change) {
    this.model = model;
    this.change = change;
    const size = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
    const patterns = s("defs", {},
      s("pattern", { id: "hatch", ...size, patternTransform: "rotate(45)" }, s("rect", { width: 2, height: 6 })),
      s("pattern", { id: "dots", ...size }, s("circle", { cx: 3, cy: 3, r: 1.5 })));
    this.areas = s("g", {});
    this.line = s("path", { class: "expected-line" });
    this.marks = s("g", {});
    this.axis = s("g", { class: "axis" });
    this.selection = s("rect", { class: "selection", y: 0, height: HEIGHT - BELOW, width: 0 });
    this.cursor = s("line", { class: "cursor", y1: 0, y2: HEIGHT - BELOW });
    this.svg = s("svg", { class: "timeline", height: HEIGHT, role: "slider", tabindex: 0 },
      patterns, this.axis, this.areas, this.line, this.marks, this.selection, this.cursor);
    this.caption = h("p", { class: "caption" });
    this.legend = h("ul", { class: "legend", "aria-label": "Classes: choose one" });
    this.reset = h("button", { type: "button", hidden: true,
      onclick: () => this.change({ from: "", to: "" }) }, "whole range");
    this.element = h("section", { id: "timeline", "aria-labelledby": "timeline-title" },
      h("h2", { id: "timeline-title" }, "Connections by class ", this.reset),
      this.svg, this.caption, this.legend);
    this.follow();
  }

  /** A moment is pointed at, and a range chosen, by dragging or by keys. */
  follow() {
    this.begun = null;
    this.at = null;
    this.svg.addEventListener("pointerdown", (event) => {
      this.begun = this.timeAt(event.offsetX);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => this.look(this.timeAt(event.offsetX)));
    this.svg.addEventListener("pointerup", (event) => this.choose(this.timeAt(event.offsetX)));
    this.svg.addEventListener("pointerleave", () => this.look(null));
    this.svg.addEventListener("blur", () => {
      this.begun = null;
      this.look(null);
    });
    this.svg.addEventListener("keydown", (event) => {
      const step = (this.to - this.from) / STEPS;
      const moves = { ArrowLeft: -step, ArrowRight: step, Home: -Infinity, End: Infinity };
      if (event.key in moves) {
        this.look(Math.max(this.from, Math.min(this.to, (this.at ?? this.to) + moves[event.key])));
      } else if (event.key === "Enter" && this.at !== null) {
        if (this.begun === null) this.begun = this.at;
        else this.choose(this.at);
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  look(time) {
    this.at = time;
    this.show();
  }

  choose(time) {
    const [from, to] = [this.begun ?? time, time].sort((a, b) => a - b);
    this.begun = null;
    this.show();
    if (this.x(to) - this.x(from) >= LEAST) this.change({ from: Math.round(from), to: Math.round(to) });
  }

  timeAt(x) {
    return this.from + ((x - LEFT) / (this.width - LEFT)) * (this.to - this.from);
  }

  render(view) {
    const series = this.seriesFor(view);
    if (!series) return;
    this.series = series;
    this.width = Math.max(200, this.svg.clientWidth || 800);
    const shown = this.shown();
    this.top = Math.max(1, ...shown.map((place) => this.total(place)),
      ...shown.map((place) => series.expected[place] ?? 0));
    const present = this.present(shown);
    this.drawAreas(present, shown);
    this.drawLine(shown);
    this.drawMarks();
    this.drawAxis();
    this.drawLegend(present, view);
    this.reset.hidden = !view.from;
    this.svg.setAttribute("aria-label", this.words(shown));
    this.show();
  }

  /** The chosen range, else what shows all that an agent of a few minutes remembers. */
  range(view) {
    if (view.range in RANGES) return view.range;
    const since = this.model.history?.series.at(-1)?.times[0] ?? this.model.now();
    return this.model.now() - since <= RANGES["5m"] ? "5m" : "1h";
  }

  /** The finest series that reaches back far enough. */
  seriesFor(view) {
    const all = this.model.history?.series ?? [];
    const now = this.model.now();
    this.from = view.from ? Number(view.from) : now - RANGES[this.range(view)];
    this.to = view.to ? Number(view.to) : now;
    return all.find((each) => now - this.from <= 3600 && each.step_seconds < 60) ?? all.at(-1);
  }

  shown() {
    const { times, step_seconds: step } = this.series;
    const places = [];
    for (let place = 0; place < times.length; place += 1) {
      if (times[place] + step >= this.from && times[place] <= this.to) places.push(place);
    }
    return places;
  }

  total(place) {
    let sum = 0;
    for (const values of Object.values(this.series.by_class)) sum += values[place];
    return sum;
  }

  present(shown) {
    const classes = [...this.model.classes.values()];
    // Wasted ones last: on top, where they end the sum.
    return [...classes.filter((each) => !each.wasted).reverse(), ...classes.filter((each) => each.wasted)]
      .map((each) => each.class)
      .filter((name) => shown.some((place) => this.series.by_class[name]?.[place]));
  }

  x(time) {
    const share = (time - this.from) / (this.to - this.from);
    return LEFT + Math.max(0, Math.min(1, share)) * (this.width - LEFT);
  }

  y(value) {
    return (HEIGHT - BELOW) * (1 - value / this.top);
  }

  /** Steps that follow each other: a gap is a time that nobody has seen, not a zero. */
  runs(shown) {
    const { times, step_seconds: step } = this.series;
    const runs = [];
    for (const place of shown) {
      const run = runs.at(-1);
      if (run && times[place] - times[run.at(-1)] <= 2.5 * step) run.push(place);
      else runs.push([place]);
    }
    return runs;
  }

  drawAreas(present, shown) {
    const below = new Map(shown.map((place) => [place, 0]));
    const runs = this.runs(shown);
    const paths = present.map((name) => {
      const values = this.series.by_class[name];
      const parts = runs.map((run) => this.area(run, values, below));
      for (const place of shown) below.set(place, below.get(place) + values[place]);
      const d = parts.join("");
      return [s("path", { d, class: `fill ${name}` }, s("title", {}, className(name))), s("path", { d, class: `over ${name}` })];
    });
    this.areas.replaceChildren(...paths.flat());
  }

  area(run, values, below) {
    const { times, step_seconds: step } = this.series;
    const over = [];
    const under = [];
    run.forEach((place, index) => {
      const begin = this.x(times[place]).toFixed(1);
      const next = run[index + 1];
      const end = this.x(next === undefined ? times[place] + step : times[next]).toFixed(1);
      const low = this.y(below.get(place)).toFixed(1);
      const high = this.y(below.get(place) + values[place]).toFixed(1);
      over.push(`${begin},${high} ${end},${high}`);
      under.unshift(`${end},${low} ${begin},${low}`);
    });
    return `M${over.join(" ")} ${under.join(" ")}Z`;
  }

  drawLine(shown) {
    const { times, expected, step_seconds: step } = this.series;
    const parts = this.runs(shown).map((run) => `M${run.map((place) => {
      const y = this.y(expected[place]).toFixed(1);
      return `${this.x(times[place]).toFixed(1)},${y} ${this.x(times[place] + step).toFixed(1)},${y}`;
    }).join(" ")}`);
    this.line.setAttribute("d", parts.join(""));
  }

  drawMarks() {
    const seen = (this.model.history?.marks ?? [])
      .map((mark) => ({ ...mark, at: Date.parse(mark.time) / 1000 }))
      .filter((mark) => mark.at >= this.from && mark.at <= this.to);
    this.marks.replaceChildren(...seen.map((mark) => {
      const x = this.x(mark.at).toFixed(1);
      const words = `${clock(mark.at)} ${mark.kind === "end" ? "over: " : ""}${mark.text}`;
      return s("g", { class: `mark ${mark.kind}` },
        s("line", { x1: x, x2: x, y1: 0, y2: HEIGHT - BELOW }),
        s("path", { d: `M${x},0 l4,-0 l-4,7 l-4,-7Z` }), s("title", {}, words));
    }));
    this.seen = seen;
  }

  drawAxis() {
    const parts = [0, Math.round(this.top / 2), this.top].map((value) =>
      s("text", { x: LEFT - 5, y: Math.max(9, this.y(value)), "text-anchor": "end" }, String(value)));
    const steps = this.width > 600 ? 6 : 3;
    for (let step = 0; step <= steps; step += 1) {
      const time = this.from + (step / steps) * (this.to - this.from);
      const anchor = step === 0 ? "start" : step === steps ? "end" : "middle";
      const text = clock(time).slice(0, this.to - this.from < 900 ? 8 : 5);
      parts.push(s("text", { x: this.x(time), y: HEIGHT - 3, "text-anchor": anchor }, text));
    }
    this.axis.replaceChildren(...parts);
  }

  drawLegend(present, view) {
    const summary = this.model.document?.summary.by_class ?? {};
    const names = [...this.model.classes.keys()].filter((name) => present.includes(name) || summary[name]);
    const key = JSON.stringify([names.map((name) => [name, summary[name]]), view.class]);
    if (key === this.legendKey) return;
    this.legendKey = key;
    const focused = this.legend.contains(document.activeElement) && document.activeElement.dataset.class;
    this.legend.replaceChildren(...names.map((name) => h("li", {}, h("button", {
      type: "button", class: `badge ${name}`, "data-class": name, title: this.model.classes.get(name).meaning,
      "aria-pressed": String(view.class === name),
      onclick: () => this.change({ class: view.class === name ? "" : name }),
    }, `${summary[name] ?? 0} ${className(name)}`))));
    if (focused) this.legend.querySelector(`[data-class="${focused}"]`)?.focus();
  }

  words(shown) {
    const totals = shown.map((place) => this.total(place));
    if (!totals.length) return "No history yet";
    return `From ${clock(this.from)} to ${clock(this.to)}: between ${Math.min(...totals)} and `
      + `${count(Math.max(...totals), "connection")}, now ${totals.at(-1)}; `
      + count(this.seen.length, "mark");
  }

  /** Say what there was at the moment that is pointed at, or how to read the picture. */
  show() {
    if (!this.series) return;
    this.cursor.classList.toggle("on", this.at !== null);
    const text = this.at === null ? this.howTo() : this.told(this.at);
    setText(this.caption, text);
    setAttributes(this.svg, { "aria-valuemin": Math.round(this.from), "aria-valuemax": Math.round(this.to),
      "aria-valuenow": Math.round(this.at ?? this.to), "aria-valuetext": text });
    const x = this.x(this.at ?? this.to);
    setAttributes(this.cursor, { x1: x, x2: x });
    const begun = this.begun === null ? x : this.x(this.begun);
    setAttributes(this.selection, { x: Math.min(begun, x), width: Math.abs(x - begun) });
  }

  howTo() {
    const marks = this.seen?.length ? `; ${count(this.seen.length, "mark")}, the last: ${this.seen.at(-1).text}` : "";
    return `Dashed: expected. Drag to zoom, or ← → and Enter${marks}`;
  }

  told(time) {
    const place = this.shown().findLast((each) => this.series.times[each] <= time);
    if (place === undefined || time - this.series.times[place] > 2.5 * this.series.step_seconds) {
      return `${clock(time)}: not seen`;
    }
    const classes = Object.entries(this.series.by_class).filter(([, values]) => values[place])
      .map(([name, values]) => `${values[place]} ${className(name)}`);
    const { opened, closed, expected } = this.series;
    const near = this.seen.filter((mark) => Math.abs(this.x(mark.at) - this.x(time)) < 5).map((mark) => mark.text);
    return [`${clock(this.series.times[place])}: ${count(this.total(place), "connection")}`
      + ` (${expected[place]} expected)`, ...classes,
      ...(opened[place] ? [`${opened[place]} opened`] : []), ...(closed[place] ? [`${closed[place]} closed`] : []),
      ...near].join(" · ");
  }
}
