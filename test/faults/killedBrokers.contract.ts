/** Kills brokers under load: acknowledged appends must exist once, in order, at the answered offset. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { aName, aRecord, readToEnd, textOf, until } from '@questlog/runtime/log/contract/harness';
import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import type { Log, LogRecord, TransactionalProducer } from '@questlog/runtime/log/log';
import { Fenced, Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { expect, onTestFinished, test } from 'vitest';
import type { OwnStack } from '../stack/ownStack.ts';

const PARTITIONS = 3;
const BEFORE = 200;
const AFTER = 300;
const TEST_LIMIT_MS = 300_000;
/** Pause between two rounds of appends. It leaves CPU time for the restart of the brokers. */
const PACE_MS = 20;

export function killedBrokers(own: OwnStack): void {
  const stack = (...command: string[]): Promise<string> => own.commands.do(...command);

  test(
    'reports an outage as unavailable, and keeps appends that were acknowledged before and after it',
    async () => {
      const { log, topic } = await aLoadedTopic(own);
      const loads = Array.from(
        { length: PARTITIONS },
        (_, partition) => new AppendLoad(log, topic, partition),
      );
      start(loads);
      await untilAcknowledged(loads, BEFORE);
      await stack('kill', 'broker-2', 'broker-3');
      await untilAll(loads, ({ rejected }) => rejected > 0);
      await stack('start', 'broker-2', 'broker-3');
      await untilAcknowledged(loads, AFTER);
      await finish(loads);
      expectKept(loads, await readToEnd(log, topic));
    },
    TEST_LIMIT_MS,
  );

  test(
    'keeps every transaction complete and once when a broker is killed',
    async () => {
      const { log, topic } = await aLoadedTopic(own);
      const loads = [0, 1].map((partition) => new TransactionalLoad(log, topic, partition));
      start(loads);
      // Kills two brokers, so that one of them probably leads the transaction coordinator.
      for (const victim of ['broker-3', 'broker-1']) {
        await untilAcknowledged(loads, BEFORE / 10);
        await stack('kill', victim);
        await untilAcknowledged(loads, AFTER / 10);
        await stack('start', victim);
      }
      await finish(loads);
      // Opens new producers first, which aborts or commits the last transaction of unknown outcome.
      for (const load of loads) await load.open();
      const partitions = await readToEnd(log, topic);
      expectKept(loads, partitions);
      for (const { name } of loads) {
        const texts = partitions.map((records) =>
          records.map(textOf).filter((text) => text?.startsWith(name)),
        );
        const [own] = texts.filter(({ length }) => length > 0);
        // Partition to which both loads write, in addition to their own partitions.
        expect(texts[PARTITIONS - 1]).toEqual(own);
      }
    },
    TEST_LIMIT_MS,
  );
}

/** Load that appends to one partition until `stop` is called. */
abstract class Load {
  readonly partition: number;
  /** Outcomes in the order of the calls. */
  readonly acknowledged: { readonly text: string; readonly offset: number }[] = [];
  rejected = 0;
  protected readonly log: Log;
  protected readonly topic: string;
  protected isRunning = true;
  #running: Promise<void> | undefined;
  #failure: unknown;

  constructor(log: Log, topic: string, partition: number) {
    this.log = log;
    this.topic = topic;
    this.partition = partition;
  }

  start(): void {
    this.#running = this.run().catch((error: unknown) => {
      this.#failure = error;
    });
  }

  stop(): void {
    this.isRunning = false;
  }

  /** @throws the error that ended the load before it was stopped */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  async ended(): Promise<void> {
    this.stop();
    await this.#running;
    this.check();
  }

  protected abstract run(): Promise<void>;
}

/** Appends with eight concurrent calls, each tried once. */
class AppendLoad extends Load {
  protected override async run(): Promise<void> {
    for (let round = 0; this.isRunning; round += 1) {
      await delay(PACE_MS);
      const texts = Array.from({ length: 8 }, (_, index) => `${round}.${index} ${'x'.repeat(200)}`);
      const outcomes = await Promise.allSettled(
        texts.map((text) => this.log.append(this.topic, this.partition, [aRecord(text)])),
      );
      for (const [index, outcome] of outcomes.entries()) {
        const text = texts[index] ?? '';
        if (outcome.status === 'fulfilled')
          this.acknowledged.push({ text, offset: outcome.value.baseOffset });
        else if (outcome.reason instanceof Unavailable) this.rejected += 1;
        else throw outcome.reason;
      }
    }
  }
}

/** Commits the same record to its own partition and to the last one, each tried once. */
class TransactionalLoad extends Load {
  readonly name = `of ${this.partition}: `;

  protected override async run(): Promise<void> {
    let producer = await this.open();
    for (let round = 0; this.isRunning; round += 1) {
      const text = `${this.name}${round}`;
      const appends = [this.partition, PARTITIONS - 1].map((partition) => {
        return { topic: this.topic, partition, records: [aRecord(text)] };
      });
      try {
        const [own] = await producer.commit({ appends });
        this.acknowledged.push({ text, offset: own?.baseOffset ?? -1 });
      } catch (error) {
        // A load can fence itself: a starting broker may process the first of two open requests last.
        if (!(error instanceof Unavailable || error instanceof Fenced)) throw error;
        this.rejected += 1;
        await producer.close();
        producer = await this.open();
      }
    }
    await producer.close();
  }

  /** Opens the producer, and retries like a partition's owner until the brokers are available. */
  async open(): Promise<TransactionalProducer> {
    for (;;) {
      try {
        return await this.log.transactionalProducer(`producer-${this.partition}`);
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error;
      }
    }
  }
}

async function aLoadedTopic({ engines }: OwnStack): Promise<{ log: Log; topic: string }> {
  const log = await openKafkaLog({
    connection: { brokers: engines?.brokers.split(',') ?? [], clientId: 'questlog-tests' },
    prefix: `kill-${randomUUID()}-`,
    replicationFactor: 3,
    logger: silentLogger,
  });
  onTestFinished(() => log.close());
  const topic = aName('topic');
  const cleanup = { policy: 'delete', retentionMs: 3_600_000 } as const;
  await log.ensureTopics([{ name: topic, partitions: PARTITIONS, cleanup, maxRecordBytes: 100_000 }]);
  return { log, topic };
}

function start(loads: readonly Load[]): void {
  onTestFinished(() => {
    for (const load of loads) load.stop();
  });
  for (const load of loads) load.start();
}

/** Waits until each load has `more` further acknowledged appends. */
async function untilAcknowledged(loads: readonly Load[], more: number): Promise<void> {
  const before = loads.map((load) => load.acknowledged.length);
  await untilAll(loads, (load, at) => load.acknowledged.length >= (before[at] ?? 0) + more);
}

async function untilAll(loads: readonly Load[], isTrue: (load: Load, at: number) => boolean): Promise<void> {
  await until(() => {
    for (const load of loads) load.check();
    return loads.every(isTrue);
  });
}

async function finish(loads: readonly Load[]): Promise<void> {
  await Promise.all(loads.map((load) => load.ended()));
  const count = loads.reduce((sum, load) => sum + load.acknowledged.length, 0);
  const rejected = loads.reduce((sum, load) => sum + load.rejected, 0);
  console.log(`broker kills: ${count} acknowledged, ${rejected} of unknown outcome`);
}

function expectKept(loads: readonly Load[], partitions: readonly (readonly LogRecord[])[]): void {
  for (const { partition, acknowledged } of loads) {
    const records = partitions[partition] ?? [];
    const copies = Map.groupBy(records, textOf);
    expect([...copies].filter(([, { length }]) => length > 1).map(([text]) => text)).toEqual([]);
    const offsets = new Map(records.map((record) => [textOf(record), record.offset]));
    expect(acknowledged.filter(({ text, offset }) => offsets.get(text) !== offset)).toEqual([]);
    const order = acknowledged.map(({ offset }) => offset);
    expect(order).toEqual([...order].sort((a, b) => a - b));
  }
}
