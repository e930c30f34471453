/** Checks whether an entity (a session or a bug report) was erased after a cache read it. Pure. */
import type { Erasable } from '@questlog/schemas/erased';

export type IsErased = (entity: Omit<Erasable, 'tenantId'> & { readonly reportId?: string }) => boolean;

export const NOTHING_ERASED: IsErased = () => false;
