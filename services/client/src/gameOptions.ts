/** Types of the options of a game, and of the problems that the client reports to a game. */
import type { QueueStore } from './queue.ts';

export interface GameOptions {
  /** Base address of Questlog, such as `https://telemetry.your-game.example`. */
  readonly url: string;
  /** Access token. Players can read the token, so give it only the scopes `events:write` and `reports:write`. */
  readonly token: string;
  readonly build?: {
    readonly version: string;
    readonly platform: string;
    readonly gitCommit?: string;
    readonly channel?: 'dev' | 'qa' | 'alpha' | 'beta' | 'staging' | 'prod';
  };
  readonly player?: { readonly externalId?: string; readonly deviceId?: string };
  readonly metadata?: object;
  /** With `required`, the client sends nothing and stores nothing on the device before the game calls `consent(true)`. */
  readonly consent?: 'required';
  /** Queue from `indexedDbQueue()` or `fileQueue()`, which keeps events after a restart. By default, the queue is in memory. */
  readonly queue?: QueueStore;
  /** Maximum bytes of the queue. A full queue drops its oldest events and counts the dropped events. The default is 4 MiB. */
  readonly maxQueueBytes?: number;
  /** Maximum number of events per request. The default is 200. A larger value, up to 500, needs API revision A. */
  readonly maxBatchEvents?: number;
  /** Maximum time in milliseconds that an event waits for its batch to become full. The default is 5,000. */
  readonly flushIntervalMs?: number;
  /** Maximum time that `end()` takes, in milliseconds. The default is 2 s. */
  readonly endWithinMs?: number;
  readonly onProblem?: (problem: ClientProblem) => void;
  readonly fetch?: typeof fetch;
}

/** A problem that the client reports to the game. After `stopped` or the code `forbidden`, the game needs another token. */
export type ClientProblem =
  /** Questlog does not respond, or it cannot store data. The client reports this problem at most one time per minute. */
  | { readonly kind: 'unreachable'; readonly code: string; readonly message: string }
  /** The client reports `reached` when Questlog responds again. */
  | { readonly kind: 'reached'; readonly message: string }
  | { readonly kind: 'stopped' | 'queue'; readonly code: string; readonly message: string }
  /** Questlog rejected an event or a report. `entry` is the JSON of the event or the report. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string; readonly entry: string }
  /**
   * The client removed events from its queue. Questlog did not store events of the kind `dropped`, and may have stored events
   * of the kind `uncertain`.
   */
  | { readonly kind: 'dropped' | 'uncertain'; readonly events: number };

export interface BugReport {
  readonly title: string;
  readonly description?: string;
  readonly severity?: 'low' | 'medium' | 'high' | 'critical';
  readonly reporterType?: 'player' | 'tester' | 'qa' | 'internal' | 'system';
  readonly sourceChannel?: string;
  readonly fingerprint?: string;
  readonly context?: object;
  readonly attachments?: readonly ReportFile[];
  readonly window?: { readonly beforeMs?: number; readonly afterMs?: number };
}

export interface ReportFile {
  readonly uploadId: string;
  readonly attachmentType: 'screenshot' | 'video' | 'save_state' | 'log_bundle' | 'other';
  readonly fileName: string;
  readonly mimeType: string;
  readonly sizeBytes: number;
}
