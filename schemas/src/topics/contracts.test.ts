import { randomUUID } from 'node:crypto';
import avsc from 'avsc';
import { expect, test } from 'vitest';
import { aLinkedEvent, anEventsAccepted, aReportLink, aSession } from '../../fixtures/builders.ts';
import { frame, parseSchema, parseUnchecked, unframe } from './contract.ts';
import { type DirectoryEntry, directoryEntry } from './directoryEntry.ts';
import { type EventsAccepted, eventsAccepted } from './eventsAccepted.ts';
import { linkedEvents } from './linkedEvents.ts';
import { linkerState } from './linkerState.ts';
import { faultOf, reportLinks } from './reportLinks.ts';
import { contentDigest, sessionFault, sessionRegistered } from './sessionRegistered.ts';

test('decodes an accepted event with every byte of its payload and every microsecond', () => {
  const payload = Buffer.from('{ "a":1e400, "a":-0, "é":"\\ud800", "big":12345678901234567890 }');
  const message = anEventsAccepted({ events: [{ payload, occurredAt: 10_413_791_999_999_999n }] });
  const decoded = eventsAccepted.type.fromBuffer(eventsAccepted.type.toBuffer(message));
  expect(decoded.events[0]?.payload.equals(payload)).toBe(true);
  expect(decoded.events[0]?.occurredAt).toBe(10_413_791_999_999_999n);
});

test('a plain Avro decoder reads the payload as a string', () => {
  const message = anEventsAccepted({ events: [{ payload: Buffer.from('{"ü":1}'), occurredAt: 5n }] });
  const plain = avsc.Type.forSchema(JSON.parse(eventsAccepted.schema));
  const decoded: EventsAccepted = plain.fromBuffer(eventsAccepted.type.toBuffer(message));
  expect(decoded.events[0]).toMatchObject({ payload: '{"ü":1}', occurredAt: 5 });
});

test('decodes a record of a producer with an additional field', () => {
  const schema = JSON.parse(sessionRegistered.schema);
  schema.fields.push({ name: 'platform', type: 'string', default: '' });
  const newer = parseSchema<Record<string, unknown>>(JSON.stringify(schema));
  const session = aSession({ startedAt: 7n, lane: 3 });
  const bytes = newer.toBuffer({ ...session, platform: 'pc' });
  const resolver = sessionRegistered.type.createResolver(newer);
  expect(sessionRegistered.type.fromBuffer(bytes, resolver)).toMatchObject(session);
});

test('decodes a session with its build, its player, and every byte of its metadata', () => {
  const session = aSession({
    build: { version: '1.4.2', platform: 'Web', gitCommit: null, channel: 'dev' },
    playerExternalId: 'player-4711',
    metadata: Buffer.from('{ "a":1e400, "a":-0, "é":"\\ud800", "big":12345678901234567890 }'),
  });
  expect(sessionRegistered.type.fromBuffer(sessionRegistered.type.toBuffer(session))).toEqual(session);
});

test('the digest of a session’s content changes with the content; without content there is no digest', () => {
  const build = { version: '1.4.2', platform: 'Web', gitCommit: null, channel: null };
  const contents = [
    { build },
    { build: { ...build, gitCommit: 'dev' } },
    { build: { ...build, channel: 'dev' } },
    { playerExternalId: 'p' },
    { playerDeviceId: 'p' },
    { metadata: Buffer.from('{"n":1}') },
    { metadata: Buffer.from('{"n":1.0}') },
  ];
  expect(new Set(contents.map((of) => contentDigest(aSession(of)))).size).toBe(contents.length);
  expect(contentDigest(aSession({ build }))).toBe(contentDigest(aSession({ build: { ...build } })));
  expect(contentDigest(aSession({ buildId: randomUUID(), startedAt: 7n }))).toBeNull();
});

test('frames like Confluent: a zero byte and the id, big-endian', () => {
  const framed = frame(258, Buffer.from([9]));
  expect([...framed]).toEqual([0, 0, 0, 1, 2, 9]);
  expect(unframe(framed)).toEqual({ schemaId: 258, body: Buffer.from([9]) });
  expect(unframe(Buffer.from([1, 0, 0, 0, 0, 9]))).toBeUndefined();
});

test('decodes a directory entry as a tenant, a project, or a token', () => {
  const entry: DirectoryEntry = {
    tenant: { id: randomUUID(), name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1 },
    project: null,
    token: null,
  };
  expect(directoryEntry.type.fromBuffer(directoryEntry.type.toBuffer(entry))).toMatchObject(entry);
});

test.each([
  ['a UUID', { tenantId: 'acme' }],
  ['a time of this century', { receivedAt: 1e14 }],
  ['a time of this century', { receivedAt: -1 }],
])('rejects a record in which %s is invalid', (_, foreign) => {
  const bytes = eventsAccepted.type.toBuffer(anEventsAccepted(foreign));
  expect(() => eventsAccepted.type.fromBuffer(bytes)).toThrow(/logical type/);
});

test('a time that no table can store does not decode', () => {
  const message = anEventsAccepted({ events: [{ occurredAt: 10_413_792_000_000_000n }] });
  expect(() => eventsAccepted.type.fromBuffer(eventsAccepted.type.toBuffer(message))).toThrow(/1900 to 2299/);
});

test('decodes a sequence exactly; an invalid sequence does not decode', () => {
  const readBack = (sequence: number) => {
    const bytes = eventsAccepted.type.toBuffer(anEventsAccepted({ events: [{ sequence }] }));
    return eventsAccepted.type.fromBuffer(bytes).events[0]?.sequence;
  };
  for (const sequence of [1, 2 ** 32, Number.MAX_SAFE_INTEGER]) expect(readBack(sequence)).toBe(sequence);
  for (const sequence of [0, -1, 2 ** 53]) expect(() => readBack(sequence)).toThrow(/outside 1 to 2\^53 - 1/);
});

test('decodes a report in the linker’s state unchanged', () => {
  const record = aReportLink({
    eventIds: [randomUUID()],
    occurredAt: 5n,
    requestDigest: Buffer.alloc(32, 7),
  });
  const report = { record, offset: 7, phase: 'open', askAt: 9, closesAt: 10 } as const;
  const nothing = { retraction: null, late: null, appends: null, position: null, sessionLinks: null };
  const entry = { report, ...nothing };
  expect(linkerState.type.fromBuffer(linkerState.type.toBuffer(entry))).toMatchObject(entry);
});

test('decodes a report link with only the required fields with the defaults', () => {
  const { tenantId, projectId, reportId } = aReportLink();
  const schema = JSON.parse(reportLinks.schema);
  const required = ['kind', 'tenantId', 'projectId', 'reportId', 'receivedAt', 'eventIds'];
  schema.fields = schema.fields.filter((field: { name: string }) => required.includes(field.name));
  const foreign = parseSchema<Record<string, unknown>>(JSON.stringify(schema));
  const eventIds = [randomUUID()];
  const bytes = foreign.toBuffer({ kind: 'filed', tenantId, projectId, reportId, receivedAt: 1, eventIds });
  const record = reportLinks.type.fromBuffer(bytes, reportLinks.type.createResolver(foreign));
  expect(record).toMatchObject(aReportLink({ tenantId, projectId, reportId, receivedAt: 1, eventIds }));
});

test.each([
  ['no session, no event and no content', {}, /needs a session, an event, or content/],
  ['a window of more than a day', { windowBeforeMs: 86_400_001, eventIds: [randomUUID()] }, /windowBeforeMs/],
  ['a negative window', { windowAfterMs: -1, eventIds: [randomUUID()] }, /windowAfterMs/],
  ['a lane that no session has', { sessionLane: 4096, sessionId: randomUUID() }, /sessionLane/],
  ['too many events', { eventIds: Array.from({ length: 2001 }, () => randomUUID()) }, /at most 2000/],
])('rejects a report link with %s', (_, of, fault) => {
  expect(faultOf(aReportLink(of))).toMatch(fault);
});

test('decodes a link with the raw payload of its event', () => {
  const payload = Buffer.from('{"a":1e400,"a":-0}');
  const link = aLinkedEvent({ event: { payload } });
  const decoded = linkedEvents.type.fromBuffer(linkedEvents.type.toBuffer(link));
  expect(decoded).toMatchObject({ ...link, event: { ...link.event, payload: expect.anything() } });
  expect(decoded.event.payload.equals(payload)).toBe(true);
});

test('rejects a session whose metadata is not a JSON object, because answers contain its bytes', () => {
  const faultOf = (text: string) => sessionFault(aSession({ metadata: Buffer.from(text) }));
  expect([faultOf('{"a":1e400}'), sessionFault(aSession())]).toEqual([undefined, undefined]);
  for (const text of ['', '[]', 'null', '{"a":1},"id":"forged"', '{'])
    expect(faultOf(text)).toMatch(/JSON object/);
});

const array = (items: avsc.Schema): avsc.schema.DefinedType => ({ type: 'array', items });
const map = (values: avsc.Schema): avsc.schema.DefinedType => ({ type: 'map', values });
const recordOf = (...types: avsc.Schema[]): avsc.schema.RecordType => {
  const fields = types.map((type, i) => ({ name: `f${i}`, type }));
  return { type: 'record', name: `R${types.length}`, fields };
};

/** Decodes the body in four ways: with the same schema, with an additional field, without the first field, and unchecked. */
function readingsOf(written: avsc.schema.RecordType, body: Buffer) {
  const writer = parseSchema(JSON.stringify(written));
  const one = { name: 'one', type: 'int', default: 1 };
  const others = [
    [...written.fields, one],
    [...written.fields.slice(1), one],
  ].map((fields) => {
    const reader = parseSchema<object>(JSON.stringify({ ...written, fields }));
    return () => reader.fromBuffer(body, reader.createResolver(writer));
  });
  const unchecked = parseUnchecked(JSON.stringify(written));
  return [() => writer.fromBuffer(body), ...others, () => unchecked.fromBuffer(body)];
}

/** Number of items 2^52 as an Avro long. `MANY_WITH_SIZE` is -2^52, which announces the size of the block. */
const MANY = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
const MANY_WITH_SIZE = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f];

test.each<[string, avsc.Schema, number[]]>([
  ['an array', array('int'), MANY],
  ['an array of nulls', array('null'), MANY],
  ['an array of two nulls', array('null'), [4, 0, 2]],
  ['an array of empty records', array(recordOf()), [4, 0, 2]],
  ['a map', map('string'), MANY],
  ['a second block of an array', array('int'), [2, 7, ...MANY]],
  ['a second block of a map', map('int'), [2, 2, 97, 7, ...MANY]],
  ['an item beyond the end and another', array('string'), [4, 64, 97]],
  ['a block with its size', array('int'), [...MANY_WITH_SIZE, 2]],
  ['a block whose size leads back to it', array('int'), [3, 3]],
  ['an array in a record in an array', array(recordOf(array('int'))), [2, ...MANY]],
  ['a map in an array', array(map('int')), [2, ...MANY]],
  ['an optional array', ['null', array('int')], [2, ...MANY]],
  ['a branch of three', ['null', 'string', map('int')], [4, ...MANY]],
])('rejects %s with more items than bytes immediately, also when the field is skipped', (_, type, body) => {
  for (const reading of readingsOf(recordOf(type, 'int'), Buffer.from(body)))
    expect(reading).toThrow('more items than bytes');
});

test('decodes and skips arrays and maps block by block, with or without the size of a block', () => {
  const list = [4, 2, 1, 3, 4, 4, 6, 0];
  const bag = [2, 2, 97, 2, 1, 6, 2, 98, 4, 0];
  const content = { f1: { a: 1, b: 2 }, f2: 9 };
  const body = Buffer.from([...list, ...bag, 18]);
  const [own, newer, without, unchecked] = readingsOf(recordOf(array('int'), map('int'), 'int'), body);
  const whole = { f0: [1, -1, 2, 3], ...content };
  for (const reading of [own, newer, unchecked]) expect(reading?.()).toMatchObject(whole);
  expect(without?.()).toMatchObject(content);
  const [, , bagSkipped] = readingsOf(recordOf(map('int'), 'int'), Buffer.from([...bag, 18]));
  expect(bagSkipped?.()).toMatchObject({ f1: 9 });
});

test('decodes a recursive schema, which ends with its bytes', () => {
  const fields = ['left', 'right'].map((name) => ({ name, type: ['Tree', 'null'] }));
  const tree = parseSchema(JSON.stringify({ type: 'record', name: 'Tree', fields }));
  const leaf = { left: null, right: null };
  expect(tree.fromBuffer(Buffer.from([0, 2, 2, 2]))).toMatchObject({ left: leaf, right: null });
  expect(() => tree.fromBuffer(Buffer.from([0]))).toThrow(RangeError);
});
