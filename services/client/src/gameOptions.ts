/** Types of the options and problems of a game. */
import type { QueueStore } from './queue.ts';

export interface GameOptions {
  /** Base address, such as `https://telemetry.your-game.example`. */
  readonly url: string;
  /** Access token. Use only the scopes `events:write` and `reports:write`, because players can read the token. */
  readonly token: string;
  readonly build?: {
    readonly version: string;
    readonly platform: string;
    readonly gitCommit?: string;
    readonly channel?: 'dev' | 'qa' | 'alpha' | 'beta' | 'staging' | 'prod';
  };
  readonly player?: { readonly externalId?: string; readonly deviceId?: string };
  readonly metadata?: object;
  /** `required`: nothing is sent or written to the device before `consent(true)`. */
  readonly consent?: 'required';
  /** Persistent queue: `indexedDbQueue()` or `fileQueue()`. By default, the queue is in memory. */
  readonly queue?: QueueStore;
  /** Maximum bytes of the queue. A full queue drops and counts its oldest events. Default 4 MiB. */
  readonly maxQueueBytes?: number;
  /** Maximum events per request: at most 500 in revision A of the contract, 200 in revision B. Default 200. */
  readonly maxBatchEvents?: number;
  /** Maximum time for which an event waits for a full batch. Default 5 s. */
  readonly flushIntervalMs?: number;
  /** Maximum time that `end()` takes. Default 2 s. */
  readonly endWithinMs?: number;
  readonly onProblem?: (problem: ClientProblem) => void;
  readonly fetch?: typeof fetch;
}

/** A problem that a game can log. Only `stopped` needs an action: another token. */
export type ClientProblem =
  /** Questlog does not answer or cannot accept entries. Entries stay in the queue. Reported at most once per minute. */
  | { readonly kind: 'unreachable'; readonly code: string; readonly message: string }
  /** Questlog responds again after an `unreachable` problem. */
  | { readonly kind: 'reached'; readonly message: string }
  | { readonly kind: 'stopped' | 'queue'; readonly code: string; readonly message: string }
  /** Questlog rejected an event or a report, whose JSON is `entry`. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string; readonly entry: string }
  /** `uncertain`: Questlog may have stored the events, but did not respond before the idempotency key expired. */
  | { readonly kind: 'dropped' | 'uncertain'; readonly events: number };

export interface BugReport {
  readonly title: string;
  readonly description?: string;
  readonly severity?: 'low' | 'medium' | 'high' | 'critical';
  readonly reporterType?: 'player' | 'tester' | 'qa' | 'internal' | 'system';
  readonly sourceChannel?: string;
  readonly fingerprint?: string;
  readonly context?: object;
  /** Files that `upload()` returned. */
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
