// Connections in groups: sorted, opened, and followed with the keyboard.
import { h, s, keyed, setText, setAttributes } from "./dom.js";
import { GROUPS, brokerName, clientKey, clientName } from "./model.js";
import { className, count, duration, figure, rate } from "./words.js";

const MOST_GROUPS = 200;
const MOST_ROWS = 100;
const COLUMNS = [
  { key: "name", title: "" },
  { key: "library", title: "Library", class: "wide" },
  { key: "open", title: "Open", number: true },
  { key: "expected", title: "Expected", number: true },
  { key: "waste", title: "Wasted", number: true },
  { key: "hour", title: "1 h", class: "wide" },
  { key: "out", title: "Out", number: true, class: "medium" },
  { key: "in", title: "In", number: true, class: "medium" },
];
const SORTED = new Set(["name", "open", "expected", "waste", "out", "in"]);

export class Table {
  constructor(model, change) {
    this.model = model;
    this.change = change;
    this.more = new Map();
    this.heads = COLUMNS.map((column) => this.head(column));
    this.body = h("tbody", {});
    this.title = h("h2", { id: "clients-title" });
    this.groupButtons = Object.keys(GROUPS).map((name) => h("button", {
      type: "button", "data-group": name, onclick: () => this.change({ group: name, open: "" }),
    }, name));
    this.rest = h("p", { class: "quiet" });
    this.element = h("section", { id: "clients", "aria-labelledby": "clients-title" },
      h("div", { class: "bar" }, this.title,
        h("div", { class: "choice", role: "group", "aria-label": "Group by" }, h("span", {}, "group:"), ...this.groupButtons)),
      h("div", { class: "scroll" }, h("table", { "aria-labelledby": "clients-title" },
        h("thead", {}, h("tr", {}, ...this.heads)), this.body)), this.rest);
  }

  head(column) {
    const attributes = { scope: "col", class: [column.number && "n", column.class].filter(Boolean).join(" ") || null };
    if (!SORTED.has(column.key)) return h("th", attributes, column.title);
    return h("th", attributes, h("button", { type: "button", onclick: () => this.sortBy(column) },
      column.title || "Name"));
  }

  sortBy(column) {
    const [key, down] = sortOf(this.view);
    const first = column.number ? "-" : "";
    const next = key !== column.key ? first : down ? "" : "-";
    this.change({ sort: next + column.key });
  }

  render(rows, view) {
    this.view = view;
    const groups = sorted(this.model.groups(rows, view), view);
    setText(this.title, `${count(rows.length, "connection")} in ${count(groups.length, "group")}`);
    const [key, down] = sortOf(view);
    COLUMNS.forEach((column, place) => setAttributes(this.heads[place], {
      "aria-sort": column.key === key ? (down ? "descending" : "ascending") : null,
    }));
    for (const button of this.groupButtons) {
      setAttributes(button, { "aria-pressed": String(button.dataset.group === view.group) });
    }
    const lines = [];
    for (const group of groups.slice(0, MOST_GROUPS)) {
      lines.push({ key: `g${group.key}`, group });
      if (view.open !== group.key) continue;
      const most = this.more.get(group.key) ?? MOST_ROWS;
      const members = group.rows.sort((a, b) => this.order(a, b)).slice(0, most);
      for (const row of members) lines.push({ key: `c${row.cookie}`, row });
      if (group.open > most) lines.push({ key: `m${group.key}`, more: group });
    }
    keyed(this.body, lines, (line) => line.key, (line) => this.make(line), (element, line) => this.update(element, line));
    setText(this.rest, groups.length > MOST_GROUPS ? `and ${groups.length - MOST_GROUPS} more groups: filter, or see the JSON` : "");
  }

  order(a, b) {
    return this.model.rank(a.class) - this.model.rank(b.class)
      || (a.broker < b.broker ? -1 : a.broker > b.broker ? 1 : 0)
      || (a.local < b.local ? -1 : 1);
  }

  make(line) {
    if (line.group) return this.makeGroup(line.group);
    if (line.row) return this.makeRow(line.row);
    const button = h("button", { type: "button", class: "line" });
    const key = line.more.key;
    button.addEventListener("click", () => {
      this.more.set(key, (this.more.get(key) ?? MOST_ROWS) + 10 * MOST_ROWS);
      this.change({});
    });
    return h("tr", { class: "member" }, h("td", { colspan: COLUMNS.length }, button));
  }

  update(element, line) {
    if (line.group) this.updateGroup(element, line.group);
    else if (line.row) this.updateRow(element, line.row);
    else {
      const rest = line.more.open - (this.more.get(line.more.key) ?? MOST_ROWS);
      setText(element.querySelector("button"), `${rest} more`);
    }
  }

  makeGroup(group) {
    const button = h("button", { type: "button", class: "line", "data-line": "" },
      h("b", {}), h("small", {}));
    const key = group.key;
    button.addEventListener("click", () => this.change({ open: this.view.open === key ? "" : key }));
    const cells = COLUMNS.map((column) => h("td", {
      class: [column.number && "n", column.class].filter(Boolean).join(" ") || null }));
    cells[0].append(button);
    return h("tr", { class: "group" }, ...cells);
  }

  updateGroup(element, group) {
    const cells = element.children;
    const button = cells[0].firstChild;
    setAttributes(button, { "aria-expanded": String(this.view.open === group.key) });
    setText(button.firstChild, group.name || "unknown process");
    setText(button.lastChild, this.about(group));
    const texts = [null, libraries(group), String(group.open), figure(group.expected), String(group.waste),
      null, rate(group.out), rate(group.in)];
    texts.forEach((text, place) => text === null || setText(cells[place], text));
    cells[4].classList.toggle("bad", group.waste > 0);
    this.spark(cells[5], group);
  }

  about(group) {
    const { first, rows } = group;
    if (this.view.group === "broker") return first.broker;
    if (this.view.group === "client") return `${first.client_kind === "unknown" ? "" : `${first.client_kind}, `}${first.process}`;
    const pids = new Set(rows.map((row) => row.pid));
    const clients = new Set(rows.map(clientKey));
    const pid = pids.size > 1 ? `${pids.size} processes` : first.pid === null ? "" : `pid ${first.pid}`;
    const client = clients.size > 1 ? count(clients.size, "client") : clientName(first);
    return [pid, client].filter(Boolean).join(", ");
  }

  /** The last hour of a client, or of all clients of a process; of a broker nothing is kept. */
  spark(cell, group) {
    const series = this.view.group === "broker" ? [] : (this.model.history?.clients ?? [])
      .filter((each) => (this.view.group === "client" ? clientKey(each) : each.process) === group.key);
    const length = Math.max(0, ...series.map((each) => each.connections.length));
    const key = `${length} ${series.map((each) => `${each.connections} ${each.wasted}`)}`;
    if (cell.dataset.key === key) return;
    cell.dataset.key = key;
    if (length < 2) {
      cell.replaceChildren();
      return;
    }
    const sums = ["connections", "wasted"].map((name) => Array.from({ length }, (_, place) =>
      series.reduce((sum, each) => sum + (each[name][place - length + each[name].length] ?? 0), 0)));
    const top = Math.max(1, ...sums[0]);
    const line = (values) => `M0,18 ${values.map((value, place) =>
      `${((60 * place) / (length - 1)).toFixed(1)},${(17 - (16 * value) / top).toFixed(1)}`).join(" ")} 60,18Z`;
    cell.replaceChildren(s("svg", { class: "spark", viewBox: "0 0 60 18", role: "img",
      "aria-label": `last ${length} minutes: from ${Math.min(...sums[0])} to ${count(top, "connection")}` },
    s("path", { d: line(sums[0]), class: "fill data" }), s("path", { d: line(sums[1]), class: "fill zombie" })));
  }

  makeRow(row) {
    const button = h("button", { type: "button", class: "line", "data-line": "", "data-cookie": row.cookie },
      h("span", { class: "to" }), h("span", { class: "badge" }), h("span", { class: "facts" }), h("span", { class: "why" }, "why?"));
    const cookie = row.cookie;
    button.addEventListener("click", () => this.change({ story: cookie }));
    return h("tr", { class: "member" }, h("td", { colspan: COLUMNS.length }, button));
  }

  updateRow(element, row) {
    const [to, badge, facts] = element.querySelector("button").children;
    const other = this.view.group === "broker" ? `${row.process} ${row.client_id ?? ""}` : `${brokerName(row)} ${
      this.view.group === "client" ? "" : row.client_id ?? ""}`;
    setText(to, other.trim());
    setAttributes(badge, { class: `badge ${row.class}` });
    setText(badge, className(row.class));
    setText(facts, factsOf(row, this.model.now()));
  }
}

export function factsOf(row, now) {
  const passed = now - row.at;
  const idle = row.idle_seconds === null ? null : row.idle_seconds + passed;
  return [
    idle === null ? "" : idle < 1 ? "active" : `idle ${duration(idle)}`,
    row.unused_seconds === null ? "" : "unused since opened",
    row.rtt_seconds === null ? "" : `rtt ${duration(row.rtt_seconds)}`,
    row.local.slice(row.local.lastIndexOf(":")),
    row.closes_in_seconds === null ? "" : `closes in ${duration(Math.max(0, row.closes_in_seconds - passed))}`,
  ].filter(Boolean).join(" · ");
}

const libraries = (group) => [...new Set(group.rows.map((row) => row.library))].sort().join(", ");

const sortOf = (view) => [view.sort.replace(/^-/, ""), view.sort.startsWith("-")];

function sorted(groups, view) {
  const [key, down] = sortOf(view);
  const direction = down ? -1 : 1;
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return groups.sort((a, b) => {
    // What is not known comes last, whichever way.
    if ((a[key] ?? null) === null || (b[key] ?? null) === null) {
      if ((a[key] ?? null) !== (b[key] ?? null)) return (a[key] ?? null) === null ? 1 : -1;
    }
    return direction * compare(a[key], b[key]) || b.open - a.open || compare(a.name, b.name) || compare(a.key, b.key);
  });
}

