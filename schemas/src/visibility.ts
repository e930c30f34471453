/** Hides data from readers of the log and of ClickHouse. Readers do not know why data is hidden. */
import type { Erasable, ErasedData } from './erased.ts';

type Methods = 'visibleEvents' | 'areVisibleNotes' | `isVisible${string}`;
export type Visibility = Pick<ErasedData, 'changes' | Extract<keyof ErasedData, Methods>>;

/** Decides what the projector writes, too, and names the erasures of hidden events, which the projector counts. */
export type ProjectedVisibility = Visibility &
  Pick<ErasedData, 'isEmpty' | 'erasuresOfEvents' | 'isProjectedReport'>;

/** True if readers may see a session or bug report. */
export type IsVisible = (entity: Omit<Erasable, 'tenantId'> & { readonly reportId?: string }) => boolean;

export interface VisibleData {
  readonly cached: Visibility;
  /** Reads the log to its end. The result then includes every request that hides data. @throws Unavailable */
  latest(): Promise<ProjectedVisibility>;
}
