/**
 * Tests a real registry. Versions of a message can read each other, incompatible versions are rejected, and an outage loses no
 * records.
 */
import { randomUUID } from 'node:crypto';
import { connect, createServer, type Socket } from 'node:net';
import { aLinkedEvent, anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { type MessageContract, messageContract } from '@questlog/schemas/topics/contract';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { expect, onTestFinished, test } from 'vitest';
import { describeKafka } from '../log/kafka/testing/engines.ts';
import { Invalid, StartRefused, Unavailable } from '../process/errors.ts';
import { createCodec, type SchemaRegistry } from './registry.ts';
import { registryAt } from './testing/registryStub.ts';

const payload = Buffer.from('{"a":1e400,"ü":-0}');

describeKafka('the registry', ({ registryUrl }) => {
  /** Returns a prefix for the subjects of one test. */
  const aPrefix = (): string => `${randomUUID()}.`;
  /** Returns a registry client with its own cache, as each process has. */
  const aProcess = (subjectPrefix: string, url = registryUrl): SchemaRegistry =>
    registryAt(url, { subjectPrefix, startTimeoutMs: 20_000 });

  test('the next version of events reads this one’s records', async () => {
    const prefix = aPrefix();
    const now = await createCodec(aProcess(prefix), eventsAccepted);
    const next = await createCodec(aProcess(prefix), withField(eventsAccepted, REGION));
    const message = anEventsAccepted({ events: [{ payload }, {}] });
    const read = await next.decode(now.encode(message));
    expect(read).toMatchObject({ appendId: message.appendId, region: null });
    expect(read.events[0]?.payload.equals(payload)).toBe(true);
  });

  test('linked events are read across versions in both directions', async () => {
    const prefix = aPrefix();
    const now = await createCodec(aProcess(prefix), linkedEvents);
    const next = await createCodec(aProcess(prefix), withField(linkedEvents, REGION));
    const link = aLinkedEvent({ event: { payload } });
    expect(await next.decode(now.encode(link))).toMatchObject({ linkId: link.linkId, region: null });
    const read = await now.decode(next.encode({ ...link, region: 'eu' }));
    expect(read.linkId).toBe(link.linkId);
    expect(read.event.payload.equals(payload)).toBe(true);
  });

  test.each<[what: string, contract: MessageContract<unknown>, field: Field]>([
    ['events with a field that old records lack', eventsAccepted, { name: 'shard', type: 'int' }],
    ['linked events with such a field', linkedEvents, { name: 'shard', type: 'int' }],
  ])('rejects a start with %s and names the subject', async (_, contract, field) => {
    const prefix = aPrefix();
    const id = await registerOf(aProcess(prefix), contract);
    const error = await registerOf(aProcess(prefix), withField(contract, field)).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(StartRefused);
    expect(String(error)).toContain(`rejects a schema for ${prefix}${contract.subject}: `);
    expect(String(error)).not.toContain('\n');
    expect(await registerOf(aProcess(prefix), contract)).toBe(id);
  });

  test('linked events must not lose a field that an old reader needs', async () => {
    const without = (contract: MessageContract<unknown>): MessageContract<unknown> =>
      changed(contract, (fields) => fields.filter(({ name }) => name !== 'projectId'));
    const prefix = aPrefix();
    await registerOf(aProcess(prefix), linkedEvents);
    await registerOf(aProcess(prefix), eventsAccepted);
    await expect(registerOf(aProcess(prefix), without(linkedEvents))).rejects.toBeInstanceOf(StartRefused);
    await registerOf(aProcess(prefix), without(eventsAccepted));
  });

  test('a third version must read the first one, too', async () => {
    const prefix = aPrefix();
    await registerOf(aProcess(prefix), withField(eventsAccepted, { ...REGION, type: ['null', 'long'] }));
    await registerOf(aProcess(prefix), eventsAccepted);
    const third = withField(eventsAccepted, { ...REGION, type: ['null', 'string'] });
    await expect(registerOf(aProcess(prefix), third)).rejects.toBeInstanceOf(StartRefused);
  });

  test('processes that start at the same time get one id', async () => {
    const prefix = aPrefix();
    const starts = Array.from({ length: 6 }, () => registerOf(aProcess(prefix), eventsAccepted));
    expect(new Set(await Promise.all(starts)).size).toBe(1);
  });

  test('rejects a subject that accepts any schema', async () => {
    const prefix = aPrefix();
    const subject = `${prefix}${eventsAccepted.subject}`;
    await send('POST', `${registryUrl}/subjects/${subject}/versions`, { schema: eventsAccepted.schema });
    await send('PUT', `${registryUrl}/config/${subject}`, { compatibility: 'NONE' });
    await expect(registerOf(aProcess(prefix), eventsAccepted)).rejects.toThrow(
      /has the compatibility NONE .* set it to BACKWARD_TRANSITIVE$/,
    );
  });

  test('an outage delays only unknown schemas, and dead-letters nothing', async () => {
    const cable = await aCable(registryUrl);
    const prefix = aPrefix();
    const now = await createCodec(aProcess(prefix, cable.url), linkedEvents);
    const link = aLinkedEvent({ event: { payload } });
    const known = await createCodec(aProcess(prefix), withField(linkedEvents, REGION));
    const ofKnown = known.encode({ ...link, region: 'eu' });
    expect(await now.decode(ofKnown)).toMatchObject({ linkId: link.linkId });
    const later = await createCodec(aProcess(prefix), withField(linkedEvents, { ...REGION, name: 'realm' }));
    const ofLater = later.encode({ ...link, region: 'eu' });

    cable.cut();
    await expect(now.decode(ofLater)).rejects.toBeInstanceOf(Unavailable);
    expect(await now.decode(ofKnown)).toMatchObject({ linkId: link.linkId });
    expect(await now.decode(now.encode(link))).toMatchObject({ linkId: link.linkId });
    cable.mend();
    expect(await now.decode(ofLater)).toMatchObject({ linkId: link.linkId });
  });

  test('requests an unknown id once that invalid records name 100 times', async () => {
    const cable = await aCable(registryUrl);
    const codec = await createCodec(aProcess(aPrefix(), cable.url), linkedEvents);
    const garbage = Buffer.from([0, 0x7f, 0xff, 0xff, 0xff, 1]);
    const before = cable.connections;
    for (let i = 0; i < 100; i++) await expect(codec.decode(garbage)).rejects.toBeInstanceOf(Invalid);
    expect(cable.connections - before).toBe(1);
  });
});

const REGION = { name: 'region', type: ['null', 'string'], default: null };

interface Field {
  readonly name: string;
  readonly type: unknown;
}

async function send(method: string, url: string, body: object): Promise<void> {
  const headers = { 'Content-Type': 'application/vnd.schemaregistry.v1+json' };
  const answer = await fetch(url, { method, headers, body: JSON.stringify(body) });
  expect(answer.status, await answer.text()).toBe(200);
}

function registerOf<T>(registry: SchemaRegistry, contract: MessageContract<T>): Promise<number> {
  return registry.register(contract.subject, contract.schema, contract.compatibility);
}

function withField<T>(
  contract: MessageContract<T>,
  field: Field,
): MessageContract<T & { region?: string | null }> {
  return changed(contract, (fields) => [...fields, field]);
}

function changed<Next>(
  contract: MessageContract<unknown>,
  change: (fields: Field[]) => Field[],
): MessageContract<Next> {
  const schema = JSON.parse(contract.schema);
  const next = { ...schema, fields: change(schema.fields) };
  return messageContract<Next>(contract.topic, next, contract.compatibility);
}

/** Opens a proxy to the registry. After `cut`, the proxy resets all connections until `mend` is called. */
async function aCable(
  registryUrl: string,
): Promise<{ url: string; connections: number; cut(): void; mend(): void }> {
  const { hostname, port, pathname, protocol } = new URL(registryUrl);
  const open = new Set<Socket>();
  let isCut = false;
  const server = createServer((near) => {
    cable.connections++;
    if (isCut) return void near.resetAndDestroy();
    const far = connect(Number(port || (protocol === 'https:' ? 443 : 80)), hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => open.delete(from));
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const own = typeof address === 'object' && address !== null ? address.port : 0;
  const drop = (): void => {
    for (const socket of open) socket.destroy();
  };
  onTestFinished(() => {
    drop();
    server.close();
  });
  const cable = {
    url: `${protocol}//127.0.0.1:${own}${pathname}`,
    connections: 0,
    cut: () => {
      isCut = true;
      drop();
    },
    mend: () => {
      isCut = false;
    },
  };
  return cable;
}
