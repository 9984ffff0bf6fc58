"use strict";
// Renews the page in place, sorts and filters. Without it the page is the same, and stands still.
// It never makes HTML from text: the browser parses the page as a document, parts are adopted.
(() => {
  const RENEW_SECONDS = 5;
  const state = { filter: "", column: -1, direction: 1 };

  const rows = () => [...document.querySelectorAll("#connections-table tbody tr")];

  function applyFilter() {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows()) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  }

  function keyOf(row) {
    const cell = row.cells[state.column];
    const number = cell.dataset.sort;
    return number === undefined ? cell.textContent : Number(number);
  }

  function applySort() {
    const table = document.getElementById("connections-table");
    if (state.column < 0 || !table) return;
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    const sorted = rows()
      .map((row) => [keyOf(row), row])
      .sort((a, b) => state.direction * compare(a[0], b[0]));
    table.tBodies[0].append(...sorted.map((pair) => pair[1]));
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      if (index !== state.column) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", state.direction > 0 ? "ascending" : "descending");
    });
  }

  function addSorting() {
    const table = document.getElementById("connections-table");
    if (!table) return;
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => {
        state.direction = state.column === index ? -state.direction : 1;
        state.column = index;
        applySort();
      });
      head.replaceChildren(button);
    });
  }

  function addFilter() {
    const label = document.getElementById("filter-label");
    const input = document.getElementById("filter");
    if (!input) return;
    label.hidden = false;
    input.value = state.filter;
    input.addEventListener("input", () => {
      state.filter = input.value;
      applyFilter();
    });
  }

  function prepare() {
    addSorting();
    addFilter();
    applySort();
    applyFilter();
  }

  function replace(fresh) {
    const open = new Set(
      [...document.querySelectorAll("details[open]")].map((each) => each.dataset.key),
    );
    const focused = document.activeElement && document.activeElement.id === "filter";
    const caret = focused ? document.activeElement.selectionStart : 0;
    for (const part of fresh.querySelectorAll("[data-renew], #as-of")) {
      const old = document.getElementById(part.id);
      if (old) old.replaceWith(document.adoptNode(part));
    }
    for (const each of document.querySelectorAll("details")) {
      each.open = open.has(each.dataset.key);
    }
    prepare();
    const input = document.getElementById("filter");
    if (focused && input) {
      input.focus();
      input.setSelectionRange(caret, caret);
    }
  }

  function tell(words) {
    const live = document.getElementById("live");
    if (live) live.textContent = words;
  }

  function renew() {
    if (document.hidden) return;
    const request = new XMLHttpRequest();
    request.responseType = "document";
    request.timeout = 1000 * RENEW_SECONDS;
    request.onload = () => {
      if (request.status === 200 && request.response) replace(request.response);
      else tell(`cannot be renewed: the agent answers ${request.status}`);
    };
    request.onerror = request.ontimeout = () => tell("cannot be renewed: the agent does not answer");
    request.open("GET", location.pathname);
    request.send();
  }

  prepare();
  setInterval(renew, 1000 * RENEW_SECONDS);
})();
