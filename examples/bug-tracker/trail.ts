/**
 * The trails of bug reports: the events of each report, ordered by time. The trails and the position in the stream are saved
 * atomically in one file, so that they are always consistent.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** The fields of a linked event that a trail shows. The message has further fields. */
export interface LinkChange {
  readonly linkId: string;
  readonly kind: 'linked' | 'unlinked';
  readonly version: number;
  readonly reportId: string;
  readonly source: string;
  readonly event: { readonly eventType: string; readonly occurredAt: string };
}

export interface Trails {
  /** Position at which to resume the stream. Undefined for the start of the stream. */
  readonly token: string | undefined;
  /** Applies a change. Returns false if the change is a duplicate or older than the saved version of its link. */
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

/** Compares times without the Z, so that `12:00:00Z` sorts before `12:00:00.5Z`. */
function byTime({ event: a }: LinkChange, { event: b }: LinkChange): number {
  const [left, right] = [a.occurredAt.slice(0, -1), b.occurredAt.slice(0, -1)];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Formats a line. Quotes the event type, because it can contain line breaks. */
function lineOf({ kind, source, event: { eventType, occurredAt } }: LinkChange): string {
  return `  ${occurredAt}  ${JSON.stringify(eventType)}  ${source}${kind === 'unlinked' ? ' - unlinked' : ''}`;
}
