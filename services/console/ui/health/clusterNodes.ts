/** Shows the nodes of a ClickHouse cluster. Shows nothing if ClickHouse is a single server. */
import type { ClickHouseNode } from '@questlog/schemas/http/clickhouse';
import type { VNode } from 'preact';
import { count } from '../format.ts';
import { type Column, Failure, html, Table } from '../html.ts';
import { useGet } from '../resource.ts';

const REFRESH_MS = 5_000;

export function ClusterNodes(): VNode | null {
  const { value: nodes = [], error } = useGet<ClickHouseNode[]>('/admin/clickhouse/nodes', REFRESH_MS);
  const isCluster = nodes.length > 0;
  if (!isCluster && error === undefined) return null;
  return html`<h2>Nodes of ClickHouse</h2>
    <${Failure} error=${error} />
    ${isCluster && html`<${Table} label="Nodes of ClickHouse" rows=${nodes} columns=${COLUMNS} />`}`;
}

const COLUMNS: readonly Column<ClickHouseNode>[] = [
  ['Shard', ({ shard }) => shard ?? '–'],
  ['Replica', ({ replica }) => replica ?? '–'],
  ['Address', ({ url }) => html`<code class="long">${url}</code>`],
  ['State', ({ problem }) => problem ?? 'usable'],
  ['Keeper', ({ hasKeeper }) => (hasKeeper === null ? '–' : hasKeeper ? 'connected' : 'no session')],
  ['Queue', ({ queueLength }) => (queueLength === null ? '–' : count(queueLength)), 'number'],
  ['Replication lag', ({ lagSeconds }) => (lagSeconds === null ? '–' : `${count(lagSeconds)} s`), 'number'],
];
