// What is known of the connections, and what follows from it. No element of the page is touched.
const RATE_SECONDS = 10;

export class Model {
  constructor() {
    this.rows = new Map();
    this.document = null;
    this.classes = new Map();
    this.history = null;
    this.time = 0;
    this.toldAt = 0;
    this.paused = false;
    this.findings = [];
  }

  take(kind, document) {
    const time = Date.parse(document.time) / 1000;
    if (kind === "all") {
      const before = this.rows;
      this.rows = new Map();
      this.document = document;
      for (const each of document.connections) this.put(each, time, before.get(each.cookie));
    } else {
      const { connections, gone, ...rest } = document;
      Object.assign(this.document, rest);
      for (const each of connections) this.put(each, time, this.rows.get(each.cookie));
      for (const cookie of gone) this.rows.delete(cookie);
    }
    this.time = time;
    this.toldAt = performance.now();
    this.findings = grouped(this.document.findings);
    this.extend(time);
  }

  put(fields, time, before) {
    const row = { ...before, ...fields, at: time };
    for (const [name, kept] of [["outgoing_bytes", "out"], ["incoming_bytes", "in"]]) {
      const known = before?.[kept] ?? { rate: 0, at: time };
      const moved = before && row[name] !== null ? row[name] - (before[name] ?? row[name]) : 0;
      row[kept] = { rate: decayed(known, time) + Math.max(0, moved) / RATE_SECONDS, at: time };
    }
    row.text = [
      row.process, row.pid, row.client_id, row.client_kind, row.library, row.class, row.role,
      row.broker, row.local, row.tcp_state,
    ].join(" ").toLowerCase();
    this.rows.set(row.cookie, row);
  }

  /** The agent's time, which goes on between two events. */
  now() {
    return this.paused ? this.time : this.time + (performance.now() - this.toldAt) / 1000;
  }

  isWaste(row) {
    return this.classes.get(row.class)?.wasted ?? false;
  }

  /** The place of a class, the worst first. */
  rank(name) {
    return this.classes.get(name)?.rank ?? this.classes.size;
  }

  /** Add the last figures to the history: it is asked for once in a while only. */
  extend(time) {
    const { by_class: byClass, expected } = this.document.summary;
    for (const each of this.history?.series ?? []) {
      const last = each.times.length - 1;
      const isNew = last < 0 || time - each.times[last] >= each.step_seconds;
      const place = isNew ? last + 1 : last;
      if (isNew) {
        each.times.push(Math.floor(time));
        for (const name of ["opened", "closed"]) each[name].push(0);
      }
      for (const [name, values] of Object.entries(each.by_class)) values[place] = byClass[name];
      each.expected[place] = expected;
    }
  }

  findingOf(name) {
    return this.findings.find((each) => each.key === name);
  }

  /** The connections that a view is about. */
  chosen(view) {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const finding = view.finding ? this.findingOf(view.finding) : null;
    const found = [];
    for (const row of this.rows.values()) {
      if (view.class && (view.class === "wasted" ? !this.isWaste(row) : row.class !== view.class)) continue;
      if (view.process && row.process !== view.process) continue;
      if (view.client && clientKey(row) !== view.client) continue;
      if (view.broker && row.broker !== view.broker) continue;
      if (view.finding && !(finding && concerns(finding, row))) continue;
      if (words.length && !words.every((word) => row.text.includes(word))) continue;
      found.push(row);
    }
    return found;
  }

  rateOf(row, name) {
    return row[name === "out" ? "outgoing_bytes" : "incoming_bytes"] === null
      ? null
      : decayed(row[name], this.time);
  }

  /** Groups of connections, each with its figures. */
  groups(rows, view) {
    const by = GROUPS[view.group] ?? GROUPS.process;
    const groups = new Map();
    for (const row of rows) {
      const key = by.key(row);
      const group = groups.get(key) ?? { key, rows: [], waste: 0, classes: new Map(), out: null, in: null };
      groups.set(key, group);
      group.rows.push(row);
      if (this.isWaste(row)) group.waste += 1;
      group.classes.set(row.class, (group.classes.get(row.class) ?? 0) + 1);
      for (const name of ["out", "in"]) {
        const rate = this.rateOf(row, name);
        if (rate !== null) group[name] = (group[name] ?? 0) + rate;
      }
    }
    // With a class or a word chosen the rest is not counted, and there is nothing to compare with.
    const isWhole = !view.class && !view.q && !view.finding;
    const expected = isWhole ? this.expectedBy(by, view) : new Map();
    for (const group of groups.values()) {
      group.first = group.rows[0];
      group.name = by.name(group.first);
      group.open = group.rows.length;
      group.expected = expected.get(group.key) ?? null;
    }
    return [...groups.values()];
  }

  expectedBy(by, view) {
    const sums = new Map();
    for (const each of this.document.expected) {
      if (each.expected === null) continue;
      if (view.process && each.process !== view.process) continue;
      if (view.client && clientKey(each) !== view.client) continue;
      if (view.broker && each.broker !== view.broker) continue;
      const key = by.key(each);
      sums.set(key, (sums.get(key) ?? 0) + each.expected);
    }
    return sums;
  }

  /** The worst class of some connections: what is wasted first, in the classes' own order. */
  worst(classes) {
    for (const name of this.classes.keys()) if (classes.has(name)) return name;
    return "unknown";
  }

  saves(finding) {
    let wasted = 0;
    for (const cookie of finding.cookies) {
      const row = this.rows.get(cookie);
      if (row && (this.isWaste(row) || row.unused_seconds !== null)) wasted += 1;
    }
    return wasted;
  }
}

const decayed = (known, time) => known.rate * Math.exp((known.at - time) / RATE_SECONDS);

export const clientKey = (each) => `${each.client_id ?? ""}/${each.client_kind}/${each.process}`;

export const brokerName = (each) =>
  each.broker_id === null || each.broker_id === undefined ? each.broker : `broker ${each.broker_id}`;

export const clientName = (each) =>
  each.client_id ?? (each.client_kind === "unknown" ? "no client id" : each.client_kind);

export const GROUPS = {
  process: { label: "process", key: (each) => each.process, name: (each) => each.process },
  client: { label: "client", key: clientKey, name: clientName },
  broker: { label: "broker", key: (each) => each.broker, name: brokerName },
};

/** One entry for each cause: what is equal in several findings is said once. */
function grouped(findings) {
  const groups = new Map();
  const names = new Map();
  for (const each of findings) {
    const kind = JSON.stringify([each.name, each.summary, each.remedy]);
    if (!groups.has(kind)) {
      const number = (names.get(each.name) ?? 0) + 1;
      names.set(each.name, number);
      const key = number === 1 ? each.name : `${each.name}.${number}`;
      groups.set(kind, { ...each, key, cases: [], cookies: new Set() });
    }
    const group = groups.get(kind);
    group.cases.push(each);
    for (const cookie of each.cookies) group.cookies.add(cookie);
  }
  return [...groups.values()];
}

/** Whether a finding is about a connection: it names it, or its client, or only its broker. */
export function concerns(finding, row, { alsoByBroker = true } = {}) {
  return finding.cases.some(({ cookies, labels }) => {
    if (cookies.length) return cookies.includes(row.cookie);
    const named = ["process", "client_id", "client_kind", "broker"].filter((name) => name in labels);
    return (alsoByBroker ? named : named.filter((name) => name !== "broker")).length > 0
      && named.every((name) => labels[name] === row[name]);
  });
}
