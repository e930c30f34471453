/** Hides data from readers of the log and of ClickHouse. Readers do not know why data is hidden. */
import type { Erasable, ErasedData } from './erased.ts';

type Methods = 'visibleEvents' | 'areVisibleNotes' | `isVisible${string}`;
export type Visibility = Pick<ErasedData, 'changes' | Extract<keyof ErasedData, Methods>>;

/** Additional methods for the projector. The projector counts the hidden events of each erasure, and drops erased reports. */
export type ProjectedVisibility = Visibility &
  Pick<ErasedData, 'isEmpty' | 'erasuresOfEvents' | 'isProjectedReport'>;

/** True if readers may see a session or bug report. */
export type IsVisible = (entity: Omit<Erasable, 'tenantId'> & { readonly reportId?: string }) => boolean;

export interface VisibleData {
  readonly cached: Visibility;
  /** Reads the log to its end. The result then includes every request that hides data. @throws Unavailable */
  latest(): Promise<ProjectedVisibility>;
}
