/**
 * Generates `schemas/readers`: the schemas of the topics for readers that generate classes. The registered schemas share
 * the namespace `questlog.v1`, and several have a record `Event`. The generated schemas have one namespace per subject.
 * Aliases name the registered types.
 */
import { auditEntry } from '@questlog/schemas/topics/auditEntry';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { directoryEntry } from '@questlog/schemas/topics/directoryEntry';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { linkerState } from '@questlog/schemas/topics/linkerState';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';

export const READERS = 'schemas/readers';

export const CONTRACTS: readonly Pick<MessageContract<unknown>, 'topic' | 'subject' | 'schema'>[] = [
  eventsAccepted,
  linkedEvents,
  reportLinks,
  sessionRegistered,
  deadLetter,
  auditEntry,
  directoryEntry,
  linkerState,
];

/** Returns the texts of the files of `schemas/readers`, by path. */
export function readerSchemas(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    CONTRACTS.map(({ topic, subject, schema }) => {
      const { namespace, ...rest } = JSON.parse(schema);
      const [, name = ''] = /^questlog\.([a-z-]+)\.v1$/.exec(topic) ?? [];
      const { type, name: record, ...fields } = withAliases(rest, namespace);
      // The name of a Java package has no hyphens.
      const own = { type, name: record, namespace: `${namespace}.${name.replaceAll('-', '')}`, ...fields };
      return [`${READERS}/${subject}.avsc`, `${JSON.stringify(own, null, 2)}\n`];
    }),
  );
}

type Json = Record<string, unknown>;

function withAliases(schema: Json, namespace: string): Json {
  const within = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(within);
    if (typeof part !== 'object' || part === null) return part;
    return withAliases(part as Json, namespace);
  };
  const parts = Object.entries(schema).map(([key, part]) => [key, key === 'default' ? part : within(part)]);
  const isNamed = ['record', 'enum', 'fixed'].includes(String(schema['type']));
  const aliases = isNamed ? { aliases: [`${namespace}.${schema['name']}`] } : {};
  return { ...Object.fromEntries(parts), ...aliases };
}
