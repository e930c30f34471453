/**
 * The trails of bug reports: each report's events in the order of their time. A trail and the place in the stream are saved
 * to one file in one step, so that neither is ahead of the other.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** The fields of a linked event that a trail shows; the message has more. */
export interface LinkChange {
  readonly linkId: string;
  readonly kind: 'linked' | 'unlinked';
  readonly version: number;
  readonly reportId: string;
  readonly source: string;
  readonly event: { readonly eventType: string; readonly occurredAt: string };
}

export interface Trails {
  /** The place to resume the stream at; undefined: its start. */
  readonly token: string | undefined;
  /** False for a change that is not newer than the known state of its link: it came twice, or late. */
  apply(change: LinkChange): boolean;
  print(reportId: string): void;
  save(token?: string): void;
}

export function openTrails(file: string): Trails {
  const saved: Saved = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { links: [] };
  const links = new Map(saved.links.map((link) => [link.linkId, link]));
  return {
    token: saved.token,
    apply: ({ linkId, kind, version, reportId, source, event: { eventType, occurredAt } }) => {
      const last = links.get(linkId);
      if (last !== undefined && version <= last.version) return false;
      links.set(linkId, { linkId, kind, version, reportId, source, event: { eventType, occurredAt } });
      return true;
    },
    print: (reportId) => {
      const trail = [...links.values()].filter((link) => link.reportId === reportId);
      console.log([`report ${reportId}`, ...trail.toSorted(byTime).map(lineOf)].join('\n'));
    },
    save: (token) => {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(`${file}.new`, JSON.stringify({ token, links: [...links.values()] } satisfies Saved));
      renameSync(`${file}.new`, file);
    },
  };
}

interface Saved {
  readonly token?: string | undefined;
  readonly links: readonly LinkChange[];
}

/** Drops the Z, so that the shorter of two times that begin alike sorts first. */
function byTime({ event: a }: LinkChange, { event: b }: LinkChange): number {
  const [left, right] = [a.occurredAt.slice(0, -1), b.occurredAt.slice(0, -1)];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Quotes an event's type, which is any text, so that it cannot pretend to be another line. */
function lineOf({ kind, source, event: { eventType, occurredAt } }: LinkChange): string {
  return `  ${occurredAt}  ${JSON.stringify(eventType)}  ${source}${kind === 'unlinked' ? ' - unlinked' : ''}`;
}
