/** Type of a function that checks if an entity in memory was erased after it was read. Pure. */
import type { Erasable } from '@questlog/schemas/erased';

/** True if the entity, a registered session or a filed report, was erased. */
export type IsErased = (entity: Omit<Erasable, 'tenantId'> & { readonly reportId?: string }) => boolean;

export const NOTHING_ERASED: IsErased = () => false;
