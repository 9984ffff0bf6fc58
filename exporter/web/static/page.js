// The page: header, timeline, map, recommendations and table of one agent, live.
import { FACETS, readAddress, writeAddress } from "./address.js";
import { Recommendations, limits, runbooks } from "./advice.js";
import { h, setAttributes, setText } from "./dom.js";
import { Live } from "./live.js";
import { BrokerMap } from "./map.js";
import { GROUPS, Model, clientName } from "./model.js";
import { Story } from "./story.js";
import { Table } from "./table.js";
import { RANGES, Timeline } from "./timeline.js";
import { className, clock, count, percent } from "./words.js";

const HISTORY_SECONDS = 60;
const WASTE_BEFORE_SECONDS = 300;
const KEYS = [
  ["j k", "next and previous line"], ["enter", "open a group, or the story of a connection"],
  ["/", "filter"], ["g", "next grouping"], ["b", "group by broker"], ["p", "pause or go on"],
  ["← → enter", "on the timeline: look at a moment, choose a range"],
  ["Esc", "close, or clear the filter"], ["?", "this help"],
];

const app = document.getElementById("app");
const { place, version, up } = app.dataset;
const runbook = runbooks(app.dataset.runbooks);
const model = new Model();
let view = readAddress();
let drawn = 0;

const timeline = new Timeline(model, change);
const map = new BrokerMap(model, change);
const advice = new Recommendations(model, change, runbook);
const table = new Table(model, change);
const story = new Story(model, change, runbook);

const state = h("span", { class: "state", role: "status" }, "connecting");
const pause = h("button", { type: "button", "aria-pressed": "false", onclick: togglePause }, "pause");
const ranges = Object.keys(RANGES).map((name) =>
  h("button", { type: "button", onclick: () => change({ range: name, from: "", to: "" }) }, name));
const filter = h("input", { type: "search", id: "filter", placeholder: "filter: a name, address, class",
  "aria-label": "Filter connections", oninput: () => change({ q: filter.value }) });
const totals = h("p", { class: "totals" });
const limit = h("details", { class: "limits" }, h("summary", {}), h("ul", {}));
const chips = h("div", { class: "chips", role: "group", "aria-label": "Chosen" });
const copied = h("span", { role: "status", class: "quiet" });
const copy = h("button", { type: "button", onclick: copyLink }, "copy link");
const help = h("dialog", { id: "help", "aria-labelledby": "help-title" },
  h("h2", { id: "help-title" }, "Keys"),
  h("dl", {}, ...KEYS.map(([key, words]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)))),
  h("button", { type: "button", onclick: () => help.close() }, "close"));

app.append(
  h("header", {},
    h("div", { class: "bar" },
      h("h1", {}, "brokerwire ", h("small", {}, version)),
      h("span", { class: "place" }, place),
      h("span", { class: "live" }, state, pause),
      h("div", { class: "choice", role: "group", "aria-label": "Time range" }, ...ranges),
      filter),
    totals, limit, chips),
  h("main", {}, timeline.element, h("div", { class: "columns" }, map.element, advice.element), table.element),
  h("footer", {}, copy, copied, h("a", { href: "api/v1/connections" }, "JSON"),
    ...(up ? [h("a", { href: up }, "all networks")] : []),
    h("button", { type: "button", onclick: () => help.showModal() }, "keys ?")),
  story.element, help);

const live = new Live(up, (kind, document) => {
  model.take(kind, document);
  draw();
}, (now) => {
  setText(state, stateWords(now));
  state.className = `state ${now}`;
});

function stateWords(now) {
  const last = model.time ? clock(model.time) : "nothing yet";
  if (now === "paused") return `paused at ${last}`;
  if (now === "lost") return `the agent does not answer; last read ${last}`;
  if (model.document?.stale) return `out of date: the sockets were not read since ${last}`;
  const every = now === "asking" ? 10 : Math.max(1, model.document?.interval_seconds ?? 1);
  return `live, every ${Number(every.toFixed(1))} s`;
}

function change(changed) {
  view = { ...view, ...changed };
  writeAddress(view);
  draw();
}

/** Draw with the next frame: several changes at once are drawn once. */
function draw() {
  if (drawn || !model.document || !model.classes.size) return;
  drawn = requestAnimationFrame(() => {
    drawn = 0;
    render();
  });
}

function render() {
  const begun = performance.now();
  const rows = model.chosen(view);
  renderHeader(rows);
  timeline.render(view);
  // The map shows what the other choices leave: of the chosen line also its neighbours.
  const around = view.process || view.broker ? model.chosen({ ...view, process: "", broker: "" }) : rows;
  map.render(around, view);
  advice.render(view);
  table.render(rows, view);
  story.render(view);
  app.dataset.frame = (performance.now() - begun).toFixed(1);
}

function renderHeader() {
  const { summary, sources } = model.document;
  const wasted = Object.entries(summary.by_class)
    .reduce((sum, [name, number]) => sum + (model.classes.get(name)?.wasted ? number : 0), 0);
  const more = wasted - (wastedBefore() ?? wasted);
  const parts = [
    `${count(summary.connections, "connection")} (${summary.expected} expected)`,
    `${wasted} wasted${more ? ` (${more > 0 ? "+" : "−"}${Math.abs(more)} in 5 min)` : ""}`,
    `${percent(summary.efficiency)} efficient`,
    ...(sources.length ? [`sources ${sources.filter((each) => each.up).length}/${sources.length}`] : []),
  ];
  if (totals.children.length !== parts.length) totals.replaceChildren(...parts.map(() => h("span", {})));
  parts.forEach((text, place) => setText(totals.children[place], text));
  totals.children[1].classList.toggle("bad", wasted > 0);
  renderLimits();
  renderChips();
  ranges.forEach((button) => setAttributes(button, {
    "aria-pressed": String(!view.from && button.textContent === timeline.range(view)) }));
  if (document.activeElement !== filter) filter.value = view.q;
  setText(state, stateWords(live.paused ? "paused" : live.source ? "live" : "asking"));
}

/** How many were wasted five minutes ago; unknown where the agent was not there yet. */
function wastedBefore() {
  const series = model.history?.series[0];
  const place = series?.times.findLastIndex((time) => time <= model.time - WASTE_BEFORE_SECONDS) ?? -1;
  if (place < 0) return null;
  return Object.entries(series.by_class)
    .reduce((sum, [name, values]) => sum + (model.classes.get(name)?.wasted ? values[place] : 0), 0);
}

function renderLimits() {
  const found = limits(model);
  limit.hidden = !found.length;
  const rest = JSON.stringify(found);
  if (limit.dataset.key === rest) return;
  limit.dataset.key = rest;
  const words = ({ text, command }) => [text, ...(command ? [" ", h("code", {}, command)] : [])];
  limit.firstChild.replaceChildren(...found.slice(0, 1).flatMap(words),
    found.length > 1 ? ` (${found.length - 1} more)` : "");
  limit.lastChild.replaceChildren(...found.slice(1).map((each) => h("li", {}, ...words(each))));
}

function renderChips() {
  const chosen = FACETS.filter((name) => view[name]);
  const key = JSON.stringify(chosen.map((name) => [name, view[name]]));
  if (chips.dataset.key === key) return;
  chips.dataset.key = key;
  chips.replaceChildren(...chosen.map((name) => h("button", {
    type: "button", class: "chip", "aria-label": `${name} ${facetWords(name)}: remove`,
    onclick: () => change({ [name]: "" }),
  }, `${name}: ${facetWords(name)} ×`)));
}

function facetWords(name) {
  if (name === "class") return className(view.class);
  if (name === "finding") return model.findingOf(view.finding)?.summary ?? view.finding;
  if (name !== "client") return view[name];
  const [clientId, kind] = view.client.split("/");
  return clientName({ client_id: clientId || null, client_kind: kind });
}

function togglePause() {
  live.pause(!live.paused);
  model.paused = live.paused;
  setAttributes(pause, { "aria-pressed": String(live.paused) });
  setText(pause, live.paused ? "go on" : "pause");
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    setText(copied, "copied");
  } catch {
    // Browsers allow it only over TLS and for this very machine.
    setText(copied, "copy it from the address bar");
  }
}

async function ask(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

async function renewHistory() {
  if (document.hidden || live.paused) return;
  try {
    model.history = await ask("api/v1/history");
    draw();
  } catch {
    // The stream says that the agent does not answer.
  }
}

function move(step) {
  const lines = [...document.querySelectorAll("[data-line]")];
  if (!lines.length) return;
  const place = lines.indexOf(document.activeElement);
  const next = place < 0 ? (step > 0 ? 0 : lines.length - 1) : place + step;
  lines[Math.max(0, Math.min(lines.length - 1, next))].focus();
}

const ACTS = {
  j: () => move(1),
  k: () => move(-1),
  "/": () => filter.focus(),
  g: () => {
    const names = Object.keys(GROUPS);
    change({ group: names[(names.indexOf(view.group) + 1) % names.length], open: "" });
  },
  b: () => change({ group: "broker", open: "" }),
  p: togglePause,
  "?": () => help.showModal(),
  Escape: () => change({ q: "", class: "", process: "", client: "", broker: "", finding: "", from: "", to: "" }),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (event.target === filter) {
    if (event.key === "Escape" || event.key === "Enter") {
      filter.blur();
      move(1);
      event.preventDefault();
    }
    return;
  }
  const act = ACTS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
addEventListener("hashchange", () => {
  view = readAddress();
  draw();
});
addEventListener("resize", draw);

async function begin() {
  try {
    const { classes } = await ask("api/v1/classes");
    classes.forEach((each, rank) => model.classes.set(each.class, { ...each, rank }));
  } catch {
    setTimeout(begin, 2000);
    return;
  }
  await renewHistory();
  draw();
}
begin();
setInterval(renewHistory, 1000 * HISTORY_SECONDS);
setInterval(draw, 1000);
