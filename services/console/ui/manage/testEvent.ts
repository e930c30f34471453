/** Sends a test event and shows each step until the row is in ClickHouse. */
import type { ProjectOutput } from '@questlog/schemas/http/admin';
import type { VNode } from 'preact';
import { useRef } from 'preact/hooks';
import { Failure, html, millisOf, Time } from '../html.ts';
import { post, sql } from '../request.ts';
import { useResource } from '../resource.ts';

const POLL_MS = 250;
const SLOW_POLL_MS = 5_000;
const LATE_AFTER_MS = 30_000;
const ROW_QUERY = `SELECT log_partition AS partition, log_offset AS offset FROM events
  WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID}
    AND id_at = fromUnixTimestamp64Milli({ms:Int64}) AND id = {id:UUID}`;

/** Sends one test event when the component is mounted. A component with a new key sends another test event. */
export function TestEvent({ project }: { project: ProjectOutput }): VNode {
  const sentMs = useRef(performance.now());
  const afterMs = () => performance.now() - sentMs.current;
  const { value: event, ...sent } = useResource('', async () => {
    const { id } = await post<{ id: string }>(`/admin/projects/${project.id}/test-event`);
    return { id, afterMs: afterMs() };
  });
  const { value: search, ...searched } = useResource(
    event?.id ?? '',
    async (signal) => {
      if (event === undefined) return undefined;
      const parameters = {
        tenant: project.tenantId,
        project: project.id,
        id: event.id,
        ms: millisOf(event.id),
      };
      const [row] = await sql<{ partition: number; offset: string }>(ROW_QUERY, parameters, signal);
      return { row, afterMs: afterMs(), isLate: row === undefined && afterMs() > LATE_AFTER_MS };
    },
    (last) => (event === undefined || last?.row ? undefined : last?.isLate ? SLOW_POLL_MS : POLL_MS),
  );
  const row = search?.row;
  return html`<div class="card" role="status" aria-label="Test event">
    <h3>Test event of ${project.name}</h3>
    <ol class="test-steps">
      <li class=${event ? 'done' : ''}>${event ? html`Answered after ${event.afterMs.toFixed(0)} ms. Its id is <code>${event.id}</code>. Received <${Time} at=${millisOf(event.id)} />.` : 'Sent. Waiting for the response…'}</li>
      ${event && html`<li class=${row ? 'done' : ''}>${row ? html`In ClickHouse after ${search.afterMs.toFixed(0)} ms. In the log at partition ${row.partition}, offset ${row.offset}.` : 'In the log. Not in ClickHouse yet…'}</li>`}
    </ol>
    ${search?.isLate && html`<p class="failure">This takes longer than usual. The page <a href="#/health">Health</a> shows which part is behind.</p>`}
    <${Failure} error=${sent.error ?? searched.error} />
    ${event && html`<a href=${`#/follow/${event.id}`}>Follow this event</a>`}
  </div>`;
}
