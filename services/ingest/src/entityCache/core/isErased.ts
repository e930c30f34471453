/** Whether what a process has in memory was erased since it was read. Pure. */
import type { Erasable } from '@questlog/schemas/erased';

/** A session as registered, a report as filed. */
export type IsErased = (entity: Omit<Erasable, 'tenantId'> & { readonly reportId?: string }) => boolean;

export const NOTHING_ERASED: IsErased = () => false;
