/** Sends a test event and shows each step until the row is in ClickHouse. */
import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Failure, html, type ListedProject, Time } from './html.ts';
import { json, sql } from './request.ts';

interface StoredRow {
  readonly log_partition: number;
  readonly log_offset: string;
}

interface TestEventStatus {
  readonly event?: { readonly id: string; readonly afterMs: number };
  readonly row?: StoredRow & { readonly afterMs: number };
  readonly isLate?: boolean;
  readonly error?: Error;
}

const POLL_MS = 250;
const SLOW_POLL_MS = 5_000;
const LATE_AFTER_MS = 30_000;
const ROW_QUERY = `SELECT log_partition, log_offset FROM events
  WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID}
    AND id_at = fromUnixTimestamp64Milli({ms:Int64}) AND id = {id:UUID}`;

/** Sends one test event when the component is mounted. A component with a new key sends another test event. */
export function TestEvent({ project }: { project: ListedProject }): VNode {
  const { event, row, isLate, error } = useTestEvent(project);
  return html`<div class="card" role="status" aria-label="Test event">
    <h3>Test event of ${project.name}</h3>
    <ol class="test-steps">
      <li class=${event ? 'done' : ''}>${event ? html`Answered after ${event.afterMs.toFixed(0)} ms. Its id is <code>${event.id}</code>. Received <${Time} at=${millisOf(event.id)} />.` : 'Sent. Waiting for the response…'}</li>
      ${event && html`<li class=${row ? 'done' : ''}>${row ? html`In ClickHouse after ${row.afterMs.toFixed(0)} ms. In the log at partition ${row.log_partition}, offset ${row.log_offset}.` : 'In the log. Not in ClickHouse yet…'}</li>`}
    </ol>
    ${isLate && html`<p class="failure">This takes longer than usual. The page <a href="#/health">Health</a> shows which part is behind.</p>`}
    <${Failure} error=${error} />
    ${event && html`<a href=${`#/follow/${event.id}`}>Follow this event</a>`}
  </div>`;
}

function useTestEvent(project: ListedProject): TestEventStatus {
  const [followed, setFollowed] = useState<TestEventStatus>({});
  useEffect(() => {
    let isOver = false;
    const sentMs = performance.now();
    const follow = async (): Promise<void> => {
      const { id } = await json<{ id: string }>('POST', `/admin/projects/${project.id}/test-event`);
      const event = { id, afterMs: performance.now() - sentMs };
      setFollowed({ event });
      const parameters = { tenant: project.tenantId, project: project.id, id, ms: millisOf(id) };
      while (!isOver) {
        const [found] = await sql<StoredRow>(ROW_QUERY, parameters);
        const afterMs = performance.now() - sentMs;
        if (found !== undefined) return setFollowed({ event, row: { ...found, afterMs } });
        const isLate = afterMs > LATE_AFTER_MS;
        if (isLate) setFollowed({ event, isLate });
        await new Promise((resolve) => setTimeout(resolve, isLate ? SLOW_POLL_MS : POLL_MS));
      }
    };
    follow().catch((error: Error) => isOver || setFollowed((last) => ({ ...last, error })));
    return () => {
      isOver = true;
    };
  }, []);
  return followed;
}

function millisOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
