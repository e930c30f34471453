/** Sends events about a page automatically: uncaught errors, slow frames, and changes of the visibility of the page. */
import type { Game } from './client.ts';

export interface AutomaticOptions {
  /** True to send uncaught errors and unhandled rejections as `error` events. The default is true. */
  readonly errors?: boolean;
  /** True to report every ten seconds how many frames took more than 50 ms (`performance` event). The default is true. */
  readonly frames?: boolean;
  /** True to send a `state_change` event when the page becomes visible or hidden. The default is true. */
  readonly visibility?: boolean;
}

const SLOW_FRAME_MS = 50;
const PERIOD_MS = 10_000;
/** Maximum number of `error` events in ten seconds. A game with an error in every frame would otherwise fill its queue. */
const MAX_ERRORS = 10;

interface PageEvent {
  readonly message?: string;
  readonly error?: unknown;
  readonly reason?: unknown;
}

interface Page {
  readonly document?: { readonly visibilityState: string };
  addEventListener?(
    name: string,
    listener: (event: PageEvent) => void,
    options: { signal: AbortSignal },
  ): void;
  requestAnimationFrame?(onFrame: (ms: number) => void): number;
}

/** Starts to send the automatic events. Returns a function that stops the automatic events. */
export function noteAutomatically(game: Pick<Game, 'event'>, options: AutomaticOptions = {}): () => void {
  const { errors = true, frames = true, visibility = true } = options;
  const page = globalThis as Page;
  const ended = new AbortController();
  const { signal } = ended;
  const visibilityState = (): string => page.document?.visibilityState ?? 'visible';
  if (errors) reportErrors(game, page, signal);
  if (frames) reportSlowFrames(game, page, signal);
  if (visibility) {
    const report = (): void => game.event('state_change', { visibility: visibilityState() });
    page.addEventListener?.('visibilitychange', report, { signal });
  }
  return () => ended.abort();
}

function reportErrors(game: Pick<Game, 'event'>, page: Page, signal: AbortSignal): void {
  let periodMs = 0;
  let reported = 0;
  let skipped = 0;
  const report = (message: string, error: unknown): void => {
    const nowMs = performance.now();
    if (nowMs - periodMs > PERIOD_MS) {
      periodMs = nowMs;
      reported = 0;
    }
    reported += 1;
    if (reported > MAX_ERRORS) {
      skipped += 1;
      return;
    }
    const stack = error instanceof Error ? error.stack?.slice(0, 8_000) : undefined;
    game.event('error', { message: message.slice(0, 1_000), stack, ...(skipped > 0 && { skipped }) });
    skipped = 0;
  };
  page.addEventListener?.('error', ({ message, error }) => report(message ?? String(error), error), {
    signal,
  });
  page.addEventListener?.('unhandledrejection', ({ reason }) => report(String(reason), reason), { signal });
}

function reportSlowFrames(game: Pick<Game, 'event'>, page: Page, signal: AbortSignal): void {
  let lastMs: number | undefined;
  let periodMs: number | undefined;
  let [total, slow, longestMs] = [0, 0, 0];
  const onFrame = (ms: number): void => {
    if (signal.aborted) return;
    const tookMs = ms - (lastMs ?? ms);
    lastMs = ms;
    periodMs ??= ms;
    total += 1;
    if (tookMs > SLOW_FRAME_MS) slow += 1;
    longestMs = Math.max(longestMs, tookMs);
    if (ms - periodMs >= PERIOD_MS) {
      if (slow > 0)
        game.event('performance', { frames: total, slowFrames: slow, longestFrameMs: Math.round(longestMs) });
      [total, slow, longestMs, periodMs] = [0, 0, 0, ms];
    }
    page.requestAnimationFrame?.(onFrame);
  };
  // Forgets the last frame. A hidden page draws no frames, and this pause must not count as a slow frame.
  const resetLastFrame = (): void => {
    lastMs = undefined;
  };
  page.addEventListener?.('visibilitychange', resetLastFrame, { signal });
  page.requestAnimationFrame?.(onFrame);
}
