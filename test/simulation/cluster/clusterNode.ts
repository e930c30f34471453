/** State of one node of a simulated ClickHouse cluster. */

/** Time after which Keeper ends the session of a node that does not answer. */
const SESSION_MS = 6_000;

export class ClusterNode {
  readonly url: string;
  readonly shard: string;
  readonly replica: string;
  /** `lost`: the disk is gone, and the node waits for its replacement. */
  state: 'running' | 'killed' | 'lost' = 'running';
  /** Number of replacements. */
  disks = 0;
  /** Time until which the node has no session of Keeper. */
  readOnlyUntilMs = 0;
  /** Time until which the node fetches no parts and applies no mutations. */
  lagsUntilMs = 0;
  #pausedAtMs = 0;
  #pausedUntilMs = 0;
  /** Work that waits until the node is no longer paused. */
  readonly #suspended: (() => void)[] = [];
  /** Functions that end the open requests of the node with an error. */
  readonly requests = new Set<() => void>();

  constructor(shard: string, replica: string) {
    this.shard = shard;
    this.replica = replica;
    this.url = `http://shard${shard}-${replica}`;
  }

  pause(nowMs: number, forMs: number): void {
    if (!this.answers(nowMs)) return;
    this.#pausedAtMs = nowMs;
    this.#pausedUntilMs = nowMs + forMs;
  }

  /** Continues a paused node with the work that waits. */
  resume(): void {
    this.#pausedUntilMs = 0;
    for (const run of this.#suspended.splice(0)) run();
  }

  /** Runs the work when the node is not paused. */
  whenRunning(nowMs: number, run: () => void): void {
    if (nowMs < this.#pausedUntilMs) this.#suspended.push(run);
    else run();
  }

  /** Ends the requests like a process that was killed. */
  kill(): void {
    this.resume();
    for (const end of this.requests) end();
    this.requests.clear();
  }

  answers(nowMs: number): boolean {
    return this.state === 'running' && nowMs >= this.#pausedUntilMs;
  }

  /** True if the node can use Keeper. */
  isWritable(nowMs: number): boolean {
    return this.answers(nowMs) && nowMs >= this.readOnlyUntilMs;
  }

  /** True if Keeper has a session of the node. */
  isActive(nowMs: number): boolean {
    if (this.state !== 'running' || nowMs < this.readOnlyUntilMs) return false;
    return this.answers(nowMs) || nowMs < this.#pausedAtMs + SESSION_MS;
  }
}
