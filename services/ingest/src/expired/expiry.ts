/** Reads the time before which a project's data has expired. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { isUuidV7, millisOf } from '@questlog/schemas/uuid';

/**
 * Data of a project has expired if it is older than these times. The times are in milliseconds since the epoch. 0 means that no
 * data has expired.
 */
export interface Expiry {
  readonly events: number;
  readonly links: number;
  readonly uploads: number;
}

export async function expiryOf(store: Pick<Store, 'query'>, projectId: string): Promise<Expiry> {
  const rows = await store.query<{ what: string; beforeMs: string }>(
    `SELECT what, toUnixTimestamp64Milli(max(expired_before)) AS beforeMs FROM retention_marks
     WHERE project_id = {projectId:UUID} GROUP BY what`,
    { projectId },
  );
  const marks = new Map(rows.map(({ what, beforeMs }) => [what, Number(beforeMs)]));
  return {
    events: marks.get('events') ?? 0,
    links: marks.get('links') ?? 0,
    uploads: marks.get('uploads') ?? 0,
  };
}

/** True if the id is a UUIDv7 whose time is before `beforeMs`. */
export function isMadeBefore(id: string, beforeMs: number): boolean {
  return isUuidV7(id) && millisOf(id) < beforeMs;
}
