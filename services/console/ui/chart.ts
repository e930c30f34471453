/** A chart over time: lines or bars of numbers, in the colours of the page. */
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import UPlot from 'uplot';
import { html } from './html.ts';

export interface Series {
  readonly name: string;
  /** One for each time; null: none. */
  readonly values: readonly (number | null)[];
}

const HEIGHT = 180;
/** Takes the longest number that is not written shorter. */
const AXIS_WIDTH = 64;

/** @param times seconds since the epoch, ascending. @param label says to a screen reader what the chart shows. */
export function Chart({
  label,
  times,
  series,
  areBars = false,
}: {
  label: string;
  times: readonly number[];
  series: readonly Series[];
  areBars?: boolean;
}): VNode {
  const place = useRef<HTMLDivElement>(null);
  const names = series.map(({ name }) => name).join('\n');
  const scheme = useScheme();
  const drawn = useRef<UPlot | undefined>(undefined);
  const data = [times, ...series.map(({ values }) => values)] as UPlot.AlignedData;
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const colour = (name: string) => getComputedStyle(element).getPropertyValue(name).trim();
    const axis = {
      stroke: colour('--dim'),
      grid: { stroke: colour('--line') },
      ticks: { stroke: colour('--line') },
    };
    const paths = areBars ? UPlot.paths.bars?.({ size: [0.8, 40] }) : undefined;
    const chart = new UPlot(
      {
        width: element.clientWidth || 600,
        height: HEIGHT,
        axes: [axis, { ...axis, size: AXIS_WIDTH }],
        ...(areBars && { scales: { x: { range: withRoom } } }),
        series: [
          { label: 'Time', value: (chart, _raw, _of, at) => timeText(chart.data[0][shownAt(chart, at)]) },
          ...names.split('\n').map((name, i) => ({
            ...{ label: name, stroke: colour(`--series-${(i % 4) + 1}`), width: 2, ...(paths && { paths }) },
            value: (chart: UPlot, _raw: number, of: number, at: number | null) =>
              numberText(chart.data[of]?.[shownAt(chart, at)]),
            ...(areBars && { fill: colour(`--series-${(i % 4) + 1}`), points: { show: false } }),
          })),
        ],
      },
      data,
      element,
    );
    drawn.current = chart;
    chart.setLegend({ idx: null as unknown as number }, false);
    const watcher = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      chart.destroy();
      drawn.current = undefined;
    };
  }, [names, areBars, scheme]);
  useEffect(() => {
    drawn.current?.setData(data);
    drawn.current?.setLegend({ idx: null as unknown as number }, false);
  }, [JSON.stringify(data)]);
  return html`<div class="chart" role="img" aria-label=${label} ref=${place}></div>`;
}

/** Where nobody points at the chart, its legend tells the newest. */
function shownAt({ data: [times] }: UPlot, at: number | null): number {
  return at ?? times.length - 1;
}

function timeText(seconds: number | undefined): string {
  if (seconds === undefined) return '–';
  const time = new Date(seconds * 1000);
  const isDay = time.getHours() + time.getMinutes() + time.getSeconds() === 0;
  return isDay ? time.toLocaleDateString() : time.toLocaleString();
}

function numberText(n: number | null | undefined): string {
  return n == null ? '–' : n.toLocaleString(undefined, { maximumFractionDigits: 2 });
}

/** The first bar and the last one as wide as the others. */
function withRoom({ data: [times] }: UPlot, min: number, max: number): [number, number] {
  const half = (max - min) / Math.max(1, times.length - 1) / 2;
  return [min - half, max + half];
}

const DARK = matchMedia('(prefers-color-scheme: dark)');

/** A canvas does not take the page's colours anew by itself. */
function useScheme(): boolean {
  const [isDark, setDark] = useState(DARK.matches);
  useEffect(() => {
    const onChange = () => setDark(DARK.matches);
    DARK.addEventListener('change', onChange);
    return () => DARK.removeEventListener('change', onChange);
  }, []);
  return isDark;
}
