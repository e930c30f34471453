/** Types of the objects that the handlers of GET requests share. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { CursorCiphers } from '@questlog/runtime/cursors/cursorCiphers';
import type { Projections, WaitForLinks } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import type { ReportCache } from './reportCache.ts';
import type { SessionCache } from './sessionCache.ts';

export interface ReadContext {
  readonly store: Store;
  readonly sessions: SessionCache;
  readonly reports: ReportCache;
  readonly projections: Projections;
  readonly waitForLinks: WaitForLinks;
  readonly clock: Clock;
  readonly partitions: number;
  readonly cursorCiphers: CursorCiphers;
}
