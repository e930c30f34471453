/** Shows the result of a query as a table, as a chart over time, or as bars. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { type Answer, barsOf, chartOf, isNull, isNumeric } from '../answerChart.ts';
import { Chart } from '../chart.ts';
import { count } from '../format.ts';
import { type Column, Empty, html, Table } from '../html.ts';

const SHOWN_ROWS = 1_000;

export function AnswerView({ answer, tookMs }: { answer: Answer; tookMs: number }): VNode {
  const [isChart, setChart] = useState(false);
  const { meta, data } = answer;
  if (data.length === 0) return html`<${Empty}><p>No rows.</p><//>`;
  const shown = data.slice(0, SHOWN_ROWS);
  const columns = meta.map(({ name, type }, i): Column<Answer['data'][number]> => {
    const of = (row: Answer['data'][number]) => (isNull(row[i]) ? '–' : row[i]);
    return isNumeric(type) ? [name, of, 'number'] : [name, of];
  });
  const chart = chartOf(answer);
  const bars = chart === undefined ? barsOf(answer) : undefined;
  const canChart = bars !== undefined || typeof chart === 'object';
  const more = data.length > shown.length ? `, showing the first ${count(shown.length)}` : '';
  return html`<div>
    <p class="status" role="status">${count(data.length)} ${data.length === 1 ? 'row' : 'rows'} in ${(tookMs / 1000).toFixed(2)} s${more}
      ${typeof chart === 'string' && ` ${chart}`}
      ${canChart && html` <button class="plain" aria-pressed=${isChart} onClick=${() => setChart(!isChart)}>${isChart ? 'Show as table' : 'Show as chart'}</button>`}
    </p>
    ${isChart && bars && html`<${Bars} bars=${bars} of=${data.length} />`}
    ${isChart && typeof chart === 'object' && html`<${Lines} chart=${chart} />`}
    ${!(isChart && canChart) && html`<${Table} label="Query result" rows=${shown} columns=${columns} scrolls="both" />`}
  </div>`;
}

function Lines({ chart }: { chart: Exclude<ReturnType<typeof chartOf>, string | undefined> }): VNode {
  const { hiddenLines, ...shown } = chart;
  return html`<div>
    ${hiddenLines > 0 && html`<p class="status">The chart shows the categories with the largest sums, without ${count(hiddenLines)} others.</p>`}
    <${Chart} label="Query result as a chart" ...${shown} />
  </div>`;
}

type Bar = NonNullable<ReturnType<typeof barsOf>>[number];

function Bars({ bars, of }: { bars: readonly Bar[]; of: number }): VNode {
  const max = Math.max(...bars.map(({ value }) => value)) || 1;
  const columns: Column<Bar>[] = [
    ['Category', ({ name }) => name],
    [
      'Bar',
      ({ name, value }) => html`<meter class="bar" aria-label=${name} max=${max} value=${value}></meter>`,
    ],
    ['Value', ({ value }) => value.toLocaleString(), 'number'],
  ];
  return html`<div>
    ${bars.length < of && html`<p class="status">The chart shows the first ${count(bars.length)} rows.</p>`}
    <${Table} label="Query result as bars" rows=${bars} columns=${columns} scrolls="both" />
  </div>`;
}
