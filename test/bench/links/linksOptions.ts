/** Parses the flags of the benchmark of links. */
import { parseArgs } from 'node:util';

export const PARTS = ['alone', 'live', 'memory', 'changelog', 'failover'] as const;
export type Part = (typeof PARTS)[number];

export interface LinksOptions {
  readonly events: number;
  readonly reports: number;
  /** Sessions of the load over HTTP. */
  readonly sessions: number;
  /** Parts to measure. The failover needs brokers. */
  readonly parts: readonly Part[];
  /** Bootstrap brokers of Kafka, `host:port`, separated by commas; empty if there are none. */
  readonly brokers: string;
  /** MiB of the changelog for the failover, and the number of partitions. */
  readonly mebibytes: number;
  readonly partitions: number;
}

export function linksOptions(args: readonly string[], brokers = ''): LinksOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      events: { type: 'string', default: '1000000' },
      reports: { type: 'string', default: '20000' },
      sessions: { type: 'string', default: '20000' },
      mebibytes: { type: 'string', default: '1024' },
      partitions: { type: 'string', default: '100' },
      only: { type: 'string' },
    },
  });
  const isPossible = (part: Part): boolean => part !== 'failover' || brokers !== '';
  const parts = PARTS.filter((part) => (values.only === undefined ? isPossible(part) : values.only === part));
  if (parts.length === 0) throw new Error(`--only: one of ${PARTS.join(', ')}`);
  return {
    events: atLeast(1_000, 'events', values.events),
    reports: atLeast(2, 'reports', values.reports),
    sessions: atLeast(1, 'sessions', values.sessions),
    parts,
    brokers,
    mebibytes: atLeast(1, 'mebibytes', values.mebibytes),
    partitions: atLeast(1, 'partitions', values.partitions),
  };
}

function atLeast(least: number, name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`--${name}: a whole number, ${least} at least`);
}
