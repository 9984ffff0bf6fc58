// Events from the agent while somebody looks: a hidden or paused page costs nothing.
const POLL_SECONDS = 10;
const SILENCE_SECONDS = 40;

export class Live {
  /** `tell` gets ("all" | "changes", document) and `state` one word on how it goes. */
  constructor(up, tell, state) {
    this.up = up;
    this.tell = tell;
    this.state = state;
    this.paused = false;
    this.heardAt = 0;
    document.addEventListener("visibilitychange", () => this.follow());
    setInterval(() => this.watch(), 5000);
    this.follow();
  }

  pause(paused) {
    this.paused = paused;
    this.follow();
  }

  follow() {
    const wanted = !this.paused && !document.hidden;
    if (wanted && !this.source) this.open();
    if (!wanted) this.close();
    if (this.paused) this.state("paused");
  }

  open() {
    this.heardAt = performance.now();
    this.source = new EventSource("api/v1/stream");
    for (const name of ["all", "changes"]) {
      this.source.addEventListener(name, (event) => this.heard(name, event.data));
    }
    // The browser tries again by itself, but not after an answer such as 503 or 401.
    this.source.addEventListener("error", () => {
      this.state("lost");
      if (this.source?.readyState === EventSource.CLOSED) this.ask();
    });
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  heard(name, data) {
    this.heardAt = performance.now();
    this.tell(name, JSON.parse(data));
    this.state("live");
  }

  /** Where there is no room for another stream: a whole document now and then. */
  async ask() {
    this.close();
    try {
      const response = await fetch("api/v1/connections");
      if (!response.ok) throw new Error(String(response.status));
      this.tell("all", await response.json());
      this.state("asking");
    } catch {
      this.state("lost");
    }
    setTimeout(() => this.follow(), 1000 * POLL_SECONDS);
  }

  /** A connection that went away in silence, as when the machine slept. */
  watch() {
    if (this.source && performance.now() - this.heardAt > 1000 * SILENCE_SECONDS) {
      this.close();
      this.follow();
    }
  }
}
