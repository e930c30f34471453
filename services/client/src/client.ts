/** Questlog's client for games: begins a session, and sends its events and reports once each, in order. */

import type { BugReport, ClientProblem, GameOptions, ReportFile } from './gameOptions.ts';
import { fieldOf, isAnswer, isRefusal, KEEPALIVE_BYTES, post, type Reply, upload, uuid } from './post.ts';
import { type Item, type Kept, Queue, type QueueStore, type Unit } from './queue.ts';

export type { BugReport, ClientProblem, GameOptions, ReportFile } from './gameOptions.ts';
export type { Kept, QueueChange, QueueEntry, QueueStore } from './queue.ts';

/** What of a page is used; Node has none of it. */
const PAGE: {
  readonly addEventListener?: (event: string, listener: () => void, options: { signal: AbortSignal }) => void;
  readonly document?: { readonly visibilityState: string };
  readonly navigator?: Partial<Navigator> & { readonly onLine?: boolean };
} = globalThis;

/** Questlog knows a key for 24 h; the last minute is for the way there. */
const KEY_LIVES_MS = (24 * 60 - 1) * 60_000;
const MAX_BACK_OFF_MS = 60_000;

type Ask = (path: string, text: string, headers?: Record<string, string>) => Promise<Reply>;

/** Begins a session. Resolves once the queue of an earlier run has been read; nothing waits for the network. */
export async function start(options: GameOptions): Promise<Game> {
  const { queue, onProblem } = options;
  try {
    return new Game(options, queue, (await queue?.open()) ?? []);
  } catch (error) {
    // A browser may forbid it, as in a private window.
    onProblem?.({ kind: 'queue', code: 'not_opened', message: String(error) });
    return new Game(options, undefined, []);
  }
}

export class Game {
  readonly #options: GameOptions;
  readonly #queue: Queue;
  readonly #counts = { sent: 0, refused: 0, dropped: 0, uncertain: 0 };
  readonly #waiting = new Map<number, { resolve(id: string): void; reject(error: Error): void }>();
  readonly #page = new AbortController();
  #sessionId = '';
  #session = '';
  #sequence = 0;
  #hasConsent: boolean;
  #isNoting = true;
  #hasEnded = false;
  #isStopped = false;
  #mayGzip = typeof CompressionStream === 'function';
  readonly #intervalMs: number;
  #maxEvents: number;
  #failures = 0;
  /** Of `performance.now()`, which nobody sets back. */
  #notBeforeMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running: Promise<boolean> | undefined;
  /** Entries up to this id leave without waiting for a full batch. */
  #upTo = 0;
  /** The batch for which the session was registered once more. */
  #renewedFor: string | undefined;

  /** @see start */
  constructor(options: GameOptions, store: QueueStore | undefined, left: readonly Kept[]) {
    const onFailure = (error: unknown): void =>
      this.#tell({ kind: 'queue', code: 'not_written', message: String(error) });
    this.#options = options;
    this.#queue = new Queue(store, left, { maxBytes: options.maxQueueBytes ?? 4_194_304, onFailure });
    this.#hasConsent = options.consent !== 'required';
    this.#queue.isKept = this.#hasConsent;
    this.#intervalMs = options.flushIntervalMs ?? 5_000;
    this.#maxEvents = options.maxBatchEvents ?? 200;
    this.#begin(options.player);
    this.#on('online', () => void this.flush());
    this.#on('pagehide', () => this.#leave());
    this.#on('visibilitychange', () => PAGE.document?.visibilityState === 'hidden' && this.#leave());
  }

  get sessionId(): string {
    return this.#sessionId;
  }

  /** Events by what became of them; `queued` holds sessions and reports too. */
  get counts(): { queued: number; sent: number; refused: number; dropped: number; uncertain: number } {
    return { queued: this.#queue.length, ...this.#counts };
  }

  /** Notes an event. It leaves with the next batch. */
  event(eventType: string, payload: object = {}): void {
    if (!this.#isNoting) return;
    try {
      this.#add('event', this.#eventText(eventType, payload));
    } catch (error) {
      this.#refused(eventType, { code: 'no_json', message: String(error) });
    }
    if (this.#isFull() && this.#failures === 0) void this.#run(0);
    else this.#wakeAfter(this.#intervalMs);
  }

  /**
   * Files a bug report; the events of the session around it belong to it.
   * @returns its id, once it is filed.
   * @throws where it was refused, where older reports leave it no room, where it was forgotten, and where the game has
   *   stopped or ended before it was filed: the next start files what a kept queue holds.
   */
  report({ context, attachments, window, ...report }: BugReport): Promise<string> {
    const filed = new Promise<string>((resolve, reject) => {
      if (!this.#isNoting || this.#isStopped) throw new Error('stopped, ended, or without consent');
      const whole = { clientRequestId: uuid(), sessionId: this.#sessionId, occurredAt: now() };
      const id = this.#add('report', JSON.stringify({ ...whole, report, context, attachments, window }));
      this.#waiting.set(id, { resolve, reject });
      if (this.#failures === 0) void this.flush();
    });
    // A game that does not ask is told by `onProblem`.
    filed.catch(() => {});
    return filed;
  }

  /** Sends a file at once, for a report's `attachments`. @throws where it was refused, or cannot be sent now. */
  async upload(data: Blob, file: Pick<ReportFile, 'attachmentType' | 'fileName'>): Promise<ReportFile> {
    const sessionId = this.#sessionId;
    const isWanted = (): boolean => this.#mayLeave() && this.#sessionId === sessionId;
    return await upload(this.#options, { data, file, isWanted });
  }

  /** Sends what waits. @returns whether all of it has left. */
  flush(): Promise<boolean> {
    return this.#run(this.#queue.lastId);
  }

  /** Sends what waits and ends the session. What could not be sent stays in a kept queue for the next start. */
  async end(): Promise<boolean> {
    this.#hasEnded = true;
    this.#isNoting = false;
    const isDone = await this.flush();
    this.#stop();
    await this.#queue.close();
    return isDone;
  }

  /** Without consent nothing is noted, and what waits is forgotten. */
  consent(isGiven: boolean): void {
    this.#isNoting = isGiven && !this.#hasEnded;
    this.#hasConsent = isGiven;
    if (!isGiven) {
      this.forget();
      return;
    }
    this.#queue.isKept = true;
    void this.#queue.keep(true);
    void this.flush();
  }

  /** Clears the queue and the ids: what comes is another session, of nobody. Required consent must be given anew. */
  forget(): void {
    this.#rejectReports('forgotten');
    this.#queue.clear();
    this.#hasConsent &&= this.#options.consent !== 'required';
    this.#queue.isKept = this.#hasConsent;
    this.#begin(undefined);
  }

  #begin(player: GameOptions['player']): void {
    const { build, metadata } = this.#options;
    this.#sessionId = uuid();
    this.#sequence = 0;
    this.#session = JSON.stringify({ id: this.#sessionId, startedAt: now(), build, player, metadata });
    this.#add('session', this.#session);
    this.#wakeAfter(0);
  }

  #eventText(eventType: string, payload: object): string {
    const place = { sessionId: this.#sessionId, occurredAt: now(), sequence: this.#sequence + 1 };
    const text = JSON.stringify({ ...place, eventType, payload });
    this.#sequence += 1;
    return text;
  }

  #add(kind: Item['kind'], text: string): number {
    const { id, dropped } = this.#queue.add(kind, text);
    if (dropped > 0) this.#lose('dropped', dropped);
    void this.#queue.keep();
    return id;
  }

  #lose(kind: 'dropped' | 'uncertain', events: number): void {
    this.#counts[kind] += events;
    this.#queue.lose(kind, events, (lost) => this.#eventText('questlog_lost', lost));
    this.#tell({ kind, events });
  }

  #isFull(): boolean {
    return this.#queue.length >= this.#maxEvents || this.#queue.bytes >= KEEPALIVE_BYTES;
  }

  #wakeAfter(ms: number): void {
    if (!this.#isStopped) this.#timer ??= setTimeout(() => void this.flush(), ms);
  }

  #run(upTo: number): Promise<boolean> {
    this.#upTo = Math.max(this.#upTo, upTo);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // Not at once: a drain that has nothing to do would end before it is here.
    this.#running ??= Promise.resolve().then(() => this.#drain());
    return this.#running;
  }

  #mayLeave(): boolean {
    return this.#hasConsent && !this.#isStopped && PAGE.navigator?.onLine !== false;
  }

  /** One request after the other, in the order of the queue. */
  async #drain(): Promise<boolean> {
    for (let isDone = false; ; ) {
      const { head } = this.#queue;
      isDone = head === undefined || (head.id > this.#upTo && !this.#isFull());
      const waitMs = this.#notBeforeMs - performance.now();
      if (!isDone && waitMs > 0) this.#wakeAfter(waitMs);
      const mayGo = !isDone && waitMs <= 0 && this.#mayLeave();
      if (mayGo && (await (head?.sending ?? this.#send(0)))) continue;
      // Whoever asks from now on starts another one.
      this.#running = undefined;
      if (this.#queue.length > 0 && this.#mayLeave()) this.#wakeAfter(this.#intervalMs);
      return isDone;
    }
  }

  /** The page goes: what fits beside what is under way leaves at once, and may outlive the page. */
  #leave(): void {
    let room = KEEPALIVE_BYTES;
    for (let at = 0; this.#mayLeave() && performance.now() >= this.#notBeforeMs; ) {
      const unit = this.#queue.unitAt(at, { events: this.#maxEvents, bytes: room });
      for (const { bytes } of unit ?? []) room -= bytes + 2;
      if (unit === undefined || room < 0) return;
      const [head] = unit;
      if (head.sending === undefined) void this.#send(at, unit);
      // Its events could come before it.
      if (head.kind === 'session') return;
      at += unit.length;
    }
  }

  /** @param leaving what a page that goes sends: nothing may come before its request. */
  #send(at: number, leaving?: Unit): Promise<boolean> {
    const bound = { events: this.#maxEvents, bytes: KEEPALIVE_BYTES };
    const unit = leaving ?? this.#queue.unitAt(at, bound);
    if (unit === undefined) return Promise.resolve(true);
    const [head] = unit;
    head.sending = this.#attempt(unit, leaving !== undefined).finally(() => {
      head.sending = undefined;
    });
    return head.sending;
  }

  /** @returns whether the next request may go. */
  async #attempt(unit: Unit, isLeaving: boolean): Promise<boolean> {
    const [head] = unit;
    if (this.#isOverdue(unit)) return true;
    const ask: Ask = (path, text, headers = {}) => {
      const mayGzip = this.#mayGzip && !isLeaving;
      return post(this.#options, path, { text, headers, mayGzip, isWanted: () => this.#queue.has(head) });
    };
    const reply = await (head.kind === 'event'
      ? this.#askEvents(ask, unit, isLeaving)
      : ask(`${head.kind}s`, head.text));
    // Forgotten meanwhile.
    if (!this.#queue.has(head)) return true;
    const isDone = this.#settle(unit, reply);
    await this.#queue.keep();
    return isDone;
  }

  /** Gives up an old batch that may be stored; one that never left gets another key. */
  #isOverdue(unit: Unit): boolean {
    const { batch } = unit[0];
    if (batch === undefined) return false;
    const madeMs = Number.parseInt(batch.key.replace('-', '').slice(0, 12), 16);
    if (Math.abs(Date.now() - madeMs) < KEY_LIVES_MS) return false;
    if (!batch.isUnsure) this.#queue.unpin(unit);
    else {
      this.#queue.remove(unit);
      this.#lose('uncertain', unit.length);
    }
    void this.#queue.keep();
    return true;
  }

  async #askEvents(ask: Ask, unit: Unit, isLeaving: boolean): Promise<Reply> {
    const [head] = unit;
    const { key } = head.batch ?? this.#queue.pin(unit, uuid(Date.now()));
    const kept = this.#queue.keep();
    if (!isLeaving) await kept;
    const text = `[${unit.map((item) => item.text).join()}]`;
    const headers = { 'Idempotency-Key': key, Prefer: 'handling=lenient' };
    const reply = await ask('events', text, headers);
    const [first]: unknown[] = Array.isArray(reply.body) ? reply.body : [];
    const isUnknown = fieldOf(first, 'code') === 'unknown_session' && head.text.includes(this.#sessionId);
    if (!isUnknown || this.#renewedFor === key) return reply;
    // A backend that has lost its data learns of the session anew, once a batch.
    this.#renewedFor = key;
    await ask('sessions', this.#session);
    return await ask('events', text, headers);
  }

  #settle(unit: Unit, reply: Reply): boolean {
    const [head] = unit;
    const { status, body } = reply;
    const code = fieldOf(body, 'code');
    const problem = { code: code ?? String(status), message: fieldOf(body, 'message') ?? '' };
    if (status === 401 || (status === 403 && (code === 'forbidden' || code === 'suspended'))) {
      if (!this.#isStopped) this.#tell({ kind: 'stopped', ...problem });
      this.#stop();
      return false;
    }
    if (status >= 200 && status < 300 && isAnswer(unit, body)) this.#accepted(unit, body);
    else if (code?.endsWith('_encoding') && this.#mayGzip) this.#mayGzip = false;
    // Anybody on the way may answer 4xx; only Questlog gives a code. What is too large for a proxy stays so.
    else if (
      isRefusal(reply) &&
      (code !== undefined || status === 413 || this.#queue.isBlocked(head, this.#failures))
    ) {
      this.#refusedWhole(unit, problem);
    } else {
      if (head.batch !== undefined) head.batch.isUnsure ||= !reply.isUnsent;
      return this.#backOff(reply.retryAfterMs ?? 0);
    }
    this.#failures = 0;
    return true;
  }

  #accepted(unit: Unit, body: unknown): void {
    const [head] = unit;
    if (head.kind === 'report') this.#waiting.get(head.id)?.resolve(fieldOf(body, 'id') ?? '');
    for (const [index, item] of unit.entries()) {
      const answer: unknown = Array.isArray(body) ? body[index] : body;
      const code = fieldOf(answer, 'code');
      if (head.kind !== 'event') continue;
      if (code === undefined) this.#counts.sent += 1;
      else this.#refused(item.text, { code, message: fieldOf(answer, 'message') ?? '' });
    }
    this.#queue.remove(unit);
  }

  /** A batch that is refused as a whole goes again in halves, so that what is good of it is stored. */
  #refusedWhole(unit: Unit, problem: { code: string; message: string }): void {
    const [head] = unit;
    if (head.batch?.isUnsure) {
      this.#queue.remove(unit);
      this.#lose('uncertain', unit.length);
    } else if (unit.length > 1) {
      this.#maxEvents = Math.ceil(unit.length / 2);
      this.#queue.unpin(unit);
    } else {
      this.#queue.remove(unit);
      this.#waiting.get(head.id)?.reject(new Error(`${problem.code}: ${problem.message}`));
      this.#refused(head.text, problem);
    }
  }
  #refused(entry: string, problem: { code: string; message: string }): void {
    this.#counts.refused += 1;
    this.#tell({ kind: 'refused', ...problem, entry });
  }

  /** Full jitter: games that lost a server together come back apart. */
  #backOff(retryAfterMs: number): false {
    this.#failures += 1;
    this.#notBeforeMs = performance.now() + retryAfterMs;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#wakeAfter(retryAfterMs + Math.random() * Math.min(MAX_BACK_OFF_MS, 1_000 * 2 ** this.#failures));
    return false;
  }

  #stop(): void {
    this.#isStopped = true;
    this.#rejectReports('the game stopped or ended; the next start files what a kept queue holds');
    clearTimeout(this.#timer);
    this.#page.abort();
  }

  #rejectReports(why: string): void {
    for (const { reject } of this.#waiting.values()) reject(new Error(why));
    this.#waiting.clear();
  }

  #on(event: string, listener: () => void): void {
    PAGE.addEventListener?.(event, listener, { signal: this.#page.signal });
  }

  /** What the game throws in it is the game's own. */
  #tell(problem: ClientProblem): void {
    queueMicrotask(() => this.#options.onProblem?.(problem));
  }
}

function now(): string {
  return new Date().toISOString();
}
