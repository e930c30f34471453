/**
 * `schemas/readers`: the schemas of the topics for readers that generate classes. The registered schemas share the namespace
 * `questlog.v1` and several have a record `Event`; here each subject has a namespace of its own. Aliases name the registered types.
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

/** The files of `schemas/readers` with their texts, by their paths. */
export function readerSchemas(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    CONTRACTS.map(({ topic, subject, schema }) => {
      const { namespace, ...rest } = JSON.parse(schema);
      const [, name = ''] = /^questlog\.([a-z-]+)\.v1$/.exec(topic) ?? [];
      const { type, name: record, ...fields } = withAliases(rest, namespace);
      // A Java package: without hyphens.
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
