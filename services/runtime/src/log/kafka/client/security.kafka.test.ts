/** A cluster that requires TLS and authentication. The tests use every authentication method and check the error messages. */
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { createServer } from 'node:tls';
import kafkajs from 'kafkajs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { StartRefused, Unavailable } from '../../../process/errors.ts';
import {
  aMember,
  aName,
  aRecord,
  nextRecords,
  readToEnd,
  textOf,
  textsToEnd,
  until,
  untilAssigned,
  untilReads,
} from '../../contract/harness.ts';
import type { Log } from '../../log.ts';
import { type Authority, anAuthority } from '../testing/certificates.ts';
import { aTopic } from '../testing/deployment.ts';
import { STRANGER, USER } from '../testing/securedBrokerSettings.ts';
import { securedDeployments } from '../testing/securedDeployments.ts';
import type { KafkaConnection, KafkaSasl } from './kafkaClient.ts';

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs;

describe('a cluster with TLS, SASL, and access control', () => {
  const there = securedDeployments();
  const { aPrefix, aLog, withSasl, withPassword, withToken, withCertificate } = there;
  const deny = (resourceName: string, operation: number): Promise<unknown> =>
    there.broker.admin((admin) =>
      admin.createAcls({
        acl: [
          {
            resourceType: AclResourceTypes.TOPIC,
            resourceName,
            resourcePatternType: ResourcePatternTypes.LITERAL,
            principal: `User:${USER}`,
            host: '*',
            operation,
            permissionType: AclPermissionTypes.DENY,
          },
        ],
      }),
    );

  test.each<[way: string, connection: () => KafkaConnection]>([
    ['SCRAM-SHA-256', () => withSasl(withPassword('scram-sha-256'))],
    ['SCRAM-SHA-512', () => withSasl(withPassword('scram-sha-512'))],
    ['PLAIN', () => withSasl(withPassword('plain'))],
    ['OAUTHBEARER', () => withSasl(withToken())],
    ['a client certificate', () => withCertificate()],
  ])('supports all operations of a deployment with %s', async (_, connection) => {
    const log = await aLog(connection());
    const [topic, results] = [await aTopic(log), await aTopic(log)];
    await log.append(topic, 0, [aRecord('appended')]);
    expect(await textsToEnd(log, topic)).toEqual([['appended']]);

    const group = aName('group');
    const member = await aMember(log, group, topic);
    await untilAssigned(member, 1);
    const owned = member.current(0);
    expect((await nextRecords(owned)).map(textOf)).toEqual(['appended']);
    await owned.commit(topic, { offset: 0, metadata: 'started' });
    expect(await log.committed(group, topic)).toEqual([{ offset: 0, metadata: 'started' }]);

    const producer = await log.transactionalProducer(aName('producer'));
    await producer.commit({
      appends: [{ topic: results, partition: 0, records: [aRecord('result')] }],
      commits: [{ owned, topic, committed: { offset: 1, metadata: 'done' } }],
    });
    await untilReads(log, results, [['result']]);
    await until(async () => (await log.committed(group, topic))[0]?.offset === 1);
  });

  test.each<[what: string, sasl: (wrong: string) => KafkaSasl, said: RegExp]>([
    [
      'password (SCRAM)',
      (wrong) => withPassword('scram-sha-512', wrong),
      /rejects the credentials of this process: .*SCRAM/,
    ],
    [
      'password (PLAIN)',
      (wrong) => withPassword('plain', wrong),
      /rejects the credentials of this process: .*PLAIN/,
    ],
    ['client secret', withToken, /the token server at \S+ rejects the credentials \(status 401\)$/],
  ])('rejects a start with a wrong %s in a message that does not contain it', async (_, sasl, said) => {
    const line = await rejectionOf(aLog(withSasl(sasl('wr0ng'))));
    expect(line).toMatch(said);
    expect(line).not.toContain('wr0ng');
  });

  test.each<[what: string, connection: () => KafkaConnection, said: RegExp]>([
    [
      'with another certificate authority',
      () => ({ ...withSasl(withPassword('plain')), ssl: { ca: otherAuthority().caPem } }),
      /no trusted connection over TLS: unable to verify the first certificate$/,
    ],
    [
      'with the system’s certificate authorities',
      () => ({ ...withSasl(withPassword('plain')), ssl: true }),
      /no trusted connection over TLS: unable to verify the first certificate$/,
    ],
    [
      'without TLS',
      () => ({ ...withSasl(withPassword('plain')), ssl: false }),
      /the response is not from Kafka; TLS may be required$/,
    ],
    [
      'without a client certificate',
      () => ({ ...withCertificate(), ssl: { ca: there.broker.authority.caPem } }),
      /rejects the client certificate or requires one: .*alert bad certificate$/,
    ],
    [
      'with a client certificate of another authority',
      () => withCertificate(otherAuthority().issue(USER)),
      /rejects the client certificate or requires one: .*alert certificate unknown$/,
    ],
    [
      'with the key of another certificate',
      () => withCertificate({ ...there.broker.client, keyPem: there.broker.authority.issue(USER).keyPem }),
      /no trusted connection over TLS: key values mismatch$/,
    ],
    [
      'with SASL at a listener without SASL',
      () => ({ ...withCertificate(), sasl: withPassword('plain') }),
      /Kafka rejects the credentials of this process: /,
    ],
  ])('rejects a start %s', async (_, connection, said) => {
    expect(await rejectionOf(aLog(connection()))).toMatch(said);
  });

  test('rejects a start at a broker whose certificate has another host name', async () => {
    const { certPem: cert, keyPem: key } = there.broker.authority.issueForElsewhere('broker');
    const server = createServer({ cert, key });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const start = aLog(withSasl(withPassword('plain'), `127.0.0.1:${port}`));
    expect(await rejectionOf(start)).toMatch(/no trusted connection over TLS: .*is not in the cert's list/);
  });

  test('reports the likely cause if a broker closes the connection', async () => {
    const { sasl: _, ...withoutSasl } = withSasl(withPassword('plain'));
    const failure = aLog(withoutSasl);
    await expect(failure).rejects.toBeInstanceOf(Unavailable);
    await expect(failure).rejects.toThrow(/without a response; SASL may be required$/);
  });

  test('rejects a start without permission to create topics and names a topic', async () => {
    const line = await rejectionOf(aLog(withSasl({ mechanism: 'scram-sha-256', ...STRANGER }), 'theirs-'));
    expect(line).toMatch(/rejected the creation of the topic theirs-questlog\.log\.v1: Not authorized/);
  });

  test('names the topic of an append without permission', async () => {
    const prefix = aPrefix();
    const log = await aLog(withSasl(withPassword('scram-sha-256')), prefix);
    const topic = await aTopic(log);
    await log.append(topic, 0, [aRecord('allowed')]);
    await deny(`${prefix}${topic}`, AclOperationTypes.WRITE);
    const denied = log.append(topic, 0, [aRecord('denied')]);
    await expect(denied).rejects.toThrow(`${prefix}${topic}/0`);
    await expect(denied).rejects.toThrow(/not authorized/i);
    await expect(denied).rejects.not.toBeInstanceOf(Unavailable);
  });

  test('rejects a start without permission to read a topic and names the topic', async () => {
    const [prefix, connection] = [aPrefix(), withSasl(withPassword('scram-sha-256'))];
    const identity = `${prefix}questlog.log.v1`;
    await deny(identity, AclOperationTypes.READ);
    const said = (topic: string) => new RegExp(`not authorized to read the topic ${topic}: Not authorized`);
    expect(await rejectionOf(aLog(connection, prefix))).toMatch(said(identity));
    // The test includes topics that services read at startup, and permissions that are revoked later.
    const own = aPrefix();
    const log = await aLog(connection, own);
    const topic = await aTopic(log);
    const before = await log.tail({ topic, from: 'earliest', onBatch: () => undefined });
    await log.append(topic, 0, [aRecord('allowed')]);
    await before.waitForOffsets([1]);
    await deny(`${own}${topic}`, AclOperationTypes.READ);
    await expect(before.failed).rejects.toThrow(said(`${own}${topic}`));
    await expect(before.failed).rejects.not.toBeInstanceOf(StartRefused);
    expect(await rejectionOf(readToEnd(log, topic))).toMatch(said(`${own}${topic}`));
  });

  test.each<[way: string, sasl: () => KafkaSasl]>([
    ['SCRAM-SHA-512', () => withPassword('scram-sha-512')],
    ['OAUTHBEARER', withToken],
  ])('loses no append when sessions end, with %s', async (_, sasl) => {
    const log = await aLog(withSasl(sasl(), there.broker.shortSessions));
    const topic = await aTopic(log, { partitions: 3 });
    const before = there.broker.reauthentications();
    const loads = [0, 1, 2].map((partition) =>
      appendWhile(log, topic, partition, () => there.broker.reauthentications() < before + SESSIONS),
    );
    const appended = await Promise.all(loads);
    const read = (await readToEnd(log, topic)).map((records) =>
      records.map((record) => textOf(record)?.split(' ')[0]),
    );
    expect(read).toEqual(appended);
  });

  test('survives a token server that rejects it for a while', async () => {
    const log = await aLog(withSasl(withToken(), there.broker.shortSessions));
    const topic = await aTopic(log);
    await log.append(topic, 0, [aRecord('before')]);
    there.tokens.isRejecting = true;
    const failures: unknown[] = [];
    await until(async () => {
      await log.append(topic, 0, [aRecord('meanwhile')]).catch((error: unknown) => failures.push(error));
      return failures.length > 0;
    });
    there.tokens.isRejecting = false;
    expect(failures[0]).toBeInstanceOf(Unavailable);
    await log.append(topic, 0, [aRecord('after')]);
    expect((await textsToEnd(log, topic))[0]?.at(-1)).toBe('after');
  });
});

/** Number of broker sessions for which the load runs. */
const SESSIONS = 6;
/** Pause between two appends. It leaves CPU time for other tests. */
const PACE_MS = 10;

/**
 * Makes one append after another while `continues` returns true. Some records are large enough for compression.
 * @returns the number at the start of each record.
 */
async function appendWhile(
  log: Log,
  topic: string,
  partition: number,
  continues: () => boolean,
): Promise<string[]> {
  const numbers: string[] = [];
  for (let number = 0; continues(); number += 1) {
    await log.append(topic, partition, [aRecord(`${number} ${'☃'.repeat((number % 3) * 5_000)}`)]);
    numbers.push(String(number));
    await delay(PACE_MS);
  }
  return numbers;
}

function otherAuthority(): Authority {
  const authority = anAuthority('another authority');
  if (authority === undefined) throw new Error('there is no openssl');
  return authority;
}

/** Returns the error message of a start that is rejected. */
async function rejectionOf(start: Promise<unknown>): Promise<string> {
  const error = await start.catch((thrown: unknown) => thrown);
  if (!(error instanceof StartRefused)) throw new Error('the start was not rejected', { cause: error });
  expect(error.message).not.toContain('\n');
  return error.message;
}
