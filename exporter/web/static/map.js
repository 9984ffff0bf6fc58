// Who is connected to which broker: a line for each process and broker, as wide as it has connections.
import { h, s } from "./dom.js";
import { brokerName } from "./model.js";
import { className, count } from "./words.js";

const MOST = 12;
const ROW = 34;
const WIDTH = 560;
const LEFT = 190;
const RIGHT = 400;
const LONGEST = 24;
const CHURN = new Set(["KafkaClientConnectionChurn", "KafkaClientReconnectStorm"]);

export class BrokerMap {
  constructor(model, change) {
    this.model = model;
    this.change = change;
    this.svg = s("svg", { class: "map", role: "group", "aria-label": "Processes and brokers" });
    this.note = h("p", { class: "caption" });
    this.element = h("section", { id: "map", "aria-labelledby": "map-title" },
      h("h2", { id: "map-title" }, "Map"), this.svg, this.note);
  }

  render(rows, view) {
    const edges = new Map();
    const processes = new Map();
    const brokers = new Map();
    for (const row of rows) {
      const key = `${row.process}\n${row.broker}`;
      const edge = edges.get(key) ?? { process: row.process, broker: row.broker, count: 0, classes: new Set() };
      edges.set(key, edge);
      edge.count += 1;
      edge.classes.add(row.class);
      add(processes, row.process, row.process, row, this.model);
      const broker = add(brokers, row.broker, brokerName(row), row, this.model);
      broker.id = row.broker_id;
      broker.coordinator ||= row.class === "coordinator";
    }
    const left = most(processes);
    const right = most(brokers).sort((a, b) => (a.id ?? Infinity) - (b.id ?? Infinity) || (a.name < b.name ? -1 : 1));
    const churning = this.churning();
    const key = JSON.stringify([left, right, [...edges.values()].map((edge) => [edge.count, [...edge.classes]]),
      [...churning], view.process, view.broker]);
    if (key === this.key) return;
    this.key = key;
    this.draw({ left, right, edges, churning, view });
    const hidden = [[processes.size - left.length, "process"], [brokers.size - right.length, "broker"]]
      .filter(([number]) => number > 0)
      .map(([number, noun]) => `${number} more ${noun}${noun === "process" && number > 1 ? "es" : number > 1 ? "s" : ""}`);
    this.note.textContent = ["Width: connections. Colour: the worst class. Dotted: churn. ★ coordinator.",
      ...(hidden.length ? [`Not drawn: ${hidden.join(", ")}.`] : [])].join(" ");
  }

  /** Processes whose connections come and go. */
  churning() {
    return new Set((this.model.findings ?? []).filter((each) => CHURN.has(each.name))
      .flatMap((each) => each.cases.map((one) => one.labels.process)));
  }

  draw({ left, right, edges, churning, view }) {
    const height = ROW * Math.max(left.length, right.length, 1) + 10;
    const y = (list, place) => 5 + ((place + 0.5) * (height - 10)) / list.length;
    const places = (list) => new Map(list.map((each, place) => [each.key, y(list, place)]));
    const [from, to] = [places(left), places(right)];
    this.svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    const focused = this.svg.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const lines = [...edges.values()].filter((edge) => from.has(edge.process) && to.has(edge.broker))
      .map((edge) => this.edge(edge, from.get(edge.process), to.get(edge.broker), churning, view));
    const nodes = [
      ...left.map((each) => this.node(each, LEFT, from.get(each.key), "process", view)),
      ...right.map((each) => this.node(each, RIGHT, to.get(each.key), "broker", view)),
    ];
    this.svg.replaceChildren(...lines, ...nodes);
    if (focused) [...this.svg.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused)?.focus();
  }

  button(key, words, pressed, act, ...children) {
    return s("g", {
      role: "button", tabindex: 0, "data-key": key, "aria-label": words, "aria-pressed": String(pressed),
      onclick: act,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        act();
      },
    }, s("title", {}, words), ...children);
  }

  edge(edge, y1, y2, churning, view) {
    const worst = this.model.worst(edge.classes);
    const churn = churning.has(edge.process);
    const [x1, x2, middle] = [LEFT + 6, RIGHT - 6, (LEFT + RIGHT) / 2];
    const path = `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
    const chosen = view.process === edge.process && view.broker === edge.broker;
    const words = `${edge.process} to ${edge.broker}: ${count(edge.count, "connection")}, `
      + `${className(worst)}${churn ? ", churn" : ""}`;
    const width = 1.5 + 2.5 * Math.log2(edge.count);
    return this.button(`${edge.process}\n${edge.broker}`, words, chosen,
      () => this.change(chosen ? { process: "", broker: "" } : { process: edge.process, broker: edge.broker }),
      s("path", { d: path, class: "hit" }),
      s("path", { d: path, class: `edge stroke ${worst}${churn ? " churn" : ""}${chosen ? " on" : ""}`,
        "stroke-width": Math.min(width, 16).toFixed(1) }));
  }

  node(each, x, y, facet, view) {
    const chosen = view[facet] === each.key;
    const isLeft = facet === "process";
    const words = `${each.name}: ${count(each.count, "connection")}, ${each.waste} wasted, worst: ${className(this.model.worst(new Set(each.classes)))}`;
    const worst = this.model.worst(new Set(each.classes));
    const [textX, anchor] = isLeft ? [x - 10, "end"] : [x + 10, "start"];
    const label = `${shortened(each.name)}${each.coordinator ? " ★" : ""} ${each.count}`;
    return this.button(`${facet}\n${each.key}`, words, chosen,
      () => this.change({ [facet]: chosen ? "" : each.key }),
      s("rect", { x: isLeft ? 0 : x, y: y - 13, width: isLeft ? x : WIDTH - x, height: 28, class: "hit" }),
      s("circle", { cx: x, cy: y, r: 5, class: `fill ${worst}` }),
      s("text", { x: textX, y: y + 1, "text-anchor": anchor, class: chosen ? "on" : null }, label),
      // A colour alone is not seen by everybody.
      s("text", { x: textX, y: y + 12, "text-anchor": anchor, class: "worst" }, className(worst)));
  }
}

function add(nodes, key, name, row, model) {
  const node = nodes.get(key) ?? { key, name, count: 0, waste: 0, classes: [] };
  nodes.set(key, node);
  node.count += 1;
  if (model.isWaste(row)) node.waste += 1;
  if (!node.classes.includes(row.class)) node.classes.push(row.class);
  return node;
}

const most = (nodes) =>
  [...nodes.values()].sort((a, b) => b.waste - a.waste || b.count - a.count || (a.key < b.key ? -1 : 1)).slice(0, MOST);

const shortened = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);
