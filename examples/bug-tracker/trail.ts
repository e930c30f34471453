/**
 * Stores the events of each report, ordered by time, and the position in the stream. A single file contains both and is
 * replaced atomically, so events and position always match.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** The fields of a linked event that the example prints. The messages of Questlog have more fields. */
export interface LinkChange {
  readonly linkId: string;
  readonly kind: 'linked' | 'unlinked';
  readonly version: number;
  readonly reportId: string;
  readonly source: string;
  readonly event: { readonly eventType: string; readonly occurredAt: string };
}

export interface Trails {
  /** Position at which the tracker continues the stream. Undefined before the first start. */
  readonly token: string | undefined;
  /** Applies a change of a link. Returns false if the saved version of the link is at least as new as the change. */
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

/** Compares times without the final Z, so that `12:00:00Z` sorts before `12:00:00.5Z`. */
function byTime({ event: a }: LinkChange, { event: b }: LinkChange): number {
  const [left, right] = [a.occurredAt.slice(0, -1), b.occurredAt.slice(0, -1)];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Formats an event as a line of text. Quotes the event type, because an event type can contain line breaks. */
function lineOf({ kind, source, event: { eventType, occurredAt } }: LinkChange): string {
  return `  ${occurredAt}  ${JSON.stringify(eventType)}  ${source}${kind === 'unlinked' ? ' - unlinked' : ''}`;
}
