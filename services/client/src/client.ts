/** The client of Questlog for games. It sends sessions, events, and reports in order, and without duplicates after a retry. */

import { checkOptions } from './checkOptions.ts';
import { Delivery } from './delivery.ts';
import type { BugReport, ClientProblem, GameOptions, ReportFile } from './gameOptions.ts';
import { PAGE } from './page.ts';
import { upload, uuid } from './post.ts';
import { type Item, Queue, type QueueStore, type StoredEntry } from './queue.ts';

export type { BugReport, ClientProblem, GameOptions, ReportFile } from './gameOptions.ts';
export type { QueueChange, QueueEntry, QueueStore, StoredEntry } from './queue.ts';

const DEFAULT_END_TIMEOUT_MS = 2_000;

/** Starts a session without waiting for the network. @throws TypeError that names a missing or invalid option. */
export async function start(options: GameOptions): Promise<Game> {
  checkOptions(options);
  const { queue, onProblem } = options;
  try {
    return new Game(options, queue, (await queue?.open()) ?? []);
  } catch (error) {
    // A browser can forbid storage, for example in a private window. The client then uses a queue in memory.
    onProblem?.({ kind: 'queue', code: 'not_opened', message: String(error) });
    return new Game(options, undefined, []);
  }
}

export class Game {
  readonly #options: GameOptions;
  readonly #queue: Queue;
  readonly #delivery: Delivery;
  #sequence = 0;
  #isRecording = true;
  #hasEnded = false;

  constructor(options: GameOptions, store: QueueStore | undefined, stored: readonly StoredEntry[]) {
    const onFailure = (error: unknown): void =>
      this.#report({ kind: 'queue', code: 'not_written', message: String(error) });
    this.#options = options;
    this.#queue = new Queue(store, stored, { maxBytes: options.maxQueueBytes ?? 4_194_304, onFailure });
    const report = (problem: ClientProblem): void => this.#report(problem);
    const lostText = (lost: object): string => this.#eventText('questlog_lost', lost);
    this.#delivery = new Delivery({ options, lostText, report }, this.#queue);
    this.#delivery.hasConsent = options.consent !== 'required';
    this.#queue.isPersistent = this.#delivery.hasConsent;
    this.#startSession(options.player);
    this.#on('online', () => void this.flush());
    this.#on('pagehide', () => this.#delivery.sendBeforeClose());
    this.#on(
      'visibilitychange',
      () => PAGE.document?.visibilityState === 'hidden' && this.#delivery.sendBeforeClose(),
    );
  }

  get sessionId(): string {
    return this.#delivery.session.id;
  }

  /** Number of events by outcome. `queued` also counts queued sessions and reports. */
  get counts(): { queued: number; sent: number; refused: number; dropped: number; uncertain: number } {
    return { queued: this.#queue.length, ...this.#delivery.counts };
  }

  event(eventType: string, payload: object = {}): void {
    if (!this.#isRecording) return;
    try {
      this.#add('event', this.#eventText(eventType, payload));
    } catch (error) {
      this.#delivery.countRejected(eventType, { code: 'no_json', message: String(error) });
    }
    this.#delivery.eventAdded();
  }

  /**
   * Sends a bug report. Questlog links the report to the events of the session around the time of the report.
   * @returns the id of the report, after Questlog has stored the report.
   * @throws Error if Questlog rejects the report, if the queue is full or cleared, or if the client stops.
   */
  report({ context, attachments, window, ...report }: BugReport): Promise<string> {
    const filed = new Promise<string>((resolve, reject) => {
      if (!this.#isRecording || this.#delivery.isStopped)
        throw new Error('the report was not filed: stopped, ended, or without consent');
      const metadata = { clientRequestId: uuid(), sessionId: this.sessionId, occurredAt: now() };
      const id = this.#add('report', JSON.stringify({ ...metadata, report, context, attachments, window }));
      this.#delivery.reports.set(id, { resolve, reject });
      if (!this.#delivery.isFailing) void this.flush();
    });
    // A game can ignore the promise, because the client also calls `onProblem` for a failed report.
    filed.catch(() => {});
    return filed;
  }

  /** Uploads a file immediately. Pass the result in the `attachments` of a report. @throws Error if the upload fails. */
  async upload(data: Blob, file: Pick<ReportFile, 'attachmentType' | 'fileName'>): Promise<ReportFile> {
    const sessionId = this.sessionId;
    const isWanted = (): boolean => this.#delivery.canSend() && this.sessionId === sessionId;
    return await upload(this.#options, { data, file, isWanted, signal: this.#delivery.signal });
  }

  /** Sends the queue. @returns true if all events and reports of the queue were sent. */
  flush(): Promise<boolean> {
    return this.#delivery.flush();
  }

  /**
   * Sends the queue for up to `endWithinMs`, then stops the client. A persistent queue keeps the rest.
   * @returns true if all is sent.
   */
  async end(): Promise<boolean> {
    this.#hasEnded = true;
    this.#isRecording = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const limit = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), this.#options.endWithinMs ?? DEFAULT_END_TIMEOUT_MS);
    });
    const isDone = await Promise.race([this.flush(), limit]);
    clearTimeout(timer);
    this.#delivery.stop();
    await this.#queue.close();
    return isDone;
  }

  /** Grants or withdraws the player's consent. Without consent, the client records no events, and it clears the queue. */
  consent(isGiven: boolean): void {
    this.#isRecording = isGiven && !this.#hasEnded;
    this.#delivery.hasConsent = isGiven;
    if (!isGiven) {
      this.forget();
      return;
    }
    this.#queue.isPersistent = true;
    void this.#queue.persist(true);
    void this.flush();
  }

  /** Clears the queue and starts a session without a player. Withdraws consent if the option `consent` is `required`. */
  forget(): void {
    this.#delivery.rejectReports('forgotten');
    this.#queue.clear();
    this.#delivery.hasConsent &&= this.#options.consent !== 'required';
    this.#queue.isPersistent = this.#delivery.hasConsent;
    this.#startSession(undefined);
  }

  #startSession(player: GameOptions['player']): void {
    const { build, metadata } = this.#options;
    const id = uuid();
    this.#sequence = 0;
    const text = JSON.stringify({ id, startedAt: now(), build, player, metadata });
    this.#delivery.session = { id, text };
    this.#add('session', text);
    this.#delivery.flushAfter(0);
  }

  #eventText(eventType: string, payload: object): string {
    const position = { sessionId: this.sessionId, occurredAt: now(), sequence: this.#sequence + 1 };
    const text = JSON.stringify({ ...position, eventType, payload });
    this.#sequence += 1;
    return text;
  }

  #add(kind: Item['kind'], text: string): number {
    const { id, dropped } = this.#queue.add(kind, text);
    if (dropped > 0) this.#delivery.countLost('dropped', dropped);
    void this.#queue.persist();
    return id;
  }

  #on(event: string, listener: () => void): void {
    PAGE.addEventListener?.(event, listener, { signal: this.#delivery.signal });
  }

  /** Calls `onProblem` in a microtask, so that an exception of `onProblem` does not interrupt the client. */
  #report(problem: ClientProblem): void {
    queueMicrotask(() => this.#options.onProblem?.(problem));
  }
}

function now(): string {
  return new Date().toISOString();
}
