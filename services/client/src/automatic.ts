/** Events that a page can note by itself: errors, slow frames, and whether anybody sees it. */
import type { Game } from './client.ts';

export interface AutomaticOptions {
  /** Errors and unhandled rejections that nobody caught, as `error`. Default true. */
  readonly errors?: boolean;
  /** Frames of more than 50 ms, ten seconds in one `performance` event. Default true. */
  readonly frames?: boolean;
  /** Whether the page is seen, as `state_change`. Default true. */
  readonly visibility?: boolean;
}

const SLOW_FRAME_MS = 50;
const PERIOD_MS = 10_000;
/** An error in each frame would fill the queue. */
const MAX_ERRORS = 10;

interface PageEvent {
  readonly message?: string;
  readonly error?: unknown;
  readonly reason?: unknown;
}

/** What is used of a browser; the types of Node lack it. */
interface Page {
  readonly document?: { readonly visibilityState: string };
  addEventListener?(
    name: string,
    listener: (event: PageEvent) => void,
    options: { signal: AbortSignal },
  ): void;
  requestAnimationFrame?(onFrame: (ms: number) => void): number;
}

/** @returns what stops it. */
export function noteAutomatically(game: Pick<Game, 'event'>, options: AutomaticOptions = {}): () => void {
  const { errors = true, frames = true, visibility = true } = options;
  const page = globalThis as Page;
  const ended = new AbortController();
  const { signal } = ended;
  const seen = (): string => page.document?.visibilityState ?? 'visible';
  if (errors) noteErrors(game, page, signal);
  if (frames) noteSlowFrames(game, page, signal);
  if (visibility) {
    const note = (): void => game.event('state_change', { visibility: seen() });
    page.addEventListener?.('visibilitychange', note, { signal });
  }
  return () => ended.abort();
}

function noteErrors(game: Pick<Game, 'event'>, page: Page, signal: AbortSignal): void {
  let periodMs = 0;
  let noted = 0;
  let skipped = 0;
  const note = (message: string, error: unknown): void => {
    const nowMs = performance.now();
    if (nowMs - periodMs > PERIOD_MS) {
      periodMs = nowMs;
      noted = 0;
    }
    noted += 1;
    if (noted > MAX_ERRORS) {
      skipped += 1;
      return;
    }
    const stack = error instanceof Error ? error.stack?.slice(0, 8_000) : undefined;
    game.event('error', { message: message.slice(0, 1_000), stack, ...(skipped > 0 && { skipped }) });
    skipped = 0;
  };
  page.addEventListener?.('error', ({ message, error }) => note(message ?? String(error), error), { signal });
  page.addEventListener?.('unhandledrejection', ({ reason }) => note(String(reason), reason), { signal });
}

function noteSlowFrames(game: Pick<Game, 'event'>, page: Page, signal: AbortSignal): void {
  let lastMs: number | undefined;
  let periodMs: number | undefined;
  let [all, slow, longestMs] = [0, 0, 0];
  const onFrame = (ms: number): void => {
    if (signal.aborted) return;
    const tookMs = ms - (lastMs ?? ms);
    lastMs = ms;
    periodMs ??= ms;
    all += 1;
    if (tookMs > SLOW_FRAME_MS) slow += 1;
    longestMs = Math.max(longestMs, tookMs);
    if (ms - periodMs >= PERIOD_MS) {
      if (slow > 0)
        game.event('performance', { frames: all, slowFrames: slow, longestFrameMs: Math.round(longestMs) });
      [all, slow, longestMs, periodMs] = [0, 0, 0, ms];
    }
    page.requestAnimationFrame?.(onFrame);
  };
  // A page that nobody sees has no frames: the pause is none of them.
  const resume = (): void => {
    lastMs = undefined;
  };
  page.addEventListener?.('visibilitychange', resume, { signal });
  page.requestAnimationFrame?.(onFrame);
}
