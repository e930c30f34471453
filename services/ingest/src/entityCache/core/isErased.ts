/** Type of the check whether an entity in memory was erased after it was read. Pure. */
import type { Erasable } from '@questlog/schemas/erased';

/** A registered session or a filed report. */
export type IsErased = (entity: Omit<Erasable, 'tenantId'> & { readonly reportId?: string }) => boolean;

export const NOTHING_ERASED: IsErased = () => false;
