// The story of one connection: how it began, what is known of it, what will end it, what to change.
import { h, setText } from "./dom.js";
import { brokerName, clientName, concerns } from "./model.js";
import { NOTHING, className, clock, duration, size } from "./words.js";

export class Story {
  constructor(model, change, runbook) {
    this.model = model;
    this.change = change;
    this.runbook = runbook;
    this.badge = h("span", { class: "badge" });
    this.title = h("span", {});
    this.meaning = h("p", {});
    this.events = h("ol", { class: "events" });
    this.evidence = h("ul", {});
    this.changes = h("ul", {});
    this.facts = h("dl", {});
    this.element = h("dialog", { id: "story", "aria-labelledby": "story-title" },
      h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => this.change({ story: "" }) }, "×"),
      h("h2", { id: "story-title" }, this.badge, " ", this.title), this.meaning,
      h("h3", {}, "What happened"), this.events,
      h("h3", {}, "Evidence"), this.evidence,
      h("h3", {}, "What to change"), this.changes,
      h("h3", {}, "Details"), this.facts);
    this.element.addEventListener("close", () => this.change({ story: "" }));
    this.asked = { cookie: "", class: "", events: [] };
  }

  render(view) {
    const row = this.model.rows.get(view.story);
    if (!view.story) {
      if (this.element.open) this.element.close();
      return;
    }
    if (row) {
      this.ask(row);
      this.fill(row);
    }
    else if (!this.element.open) this.fillGone();
    else setText(this.meaning, "Closed: this is what was last known of it.");
    if (!this.element.open) this.element.showModal();
  }

  fillGone() {
    setText(this.title, "This connection is closed");
    setText(this.badge, "");
    setText(this.meaning, "The agent does not know it any more.");
    for (const part of [this.events, this.evidence, this.changes, this.facts]) part.replaceChildren();
  }

  fill(row) {
    const about = this.model.classes.get(row.class);
    this.badge.className = `badge ${row.class}`;
    setText(this.badge, className(row.class));
    setText(this.title, `${row.process || "unknown process"} (${clientName(row)}) to ${brokerName(row)}`);
    setText(this.meaning, about ? `${about.meaning}.` : "");
    lines(this.events, this.happened(row));
    lines(this.evidence, [...row.evidence, ...(row.equals.length ? [`not distinguishable from ${row.equals.join(", ")}`] : []),
      `confidence: ${row.confidence}`]);
    const findings = this.model.findings.filter((each) => concerns(each, row, { alsoByBroker: false }));
    const remedies = findings.map((each) => [`${each.summary}: ${each.remedy} `, this.runbook(each.name)]);
    if (!remedies.length) remedies.push([about?.recommendation ?? "Nothing."]);
    lines(this.changes, remedies);
    this.describe(row);
  }

  /** Ask what has happened to a connection, once for each class that it has had meanwhile. */
  async ask(row) {
    if (this.asked.cookie === row.cookie && this.asked.class === row.class) return;
    const events = this.asked.cookie === row.cookie ? this.asked.events : [];
    this.asked = { cookie: row.cookie, class: row.class, events };
    try {
      const response = await fetch("api/v1/events");
      const found = response.ok ? (await response.json()).events : [];
      if (this.asked.cookie !== row.cookie) return;
      this.asked.events = found.filter((each) => each.cookie === row.cookie && each.event === "class");
      this.change({});
    } catch {
      // The rest of the story does not need it.
    }
  }

  happened(row) {
    const opened = row.at - row.age_seconds;
    const now = this.model.now();
    const told = [];
    told.push(row.age_is_exact ? `${when(opened, now)} opened` : `before ${when(opened, now)} opened: the agent started later`);
    for (const each of this.asked.events) {
      told.push(`${when(Date.parse(each.time) / 1000, now)} ${className(each.class_before)} → ${className(each.class)}`
        + (each.detail ? `: ${each.detail}` : ""));
    }
    if (row.unused_seconds !== null) told.push("nothing was sent or received after the first seconds");
    else if (row.idle_seconds !== null) {
      const last = row.at - row.idle_seconds;
      told.push(`${when(last, now)} last byte: idle for ${duration(now - last)}`);
    }
    if (row.unanswered_seconds !== null) {
      told.push(`${when(row.at - row.unanswered_seconds, now)} request sent, not answered since`);
    }
    if (row.idle_limit_seconds !== null) {
      told.push(row.idle_limit_seconds ? `idle timeout of the client: ${duration(row.idle_limit_seconds)}` : "idle timeout of the client: disabled");
    }
    const closes = row.closes_in_seconds === null ? "" : `, at ${clock(row.at + row.closes_in_seconds)} if it stays idle`;
    told.push(`closes: ${row.close_expected}${closes}`);
    return told;
  }

  describe(row) {
    const facts = [
      ["local", row.local], ["remote", row.remote], ["TCP state", className(row.tcp_state)],
      ["process", `${row.process}${row.pid === null ? "" : ` (pid ${row.pid})`}, by ${row.owner_rung}`],
      ["client", [row.client_kind, row.client_id, row.client_instance].filter((each) => each && each !== "unknown").join(" ")],
      ["library", row.library], ["role", row.role], ["node id", row.node_id], ["expected by", row.expected_rule],
      ["sent", size(row.outgoing_bytes)], ["received", size(row.incoming_bytes)],
      ["queued", `${row.send_queue} B to send, ${row.receive_queue} B to read`],
      ["round trip", duration(row.rtt_seconds)], ["retransmits", row.retransmits_total], ["source", row.source],
    ].filter(([, value]) => value !== null && value !== "" && value !== NOTHING && value !== "unknown");
    this.facts.replaceChildren(...facts.map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
  }
}

function when(time, now) {
  const days = Math.floor((now - time) / 86400);
  return days > 0 ? `${days} d ago` : clock(time);
}

function lines(list, texts) {
  const key = JSON.stringify(texts, (_, value) => (value instanceof Element ? value.textContent : value));
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(...texts.map((text) => h("li", {}, ...[text].flat())));
}
