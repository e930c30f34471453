/** Builds `docs/operating/sizing.md` from the measured cost of an event. */
import { fileURLToPath } from 'node:url';
import { table } from '../../tidy/reference/markdown.ts';
import { readResults } from '../path/pathFigures.ts';
import { grouped, machineLine } from '../path/pathReport.ts';
import { RESULTS } from '../path/performancePage.ts';
import type { SizingResult } from './measureSizing.ts';

export const SIZING_PAGE = 'docs/operating/sizing.md';

const RATES = [10_000, 100_000, 1_000_000];
/** Share of a core that the load may use, so that peaks and restarts do not cause lag. */
const BUSY_SHARE = 0.6;
const REPLICAS = 3;
const LOG_DAYS = 7;
const MONTH_DAYS = 30;
const DAY_SECONDS = 86_400;
const MIN_PROCESSES = 2;
const MIN_PARTITIONS = 12;
const CORES_PER_BROKER = 8;
const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

export function sizingPage(): string {
  const results = Object.values(readResults(fileURLToPath(new URL(`../../../${RESULTS}`, import.meta.url))));
  const measured = results.flatMap(({ sizing }) => sizing ?? []).slice(-1);
  return `${['# Sizing', GENERATED, ...measured.map(sizingReport)].join('\n\n')}\n`;
}

/** Returns the sizes for each rate, and the figures behind them. */
export function sizingReport(result: SizingResult): string {
  const sizes = RATES.map((rate) => sizesOf(result, rate));
  const row = (title: string, cell: (size: Sizes) => string): string[] => [title, ...sizes.map(cell)];
  return [
    INTRODUCTION,
    table(
      [
        'events per second',
        ...RATES.map((rate) => `${grouped(rate)}${rate > result.eventsPerSecond ? ' (extrapolated)' : ''}`),
      ],
      [
        row('ingests (1 core each)', ({ ingests }) => grouped(ingests)),
        row('linkers (1 core each)', ({ linkers }) => grouped(linkers)),
        row('projectors (1 core each)', ({ projectors }) => grouped(projectors)),
        row('memory of all these processes', ({ serviceBytes }) => memoryOf(serviceBytes)),
        row('`QUESTLOG_PARTITIONS`', ({ partitions }) => grouped(partitions)),
        row('Kafka brokers', ({ brokers }) => grouped(brokers)),
        row('all Kafka brokers', ({ kafkaCores, kafkaMemoryBytes }) => coresOf(kafkaCores, kafkaMemoryBytes)),
        row(`disk of all Kafka brokers, ${LOG_DAYS} days`, ({ kafkaBytes }) => bytesOf(kafkaBytes)),
        row('ClickHouse server', ({ clickhouseCores, clickhouseMemoryBytes }) =>
          coresOf(clickhouseCores, clickhouseMemoryBytes),
        ),
        row(`disk of ClickHouse per month (${MONTH_DAYS} days)`, ({ clickhouseBytes }) =>
          bytesOf(clickhouseBytes),
        ),
      ],
    ),
    notesOf(result),
    '## Measured figures',
    `${machineLine(result.run)}, Kafka ${result.run.kafka}. The load was ${grouped(Math.round(result.eventsPerSecond))} events per second for ${result.run.seconds} s.`,
    table(
      ['process', 'CPU µs per event', 'peak of the resident memory'],
      PROCESSES.map(([name, title]) => [
        title,
        result.cpuMicrosPerEvent[name].toPrecision(3),
        `${grouped(Math.ceil(result.peakBytes[name] / MIB))} MiB`,
      ]),
    ),
    `An event takes ${Math.round(result.logBytesPerEvent)} bytes in the log of one broker, and ${Math.round(result.clickhouseBytesPerEvent)} bytes in ClickHouse after merges.`,
  ].join('\n\n');
}

interface Sizes {
  readonly ingests: number;
  readonly linkers: number;
  readonly projectors: number;
  /** Memory of all ingests, linkers, and projectors. */
  readonly serviceBytes: number;
  readonly partitions: number;
  readonly brokers: number;
  readonly kafkaCores: number;
  readonly kafkaMemoryBytes: number;
  readonly kafkaBytes: number;
  readonly clickhouseCores: number;
  readonly clickhouseMemoryBytes: number;
  readonly clickhouseBytes: number;
}

/** @param rate events per second */
function sizesOf({ cpuMicrosPerEvent: micros, peakBytes, ...result }: SizingResult, rate: number): Sizes {
  const coresFor = (microsPerEvent: number): number => Math.ceil((rate * microsPerEvent) / 1e6 / BUSY_SHARE);
  const processesFor = (microsPerEvent: number): number => Math.max(MIN_PROCESSES, coresFor(microsPerEvent));
  const [ingests, linkers, projectors] = [micros.ingest, micros.linker, micros.projector].map(
    processesFor,
  ) as [number, number, number];
  const consumers = Math.max(linkers, projectors);
  // Each replica of a partition is written by another broker.
  const kafkaCores = coresFor(micros.kafka * REPLICAS);
  const brokers = Math.max(REPLICAS, Math.ceil(kafkaCores / CORES_PER_BROKER));
  return {
    ...{ ingests, linkers, projectors },
    serviceBytes: ingests * peakBytes.ingest + linkers * peakBytes.linker + projectors * peakBytes.projector,
    partitions: Math.ceil(Math.max(MIN_PARTITIONS, 2 * consumers) / MIN_PARTITIONS) * MIN_PARTITIONS,
    ...{ brokers, kafkaCores, kafkaMemoryBytes: brokers * peakBytes.kafka },
    kafkaBytes: rate * DAY_SECONDS * LOG_DAYS * result.logBytesPerEvent * REPLICAS,
    clickhouseCores: coresFor(micros.clickhouse),
    clickhouseMemoryBytes: peakBytes.clickhouse * Math.max(1, rate / result.eventsPerSecond),
    clickhouseBytes: rate * DAY_SECONDS * MONTH_DAYS * result.clickhouseBytesPerEvent,
  };
}

const GENERATED = `<!-- Generated from ${RESULTS}. To measure again, run: npm run bench -- --sizing --json ${RESULTS}; npm run docs:reference -->`;

const PROCESSES = [
  ['ingest', 'ingest'],
  ['linker', 'linker'],
  ['projector', 'projector'],
  ['kafka', 'Kafka broker'],
  ['clickhouse', 'ClickHouse'],
] as const;

const INTRODUCTION = `The table shows the sizes for three sustained rates. A core has a load of at most ${BUSY_SHARE * 100} %. Use the rate of your busiest hour to find the processes and cores, and your average rate to find the disks.`;

function notesOf({ eventsPerSecond, shape }: SizingResult): string {
  const measured = grouped(eventsPerSecond);
  return [
    `- **Requests**: each request has ${shape.events} events of about 400 bytes and an idempotency key, like requests of \`@questlog/client\`. An
  event that is sent alone costs ingest about ten times as much ([performance](../performance.md)).`,
    `- **Extrapolated**: above ${measured} events per second, the figures are the measured cost of an event, multiplied by the rate.`,
    `- **Memory**: the measured peak of a process, multiplied by the number of processes. For ClickHouse, the peak grows with the rate.`,
    `- **Kafka**: calculated from one broker, for ${REPLICAS} replicas and brokers of ${CORES_PER_BROKER} cores, without the page cache.`,
    `- **ClickHouse**: one server without your queries. If one server is too small, set a [retention](retention.md), or use
  a [cluster](clickhouse-cluster.md).`,
    `- **Large tenants**: assign [more partitions](hot-tenants.md) to a tenant before it needs more than one core of a projector.`,
  ].join('\n');
}

function coresOf(cores: number, memoryBytes: number): string {
  return `${grouped(cores)} ${cores === 1 ? 'core' : 'cores'}, ${memoryOf(memoryBytes)}`;
}

function memoryOf(bytes: number): string {
  return `${(bytes / GIB).toPrecision(2)} GiB`;
}

const UNITS = ['GB', 'TB', 'PB'];

function bytesOf(bytes: number): string {
  let value = bytes / 1e9;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value.toPrecision(value < 100 ? 2 : 3)} ${UNITS[unit]}`;
}
