// What to change, by cause, and what the agent cannot see here.
import { h, keyed, setText, setAttributes } from "./dom.js";
import { count } from "./words.js";

const MOST_CASES = 3;

export class Recommendations {
  constructor(model, change) {
    this.model = model;
    this.change = change;
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
      h("code", {}, finding.name)));
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

/** What the agent is not able to see here, and what would let it: the most important first. */
export function limits(model) {
  const { agent, sources } = model.document;
  const rows = [...model.rows.values()];
  const found = [];
  if (agent.error) found.push(`The socket table cannot be read: ${agent.error}`);
  if (agent.read_method === "psutil") {
    found.push("No byte counts: the socket table is read through psutil. Allow the agent the netlink socket NETLINK_SOCK_DIAG.");
  }
  const ownerless = rows.filter((row) => row.owner_rung !== "proc_fd").length;
  if (ownerless) {
    found.push(`${count(ownerless, "connection")} without a known process: run the agent under the application's uid`
      + " in a shared process namespace (shareProcessNamespace: true; chart: sidecar.processAccess).");
  }
  for (const each of sources.filter((one) => !one.up)) {
    found.push(`Source ${each.name} is down: ${each.error ?? "not read yet"}`);
  }
  const unknown = rows.filter((row) => row.class === "unknown").length;
  if (unknown) {
    found.push(`${count(unknown, "connection")} of unknown use: configure the clients' metrics`
      + " (sources: jmx_exporter, Jolokia or statistics.interval.ms).");
  }
  if (!agent.events_available) {
    found.push("Connections shorter than a poll are missed: the kernel announces no closed sockets here.");
  }
  return found;
}
