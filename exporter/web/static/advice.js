// What to change, by cause, and what the agent cannot see here.
import { h, keyed, setText, setAttributes } from "./dom.js";
import { count } from "./words.js";

const MOST_CASES = 3;

/** What makes the link to a runbook; where its address is no web page's, it is said where it lies. */
export const runbooks = (template) => (name) => {
  const address = template.replace("{alert}", encodeURIComponent(name));
  return /^https?:\/\//.test(address)
    ? h("a", { href: address, target: "_blank", rel: "noreferrer" }, `runbook ${name}`)
    : h("code", {}, address || name);
};

export class Recommendations {
  constructor(model, change, runbook) {
    this.model = model;
    this.change = change;
    this.runbook = runbook;
    this.title = h("h2", { id: "findings-title" });
    this.list = h("ul", { class: "findings" });
    this.calm = h("p", { class: "quiet" }, "None: every known connection has its purpose.");
    this.element = h("section", { id: "findings", "aria-labelledby": "findings-title" },
      this.title, this.list, this.calm);
  }

  render(view) {
    const findings = this.model.findings;
    setText(this.title, `Recommendations (${findings.length})`);
    this.calm.hidden = findings.length > 0;
    keyed(this.list, findings, (each) => `${each.key} ${each.summary}`, (each) => this.make(each),
      (item, each) => this.update(item, each, view));
  }

  make(finding) {
    const item = h("li", {}, h("h3", {},
      h("span", { class: `badge ${finding.severity}` }, finding.severity), h("span", { class: "summary" }),
      h("span", { class: "saves" })),
    h("ul", { class: "cases" }),
    h("p", {}, h("b", {}, "Recommendation: "), h("span", { class: "remedy" })),
    h("p", { class: "acts" },
      h("button", { type: "button", class: "show" }, "show"),
      this.runbook(finding.name)));
    item.querySelector(".show").addEventListener("click", () => {
      const chosen = item.querySelector(".show").getAttribute("aria-pressed") === "true";
      this.change({ finding: chosen ? "" : item.dataset.key });
    });
    return item;
  }

  update(item, finding, view) {
    item.dataset.key = finding.key;
    const chosen = view.finding === finding.key;
    setAttributes(item, { class: `finding ${finding.severity}${chosen ? " on" : ""}` });
    setText(item.querySelector(".summary"), finding.summary);
    setText(item.querySelector(".remedy"), finding.remedy);
    const saves = this.model.saves(finding);
    setText(item.querySelector(".saves"), saves ? `saves ${count(saves, "connection")}` : "");
    setAttributes(item.querySelector(".show"), { "aria-pressed": String(chosen),
      "aria-label": `show the connections of: ${finding.summary}` });
    const cases = finding.cases.slice(0, MOST_CASES).map((each) => each.description);
    if (finding.cases.length > MOST_CASES) cases.push(`and ${finding.cases.length - MOST_CASES} more`);
    keyed(item.querySelector(".cases"), cases.map((text, place) => ({ text, place })),
      (each) => each.place, () => h("li", {}), (line, each) => setText(line, each.text));
  }
}

/** What the agent cannot see here, and the command that lets it: the most important first. */
export function limits(model) {
  const { agent, sources } = model.document;
  const rows = [...model.rows.values()];
  const found = [];
  const add = (text, command = "") => found.push({ text, command });
  if (agent.error) add(`The socket table cannot be read: ${agent.error}`);
  if (agent.read_method === "psutil") {
    add("No byte counts: the socket table is read through psutil. Allow netlink sockets (NETLINK_SOCK_DIAG):", "modprobe tcp_diag");
  }
  const ownerless = rows.filter((row) => row.owner_rung !== "proc_fd");
  if (ownerless.length) {
    const uid = ownerless.find((row) => Number.isInteger(row.uid))?.uid;
    add(`${count(ownerless.length, "connection")} without a known process. In Kubernetes label the pod`
      + ' brokerwire/process-access: "true" (chart: sidecar.processAccess); elsewhere take the application\'s uid:',
    `sudo -u '${uid === undefined ? "USER" : `#${uid}`}' brokerwire run`);
  }
  for (const each of sources.filter((one) => !one.up)) {
    add(`Source ${each.name} is down: ${each.error ?? "not read yet"}`);
  }
  const unknown = rows.filter((row) => row.class === "unknown");
  if (unknown.length) {
    add(`${count(unknown.length, "connection")} of unknown use: configure the clients' metrics`
      + " (docs/client-metrics.md: jmx_exporter, Jolokia or statistics.interval.ms). What is known of them:",
    `brokerwire explain unknown --agent ${location.origin}`);
  }
  if (!agent.events_available) {
    add("Connections shorter than a poll are missed: the kernel does not report closed sockets here.");
  }
  return found;
}
