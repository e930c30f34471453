/** A chart over time with lines or bars, in the colors of the page. */
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import UPlot from 'uplot';
import { absoluteTime, axisNumbers, axisTimes, dayName, lonePoints } from './format.ts';
import { html } from './html.ts';

export interface Series {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

const HEIGHT = 180;
const CHARACTER_WIDTH = 7;
const LABEL_GAP = 18;
const LONGEST_TIME = '12:00:00 AM'.length;

const [MINUTE, HOUR, DAY, MONTH, YEAR] = [60, 3600, 86_400, 30 * 86_400, 365 * 86_400];
/**
 * Steps between two labels of the time axis, in seconds. The list of uPlot has no step between 1 and 5 minutes. A narrow chart of
 * four minutes then has no label, or a label outside the chart.
 */
const TIME_STEPS = [
  ...[0.001, 0.01, 0.1].flatMap((n) => [n, 2 * n, 5 * n]),
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 4, 7, 15].map((n) => n * DAY),
  ...[1, 2, 3, 6].map((n) => n * MONTH),
  ...[1, 2, 5, 10, 20, 50].map((n) => n * YEAR),
];

/** @param times - list of times in seconds since the epoch, in ascending order. */
export function Chart({
  label,
  times,
  series,
  totalOf = '',
  areBars = false,
}: {
  label: string;
  times: readonly number[];
  series: readonly Series[];
  totalOf?: string;
  areBars?: boolean;
}): VNode {
  const container = useRef<HTMLDivElement>(null);
  const names = series.map(({ name }) => name).join('\n');
  const scheme = useColorScheme();
  const current = useRef<UPlot | undefined>(undefined);
  const isEmpty = series.every(({ values }) => values.every((value) => value === null));
  const data = [times, ...series.map(({ values }) => values)] as UPlot.AlignedData;
  useEffect(() => {
    const element = container.current;
    if (element === null) return;
    const colour = (name: string) => getComputedStyle(element).getPropertyValue(name).trim();
    const stroke = colour('--dim');
    const line = { stroke: colour('--line'), width: 1 };
    const axes: UPlot.Axis[] = [
      {
        ...{ stroke, grid: { show: false }, ticks: line, space: CHARACTER_WIDTH * LONGEST_TIME },
        incrs: TIME_STEPS,
        values: (_, splits, _axis, _space, step) => axisTimes(splits, step),
      },
      {
        ...{ stroke, grid: line, ticks: { show: false } },
        size: (_, labels) =>
          LABEL_GAP +
          CHARACTER_WIDTH * Math.max(LONGEST_TIME / 2, ...(labels ?? []).map((text) => text.length)),
        values: (_, splits) => axisNumbers(splits),
      },
    ];
    const valueAt = (chart: UPlot, of: number, at: number | null) =>
      at === null && totalOf ? sumOf(chart.data[of]) : chart.data[of]?.[indexAt(chart, at)];
    const paths = areBars ? UPlot.paths.bars?.({ size: [0.8, 40] }) : undefined;
    const chart = new UPlot(
      {
        width: element.clientWidth || 600,
        height: HEIGHT,
        axes,
        // Reserves space on the right for half of the last label, which is centered below the newest value.
        padding: [null, (CHARACTER_WIDTH * LONGEST_TIME + LABEL_GAP) / 2, null, null],
        ...(areBars && { scales: { x: { range: withMargin } } }),
        series: [
          {
            label: 'Time',
            value: (chart, _raw, _of, at) =>
              at === null && totalOf ? totalOf : timeText(chart.data[0], indexAt(chart, at)),
          },
          ...names.split('\n').map((name, i) => ({
            ...{ label: name, stroke: colour(`--series-${(i % 4) + 1}`), width: 2, ...(paths && { paths }) },
            value: (chart: UPlot, _raw: number, of: number, at: number | null) =>
              numberText(valueAt(chart, of, at)),
            points: { show: false, filter: (chart: UPlot, of: number) => lonePoints(chart.data[of] ?? []) },
            ...(areBars && { fill: colour(`--series-${(i % 4) + 1}`), points: { show: false } }),
          })),
        ],
      },
      data,
      element,
    );
    current.current = chart;
    chart.setLegend({ idx: null as unknown as number }, false);
    const watcher = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      chart.destroy();
      current.current = undefined;
    };
  }, [names, areBars, scheme, totalOf, isEmpty]);
  useEffect(() => {
    current.current?.setData(data);
    current.current?.setLegend({ idx: null as unknown as number }, false);
  }, [JSON.stringify(data)]);
  if (isEmpty) return html`<p class="status">No values yet.</p>`;
  return html`<div class="chart" role="img" aria-label=${label}><div ref=${container}></div></div>`;
}

function indexAt({ data: [times] }: UPlot, at: number | null): number {
  return at ?? times.length - 1;
}

function sumOf(values: ArrayLike<number | null | undefined> = []): number {
  return Array.from(values).reduce<number>((sum, value) => sum + (value ?? 0), 0);
}

function timeText(times: ArrayLike<number>, at: number): string {
  const seconds = times[at];
  if (seconds === undefined) return '–';
  const areDays = Array.from(times).every((time) => {
    const date = new Date(time * 1000);
    return date.getHours() + date.getMinutes() + date.getSeconds() === 0;
  });
  const date = new Date(seconds * 1000);
  return areDays ? dayName(date) : absoluteTime(date);
}

function numberText(n: number | null | undefined): string {
  return n == null ? '–' : n.toLocaleString(undefined, { maximumFractionDigits: 2 });
}

/** Adds half a step on each side of the chart, so that the first bar and the last bar have the full width. */
function withMargin({ data: [times] }: UPlot, min: number, max: number): [number, number] {
  const half = (max - min) / Math.max(1, times.length - 1) / 2;
  return [min - half, max + half];
}

const DARK = matchMedia('(prefers-color-scheme: dark)');

/** Redraws the chart when the color scheme changes, because a canvas keeps its old colors. */
function useColorScheme(): boolean {
  const [isDark, setDark] = useState(DARK.matches);
  useEffect(() => {
    const onChange = () => setDark(DARK.matches);
    DARK.addEventListener('change', onChange);
    return () => DARK.removeEventListener('change', onChange);
  }, []);
  return isDark;
}
