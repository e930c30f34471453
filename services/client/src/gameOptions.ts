/** What a game says and is told: types only. */
import type { QueueStore } from './queue.ts';

export interface GameOptions {
  /** The base address, as in `https://telemetry.your-game.example`. */
  readonly url: string;
  /** Of the scopes `events:write` and `reports:write`; whoever has the game can read it. */
  readonly token: string;
  readonly build?: {
    readonly version: string;
    readonly platform: string;
    readonly gitCommit?: string;
    readonly channel?: 'dev' | 'qa' | 'alpha' | 'beta' | 'staging' | 'prod';
  };
  readonly player?: { readonly externalId?: string; readonly deviceId?: string };
  readonly metadata?: object;
  /** `required`: nothing leaves, and nothing is written to the device, before `consent(true)`. */
  readonly consent?: 'required';
  /** Keeps the queue beyond the process: `indexedDbQueue()` or `fileQueue()`. Without it the queue is in memory. */
  readonly queue?: QueueStore;
  /** Beyond it the oldest events are dropped and counted. Default 4 MiB. */
  readonly maxQueueBytes?: number;
  /** At most 500 in revision A of the contract and 200 in revision B. Default 200. */
  readonly maxBatchEvents?: number;
  /** How long an event waits for company. Default 5 s. */
  readonly flushIntervalMs?: number;
  /** Maximum time that `end()` takes. Default 2 s. */
  readonly endWithinMs?: number;
  readonly onProblem?: (problem: ClientProblem) => void;
  readonly fetch?: typeof fetch;
}

/** What a game may want to print: nothing of it needs an answer, but `stopped` needs another token. */
export type ClientProblem =
  /**
   * Questlog does not answer or cannot accept entries, which stay in the queue. Reported at once, then at most once a
   * minute.
   */
  | { readonly kind: 'unreachable'; readonly code: string; readonly message: string }
  /** Questlog answers again after it was reported as `unreachable`. */
  | { readonly kind: 'reached'; readonly message: string }
  | { readonly kind: 'stopped' | 'queue'; readonly code: string; readonly message: string }
  /** `entry` is the JSON of what was refused. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string; readonly entry: string }
  /** Uncertain: the answer did not come within the life of the batch's key, so that it is not sent again. */
  | { readonly kind: 'dropped' | 'uncertain'; readonly events: number };

export interface BugReport {
  readonly title: string;
  readonly description?: string;
  readonly severity?: 'low' | 'medium' | 'high' | 'critical';
  readonly reporterType?: 'player' | 'tester' | 'qa' | 'internal' | 'system';
  readonly sourceChannel?: string;
  readonly fingerprint?: string;
  readonly context?: object;
  /** As `upload()` answers. */
  readonly attachments?: readonly ReportFile[];
  readonly window?: { readonly beforeMs?: number; readonly afterMs?: number };
}

/** A file of a bug report. */
export interface ReportFile {
  readonly uploadId: string;
  readonly attachmentType: 'screenshot' | 'video' | 'save_state' | 'log_bundle' | 'other';
  readonly fileName: string;
  readonly mimeType: string;
  readonly sizeBytes: number;
}
