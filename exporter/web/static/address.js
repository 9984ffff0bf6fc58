// What is looked at, as the fragment of the address: it can be shared, and goes to no server.
const DEFAULTS = {
  range: "", group: "process", sort: "-waste", q: "", class: "", process: "", client: "",
  broker: "", finding: "", open: "", story: "", from: "", to: "",
};
/** Those that choose connections; the rest is how they are shown. */
export const FACETS = ["class", "process", "client", "broker", "finding"];

export function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const view = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) if (given.has(name)) view[name] = given.get(name);
  return view;
}

export function writeAddress(view) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(DEFAULTS)) {
    if (view[name] !== value) given.set(name, view[name]);
  }
  const text = given.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}
