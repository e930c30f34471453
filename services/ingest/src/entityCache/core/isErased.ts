/** Checks whether a cached session or bug report was erased. */
import type { Erasable } from '@questlog/schemas/erased';

export type IsErased = (entity: Omit<Erasable, 'tenantId'> & { readonly reportId?: string }) => boolean;

export const NOTHING_ERASED: IsErased = () => false;
