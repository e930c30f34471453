/** Sends the entries of the queue (sessions, events, and reports) in order, one request after another. */
import type { ClientProblem, GameOptions } from './gameOptions.ts';
import { Outage } from './outage.ts';
import { PAGE } from './page.ts';
import { fieldOf, KEEPALIVE_BYTES, post, type Reply, uuid } from './post.ts';
import type { Lost, Queue, Unit } from './queue.ts';
import { verdictOf } from './verdict.ts';

/** Questlog keeps an idempotency key for 24 h. Retries end a minute earlier, because a request takes time. */
const KEY_LIFETIME_MS = (24 * 60 - 1) * 60_000;
const MAX_BACK_OFF_MS = 60_000;
/** Delay before the retry of a report that a proxy rejected. The client sends other entries first. */
const BLOCKED_RETRY_MS = 60_000;
const AFTER_BLOCKED_MS = 1_000;
const OFFLINE = { code: 'offline', message: 'the browser is offline' };

type SendRequest = (path: string, text: string, headers?: Record<string, string>) => Promise<Reply>;

interface Game {
  readonly options: GameOptions;
  lostText(lost: Lost): string;
  report(problem: ClientProblem): void;
}

export class Delivery {
  readonly counts = { sent: 0, refused: 0, dropped: 0, uncertain: 0 };
  readonly reports = new Map<number, { resolve(id: string): void; reject(error: Error): void }>();
  isStopped = false;
  hasConsent = false;
  session = { id: '', text: '' };
  readonly #game: Game;
  readonly #queue: Queue;
  readonly #stopped = new AbortController();
  readonly #outage: Outage;
  readonly #intervalMs: number;
  #mayGzip = typeof CompressionStream === 'function';
  #maxEvents: number;
  #failures = 0;
  /** Earliest time of the next request as a value of `performance.now()`, because the system clock can change. */
  #notBeforeMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running: Promise<boolean> | undefined;
  /** The client sends entries up to this id immediately. Entries with a higher id wait for a full batch. */
  #upTo = 0;
  #registeredFor: string | undefined;

  constructor(game: Game, queue: Queue) {
    const { url, flushIntervalMs = 5_000, maxBatchEvents = 200 } = game.options;
    this.#game = game;
    this.#queue = queue;
    this.#outage = new Outage(url, (problem) => game.report(problem));
    this.#intervalMs = flushIntervalMs;
    this.#maxEvents = maxBatchEvents;
  }

  get signal(): AbortSignal {
    return this.#stopped.signal;
  }

  get isFailing(): boolean {
    return this.#failures > 0;
  }

  flush(): Promise<boolean> {
    return this.#run(this.#queue.lastId);
  }

  eventAdded(): void {
    if (this.#isFull() && !this.isFailing) void this.#run(0);
    else this.flushAfter(this.#intervalMs);
  }

  countLost(kind: 'dropped' | 'uncertain', events: number): void {
    this.counts[kind] += events;
    this.#queue.countLost(kind, events, (lost) => this.#game.lostText(lost));
    this.#game.report({ kind, events });
  }

  #isFull(): boolean {
    return this.#queue.length >= this.#maxEvents || this.#queue.bytes >= KEEPALIVE_BYTES;
  }

  flushAfter(ms: number): void {
    if (!this.isStopped) this.#timer ??= setTimeout(() => void this.flush(), ms);
  }

  #run(upTo: number): Promise<boolean> {
    this.#upTo = Math.max(this.#upTo, upTo);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // Calls `#drain` in a microtask, so that `#running` is set before `#drain` can reset it.
    this.#running ??= Promise.resolve().then(() => this.#drain());
    return this.#running;
  }

  canSend(): boolean {
    return this.hasConsent && !this.isStopped && PAGE.navigator?.onLine !== false;
  }

  #isOffline(): boolean {
    return this.hasConsent && !this.isStopped && PAGE.navigator?.onLine === false;
  }

  async #drain(): Promise<boolean> {
    for (let isDone = false; ; ) {
      const { head, nextIndex } = this.#queue;
      isDone = head === undefined || (head.id > this.#upTo && !this.#isFull());
      const waitMs = this.#notBeforeMs - performance.now();
      if (!isDone && waitMs > 0) this.flushAfter(waitMs);
      if (!isDone && waitMs <= 0 && this.canSend() && (await this.#send(nextIndex))) continue;
      if (!isDone && this.#isOffline()) this.#outage.failed(OFFLINE, this.#queue.length);
      this.#running = undefined;
      if (this.#queue.length > 0 && this.canSend()) this.flushAfter(this.#intervalMs);
      return isDone;
    }
  }

  sendBeforeClose(): void {
    let availableBytes = KEEPALIVE_BYTES;
    for (let at = 0; this.canSend() && performance.now() >= this.#notBeforeMs; ) {
      const unit = this.#queue.unitAt(at, { events: this.#maxEvents, bytes: availableBytes });
      for (const { bytes } of unit ?? []) availableBytes -= bytes + 2;
      if (unit === undefined || availableBytes < 0) return;
      const [head] = unit;
      void this.#send(at, unit);
      // Stops here, because further entries must wait until Questlog has registered the session.
      if (head.kind === 'session') return;
      at += unit.length;
    }
  }

  /**
   * Sends one request. If a request for the same entries is running, returns the result of that request instead.
   * @param closingUnit - entries that the client must send immediately because the page closes.
   * @returns true if the next request can start.
   */
  #send(at: number, closingUnit?: Unit): Promise<boolean> {
    const unit = closingUnit ?? this.#queue.unitAt(at, { events: this.#maxEvents, bytes: KEEPALIVE_BYTES });
    if (unit === undefined) return Promise.resolve(false);
    const [head] = unit;
    head.inFlight ??= this.#attempt(unit, closingUnit !== undefined).finally(() => {
      head.inFlight = undefined;
    });
    return head.inFlight;
  }

  async #attempt(unit: Unit, isClosing: boolean): Promise<boolean> {
    const [head] = unit;
    if (this.#isKeyExpired(unit)) return true;
    const sendRequest: SendRequest = (path, text, headers = {}) => {
      const isWanted = (): boolean => this.#queue.has(head) && !this.isStopped;
      const { signal } = this.#stopped;
      return post(this.#game.options, path, {
        text,
        headers,
        mayGzip: this.#mayGzip && !isClosing,
        isWanted,
        signal,
      });
    };
    const reply = await (head.kind === 'event'
      ? this.#sendEvents(sendRequest, unit, isClosing)
      : sendRequest(`${head.kind}s`, head.text));
    if (!this.#queue.has(head)) return true;
    if (this.isStopped) return false;
    const isDone = this.#settle(unit, reply);
    await this.#queue.persist();
    return isDone;
  }

  /** Handles an expired idempotency key: drops a batch that Questlog may have stored. Any other batch gets a new key. */
  #isKeyExpired(unit: Unit): boolean {
    const { batch } = unit[0];
    if (batch === undefined) return false;
    const madeMs = Number.parseInt(batch.key.replace('-', '').slice(0, 12), 16);
    if (Math.abs(Date.now() - madeMs) < KEY_LIFETIME_MS) return false;
    if (!batch.mayBeStored) this.#queue.removeKey(unit);
    else {
      this.#queue.remove(unit);
      this.countLost('uncertain', unit.length);
    }
    void this.#queue.persist();
    return true;
  }

  async #sendEvents(sendRequest: SendRequest, unit: Unit, isClosing: boolean): Promise<Reply> {
    const [head] = unit;
    const { key } = head.batch ?? this.#queue.assignKey(unit, uuid(Date.now()));
    const persisted = this.#queue.persist();
    if (!isClosing) await persisted;
    const text = `[${unit.map((item) => item.text).join()}]`;
    const headers = { 'Idempotency-Key': key, Prefer: 'handling=lenient' };
    const reply = await sendRequest('events', text, headers);
    const [first]: unknown[] = Array.isArray(reply.body) ? reply.body : [];
    const isUnknown = fieldOf(first, 'code') === 'unknown_session' && head.text.includes(this.session.id);
    if (!isUnknown || this.#registeredFor === key) return reply;
    // Registers the session again if Questlog does not know the session id of the batch, at most one time per batch.
    this.#registeredFor = key;
    await sendRequest('sessions', this.session.text);
    return await sendRequest('events', text, headers);
  }

  #settle(unit: Unit, reply: Reply): boolean {
    const [head] = unit;
    const verdict = verdictOf(unit, reply, this.#mayGzip);
    if (verdict.kind === 'unreachable') {
      this.#outage.failed(verdict, this.#queue.length);
      if (head.batch !== undefined) head.batch.mayBeStored ||= verdict.mayBeStored;
      return verdict.isBlocked ? this.#blocked(unit, reply) : this.#backOff(reply.retryAfterMs);
    }
    this.#outage.ended(this.#queue.length);
    switch (verdict.kind) {
      case 'tooFast':
        if (head.batch !== undefined) head.batch.mayBeStored = true;
        return this.#backOff(reply.retryAfterMs);
      case 'stopped':
        this.#game.report(verdict);
        this.stop();
        return false;
      case 'encoding':
        this.#mayGzip = false;
        break;
      case 'accepted':
        this.#accepted(unit, reply.body);
        break;
      default:
        this.#requestRejected(unit, verdict);
    }
    this.#failures = 0;
    return true;
  }

  /** Splits a batch that is too large for a proxy. Retries a report later if a proxy rejects the report. */
  #blocked(unit: Unit, { status, retryAfterMs }: Reply): boolean {
    const [head] = unit;
    if (status === 413 && unit.length > 1 && !head.batch?.mayBeStored) {
      this.#halve(unit);
      return true;
    }
    if (head.kind !== 'report' && (status !== 413 || unit.length > 1)) return this.#backOff(retryAfterMs);
    head.notBeforeMs = performance.now() + BLOCKED_RETRY_MS;
    this.flushAfter(AFTER_BLOCKED_MS);
    return false;
  }

  #accepted(unit: Unit, body: unknown): void {
    const [head] = unit;
    if (head.kind === 'report') this.reports.get(head.id)?.resolve(fieldOf(body, 'id') ?? '');
    for (const [index, item] of unit.entries()) {
      const answer: unknown = Array.isArray(body) ? body[index] : body;
      const code = fieldOf(answer, 'code');
      if (head.kind !== 'event') continue;
      if (code === undefined) this.counts.sent += 1;
      else this.countRejected(item.text, { code, message: fieldOf(answer, 'message') ?? '' });
    }
    this.#queue.remove(unit);
  }

  /** Splits a batch that Questlog rejected as a whole, so that Questlog can store the valid events of the batch. */
  #requestRejected(unit: Unit, problem: { code: string; message: string }): void {
    const [head] = unit;
    if (head.batch?.mayBeStored) {
      this.#queue.remove(unit);
      this.countLost('uncertain', unit.length);
    } else if (unit.length > 1) {
      this.#halve(unit);
    } else {
      this.#queue.remove(unit);
      this.reports.get(head.id)?.reject(new Error(`${problem.code}: ${problem.message}`));
      this.countRejected(head.text, problem);
    }
  }

  #halve(unit: Unit): void {
    this.#maxEvents = Math.ceil(unit.length / 2);
    this.#queue.removeKey(unit);
  }

  countRejected(entry: string, { code, message }: { code: string; message: string }): void {
    this.counts.refused += 1;
    this.#game.report({ kind: 'refused', code, message, entry });
  }

  /** Waits for a random time (full jitter), so that the games of many players do not retry at the same time. */
  #backOff(retryAfterMs = 0): false {
    this.#failures += 1;
    this.#notBeforeMs = performance.now() + retryAfterMs;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.flushAfter(retryAfterMs + Math.random() * Math.min(MAX_BACK_OFF_MS, 1_000 * 2 ** this.#failures));
    return false;
  }

  stop(): void {
    this.isStopped = true;
    this.rejectReports('the game stopped or ended; with a persistent queue the next start files the report');
    clearTimeout(this.#timer);
    this.#stopped.abort();
  }

  rejectReports(why: string): void {
    for (const { reject } of this.reports.values()) reject(new Error(why));
    this.reports.clear();
  }
}
