/**
 * Tests that data of released schemas stays readable, and that old readers can read `linked-events`. A release that changes a
 * schema adds the new schema to `schemas/released/<subject>` with the next number.
 */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import avsc from 'avsc';
import { expect, test } from 'vitest';
import { aLinkedEvent, anEventsAccepted, aReportLink, aSession } from '../../fixtures/builders.ts';
import { type AuditEntry, auditEntry } from './auditEntry.ts';
import { compatibilityFault } from './compatibility.ts';
import { type MessageContract, parseSchema } from './contract.ts';
import { type DeadLetter, deadLetter } from './deadLetter.ts';
import { type DirectoryEntry, directoryEntry } from './directoryEntry.ts';
import { eventsAccepted } from './eventsAccepted.ts';
import { linkedEvents } from './linkedEvents.ts';
import { type LinkerEntry, linkerState, NO_EPOCHS } from './linkerState.ts';
import { reportLinks } from './reportLinks.ts';
import { sessionRegistered } from './sessionRegistered.ts';
import { RECORDS_VERSION, TOPICS } from './topics.ts';

const RELEASED = new URL('../../released/', import.meta.url);
const [tenantId, projectId, sessionId] = [randomUUID(), randomUUID(), randomUUID()];
const payload = Buffer.from('{ "a":1e400, "ü":-0 }');

const deadRecord: DeadLetter = {
  logId: randomUUID(),
  sourceTopic: TOPICS.events,
  sourcePartition: 3,
  sourceOffset: 9_007_199_254_740_000,
  group: 'g',
  reason: 'does not decode',
  key: tenantId,
  value: Buffer.from([0, 1, 255]),
  headers: { a: 'b' },
  deadAt: 1,
};
const asked: AuditEntry = {
  ...{ id: randomUUID(), kind: 'change', at: 1, doneAt: null, actor: 'nobody', address: '::1' },
  ...{ method: 'PATCH', route: '/admin/tenants/:id', target: tenantId, tenantId, projectId: null },
  ...{ body: '{}', before: null, after: null, status: null, code: null, count: 1 },
};
const build = { version: '1.4.2', platform: 'Web', gitCommit: null, channel: 'dev' };
const nothing: DirectoryEntry = { tenant: null, project: null, token: null };
const directory: readonly DirectoryEntry[] = [
  { ...nothing, tenant: { id: tenantId, name: 'T', monthlySoftQuota: 5, spread: 2, createdAt: 1 } },
  {
    ...nothing,
    project: {
      id: projectId,
      tenantId,
      name: 'P',
      revision: 'B',
      reportWindow: { beforeMs: 1, afterMs: 2 },
      createdAt: 3,
    },
  },
  {
    ...nothing,
    token: { id: randomUUID(), projectId, sha256: 'ab', scopes: ['read'], expiresAt: null, createdAt: 3 },
  },
];
const report = aReportLink({ sessionId, sessionLane: 3, occurredAt: 5n, requestDigest: Buffer.alloc(32, 7) });
const stateless: LinkerEntry = {
  ...{ report: null, retraction: null, late: null },
  ...{ appends: null, position: null, sessionLinks: null },
};
const states: readonly LinkerEntry[] = [
  { ...stateless, report: { record: report, offset: 7, phase: 'spilled', askAt: null, closesAt: 10 } },
  { ...stateless, retraction: { record: aReportLink({ kind: 'retracted' }), offset: 8 } },
  { ...stateless, late: { tenantId, projectId, sessionId, fromMicros: 1n, toMicros: 2n, offset: 9 } },
  { ...stateless, sessionLinks: { count: 3 } },
  { ...stateless, appends: { ids: [randomUUID()], since: 4 } },
  {
    ...stateless,
    position: { events: 5, reportLinks: 6, ...NO_EPOCHS, eventsEpoch: 7, reportLinksUpToEpoch: 8 },
  },
];
const idempotency = { key: randomUUID(), digest: Buffer.alloc(32, 1) };

const CASES: readonly (readonly [contract: MessageContract<unknown>, messages: readonly unknown[]])[] = [
  [
    eventsAccepted,
    [
      anEventsAccepted({
        idempotency,
        events: [
          { sessionId, payload },
          { overQuota: true, sequence: 7 },
        ],
      }),
    ],
  ],
  [
    sessionRegistered,
    [
      aSession(),
      aSession({ buildId: randomUUID(), startedAt: 7n, lane: 9 }),
      aSession({ build, playerExternalId: 'p', playerDeviceId: 'd', metadata: payload }),
    ],
  ],
  [reportLinks, [report, aReportLink({ eventIds: [randomUUID()], isForwarded: true })]],
  [linkedEvents, [aLinkedEvent({ event: { payload, sessionId } }), aLinkedEvent({ kind: 'unlinked' })]],
  [linkerState, states],
  [directoryEntry, directory],
  [auditEntry, [asked, { ...asked, doneAt: 2, after: '{}', status: 404, code: 'not_found' }]],
  [deadLetter, [deadRecord, { ...deadRecord, key: null, value: null }]],
];

test('every topic with messages has its contract in this test and a released schema', () => {
  const subjects = CASES.map(([{ subject }]) => subject).sort();
  expect(readdirSync(RELEASED).sort()).toEqual(subjects);
  expect(CASES.map(([{ topic }]) => topic).sort()).toEqual(
    Object.values(TOPICS)
      // Omits the topic of schemas. Only the embedded log uses this topic, and its records are JSON.
      .filter((topic) => topic !== TOPICS.schemas)
      .sort(),
  );
});

test.each(CASES)(
  '$subject: today’s schema may follow every released one',
  ({ subject, schema, compatibility }) => {
    for (const { version, text } of releasedOf(subject)) {
      const fault = compatibilityFault(compatibility, text, schema);
      expect(fault, `today's schema of ${subject} may not follow version ${version}`).toBeUndefined();
    }
  },
);

// Tests every contract, although the registry does not check every contract. During an upgrade or a downgrade, the previous
// version reads the records of this version.
test.each(CASES)('$subject: every released version reads today’s records', ({ subject, schema }) => {
  for (const { version, text } of releasedOf(subject)) {
    const fault = compatibilityFault('FULL_TRANSITIVE', text, schema);
    expect(fault, `version ${version} of ${subject} cannot read today's records`).toBeUndefined();
  }
});

test.each(CASES)('$subject: reads the records of every released version', (contract, messages) => {
  for (const { text } of releasedOf(contract.subject)) {
    const earlier = parseSchema<unknown>(text);
    const resolver = contract.type.createResolver(earlier);
    for (const message of messages) {
      const read = contract.type.fromBuffer(earlier.toBuffer(message), resolver);
      expect(read).toMatchObject(Object(earlier.fromBuffer(earlier.toBuffer(message))));
    }
  }
});

test('an old reader of linked events decodes today’s records', () => {
  expect(linkedEvents.compatibility).toBe('FULL_TRANSITIVE');
  const link = aLinkedEvent({ event: { payload, sessionId, sequence: 7 } });
  for (const { text } of releasedOf(linkedEvents.subject)) {
    const earlier = parseSchema<typeof link>(text);
    const read = earlier.fromBuffer(
      linkedEvents.type.toBuffer(link),
      earlier.createResolver(parseSchema(linkedEvents.schema)),
    );
    expect(read).toMatchObject({ linkId: link.linkId, kind: link.kind, reportId: link.reportId });
    expect(read.event.payload.equals(payload)).toBe(true);
  }
});

test('the version of the records increases with each changed schema', () => {
  const versions = CASES.map(([{ subject, schema }]) => {
    const released = releasedOf(subject);
    return released.length + (canonical(released.at(-1)?.text) === canonical(schema) ? 0 : 1);
  });
  const total = versions.reduce((sum, version) => sum + version, 0);
  expect(RECORDS_VERSION, `set RECORDS_VERSION of topics.ts to ${total}`).toBe(total);
});

type Field = { name: string; type: unknown; default?: unknown };

test.each<[what: string, change: (fields: Field[]) => Field[]]>([
  ['a field without a default', (fields) => [...fields, { name: 'shard', type: 'int' }]],
  ['a wider type made narrower', (fields) => retyped(fields, 'version', 'int')],
  ['another type', (fields) => retyped(fields, 'reportId', 'long')],
  ['another name', (fields) => fields.map((f) => (f.name === 'linkId' ? { ...f, name: 'id' } : f))],
  [
    'one symbol fewer',
    (fields) => retyped(fields, 'kind', { type: 'enum', name: 'LinkKind', symbols: ['linked'] }),
  ],
])('detects that %s makes stored records unreadable', (_, change) => {
  const next = changed(linkedEvents.schema, change);
  expect(compatibilityFault('BACKWARD_TRANSITIVE', linkedEvents.schema, next)).toMatch(
    /^this version cannot read that one/,
  );
});

test.each<[what: string, change: (fields: Field[]) => Field[]]>([
  ['a field left out that has no default', (fields) => fields.filter(({ name }) => name !== 'changedAt')],
  [
    'one symbol more',
    (fields) =>
      retyped(fields, 'kind', { type: 'enum', name: 'LinkKind', symbols: ['linked', 'unlinked', 'moved'] }),
  ],
])('detects that %s breaks old readers, which only linked events support', (_, change) => {
  const next = changed(linkedEvents.schema, change);
  expect(compatibilityFault('BACKWARD_TRANSITIVE', linkedEvents.schema, next)).toBeUndefined();
  expect(compatibilityFault('FULL_TRANSITIVE', linkedEvents.schema, next)).toMatch(
    /^that version cannot read this one/,
  );
});

test('a schema may gain a field with a default and lose an optional one', () => {
  const more = changed(linkedEvents.schema, (fields) => [
    ...fields,
    { name: 'note', type: ['null', 'string'], default: null },
  ]);
  expect(compatibilityFault('FULL_TRANSITIVE', linkedEvents.schema, more)).toBeUndefined();
  expect(compatibilityFault('FULL_TRANSITIVE', more, linkedEvents.schema)).toBeUndefined();
});

function releasedOf(subject: string): { version: number; text: string }[] {
  const folder = new URL(`${subject}/`, RELEASED);
  const versions = readdirSync(folder)
    .map((name) => Number(/^(\d+)\.avsc$/.exec(name)?.[1]))
    .sort((a, b) => a - b);
  expect(versions, `${fileURLToPath(folder)} holds 1.avsc, 2.avsc and so on`).toEqual(
    versions.map((_, index) => index + 1),
  );
  expect(versions).not.toEqual([]);
  return versions.map((version) => {
    return { version, text: readFileSync(new URL(`${version}.avsc`, folder), 'utf8') };
  });
}

/** Returns the schema without comments. */
function canonical(schema = '"null"'): string {
  return JSON.stringify(avsc.Type.forSchema(JSON.parse(schema)).schema());
}

function changed(schema: string, change: (fields: Field[]) => Field[]): string {
  const parsed = JSON.parse(schema);
  return JSON.stringify({ ...parsed, fields: change(parsed.fields) });
}

function retyped(fields: readonly Field[], name: string, type: unknown): Field[] {
  return fields.map((field) => (field.name === name ? { ...field, type } : field));
}
