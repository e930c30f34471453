/**
 * A broker lost its last records while readers have positions after these records. The tests use tails and new owners. They do
 * not use other group members, because a member whose only broker stops also loses its partition.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { type Fields, silentLogger } from '../../../process/logger.ts';
import {
  aMember,
  aName,
  aRecord,
  aTopic,
  nextRecords,
  textOf,
  until,
  untilAssigned,
} from '../../contract/harness.ts';
import { type Log, LogTruncated } from '../../log.ts';
import { PartitionHealth } from '../client/partitionHealth.ts';
import { openKafkaLog } from '../kafkaLog.ts';
import { type DamageableBroker, startDamageableBroker } from '../testing/damageableBroker.ts';
import { catalogOf, disconnectableKafka } from '../testing/disconnectableKafka.ts';
import { openTail } from './fetcher.ts';

const PREFIX = 'cuts-';
const nameOf = (name: string) => `${PREFIX}${name}`;
const broker = await startDamageableBroker();

describe.runIf(broker !== undefined)('a truncated log on Kafka', () => {
  const reported: [string, Fields | undefined][] = [];
  const tell = (event: string, fields?: Fields) => void reported.push([event, fields]);
  const logger = {
    info: tell,
    warn: tell,
    error: (event: string, _: unknown, fields?: Fields) => tell(event, fields),
  };
  let opened: Log | undefined;

  beforeAll(async () => {
    const connection = { brokers: [there().address], clientId: 'questlog-tests' };
    opened = await openKafkaLog({ connection, prefix: PREFIX, replicationFactor: 1, logger });
  });
  afterAll(async () => {
    await opened?.close();
    await broker?.stop();
  });

  test('is detected by a returning reader, even if it has more records than before', async () => {
    const topic = await aTopic(log());
    await appendEach(topic, 'a', 'b', 'c');
    const network = disconnectableKafka(there().address);
    const seen: unknown[] = [];
    const failing = new PartitionHealth(silentLogger);
    const tail = await openTail(
      {
        kafka: network.kafka,
        catalog: catalogOf(log()),
        logger: silentLogger,
        partitionHealth: failing,
        nameOf,
      },
      {
        topic,
        from: 'earliest',
        onBatch: ({ records }) => void seen.push(...records.map(textOf)),
        onTruncated: ({ partition, offset }) => void seen.push({ partition, offset }),
      },
    );
    onTestFinished(() => tail.close());
    await tail.waitForOffsets([3]);
    network.disconnect();
    await there().truncate(nameOf(topic), 0, 1);
    await appendEach(topic, 'x', 'y', 'z', '!');
    network.reconnect();
    await until(() => seen.at(-1) === '!');
    expect(seen).toEqual(['a', 'b', 'c', { partition: 0, offset: 1 }, 'x', 'y', 'z', '!']);
  });

  test('is detected by the leader epoch of a new owner', async () => {
    const topic = await aTopic(log());
    await appendEach(topic, 'a', 'b', 'c');
    const first = await aReader(topic);
    const batch = await first.read({ topic, maxRecords: 3, maxBytes: 1000, waitMs: 5000 });
    const epoch = batch?.leaderEpoch;
    expect(epoch).toBeTypeOf('number');
    await there().truncate(nameOf(topic), 0, 1);
    await appendEach(topic, 'x', 'y', 'z', '!');
    const second = await aReader(topic);
    second.seek(topic, 3, epoch);
    const failure = await nextRecords(second, topic).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LogTruncated);
    expect(failure).toMatchObject({ offset: 1, position: 3 });
    expect((await nextRecords(second, topic)).map(textOf)).toEqual(['x', 'y', 'z', '!']);
    // The broker also detects the truncation with an upper bound of the epoch.
    const third = await aReader(topic);
    third.seek(topic, 3, undefined, epoch);
    await expect(nextRecords(third, topic)).rejects.toMatchObject({ offset: 1, position: 3 });
    // The upper bound may be much higher than the epoch of the record before the position.
    third.seek(topic, 3, undefined, (epoch ?? 0) + 100);
    expect((await nextRecords(third, topic)).map(textOf)).toEqual(['z', '!']);
    // The broker knows the epoch of the current records now.
    second.seek(topic, 5, epoch === undefined ? undefined : epoch + 100);
    await expect(nextRecords(second, topic)).rejects.toMatchObject({ offset: 4, position: 5 });
  });

  test('delivers no record of a batch with a flipped bit and reads the other partitions', async () => {
    const topic = await aTopic(log(), { partitions: 2 });
    await log().append(topic, 1, [aRecord('whole'), aRecord('turned')]);
    there().flipBit(nameOf(topic), 1);
    reported.length = 0;
    const texts: (string | undefined)[] = [];
    const tail = await log().tail({
      topic,
      from: 'earliest',
      onBatch: ({ records }) => void texts.push(...records.map(textOf)),
    });
    onTestFinished(() => tail.close());
    await until(() => reported.length > 0);
    expect(reported[0]).toMatchObject(['log_reading_interrupted', { topic, partition: 1, offset: 0 }]);
    expect(reported[0]?.[1]?.['cause']).toContain('checksum');
    await appendEach(topic, 'beside');
    await tail.waitForOffsets([1, 0]);
    expect(texts).toEqual(['beside']);
    there().flipBit(nameOf(topic), 1);
    await tail.waitForOffsets([1, 2]);
    expect(texts).toEqual(['beside', 'whole', 'turned']);
  });

  function log(): Log {
    if (opened === undefined) throw new Error('the log is not open yet');
    return opened;
  }

  function there(): DamageableBroker {
    if (broker === undefined) throw new Error('there is no broker');
    return broker;
  }

  /** Appends each text in its own batch. A broker that has lost its producer state rejects the first append once. */
  async function appendEach(topic: string, ...texts: string[]): Promise<void> {
    for (const text of texts) {
      const append = () => log().append(topic, 0, [aRecord(text)]);
      await append().catch((error: unknown) =>
        error instanceof Unavailable ? append() : Promise.reject(error),
      );
    }
  }

  async function aReader(topic: string) {
    const member = await aMember(log(), aName('group'), topic);
    onTestFinished(() => member.consumer.stop());
    await untilAssigned(member, 1);
    return member.current(0);
  }
});
