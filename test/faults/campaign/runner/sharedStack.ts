/** Keeps the stack that the runs of a campaign share while it is intact. */
import { messageOf } from '@questlog/runtime/process/errors';
import { PARTS } from '../../../engines/choice.ts';
import { keepEngines } from '../../../engines/keepEngines.ts';
import { clientsOf } from '../../../stack/stackClients.ts';
import { stackCommands } from '../../../stack/stackCommands.ts';
import type { OwnEngines } from '../row.ts';

interface Shared extends OwnEngines {
  stop(): Promise<void>;
}

export class SharedStack {
  readonly #say: (line: string) => void;
  #shared: Shared | undefined;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  /** Returns the stack of the previous run, or a new stack if that one is broken. */
  async whole(): Promise<OwnEngines> {
    const broken = this.#shared && (await whatIsBroken(this.#shared));
    if (broken !== undefined) {
      this.#say(`the stack is not whole any more, ${broken}: a new one takes its place`);
      await this.stop();
    }
    this.#shared ??= await start();
    return this.#shared;
  }

  async stop(): Promise<void> {
    await this.#shared?.stop();
    this.#shared = undefined;
  }
}

async function start(): Promise<Shared> {
  // The stack ends with this process in any case.
  const { addresses, stackDir, stop } = await keepEngines('local', PARTS);
  const engines = {
    brokers: addresses.KAFKA_BROKERS ?? '',
    registryUrl: addresses.SCHEMA_REGISTRY_URL ?? '',
    clickhouseUrl: addresses.CLICKHOUSE_URL ?? '',
  };
  return { engines, stack: stackCommands(stackDir), stop };
}

/** Returns the problem if a node does not answer or the brokers do not accept a record. */
async function whatIsBroken({ engines, stack }: OwnEngines): Promise<string | undefined> {
  const down = Object.entries(await stack.status()).flatMap(([name, { state }]) =>
    state === 'up' ? [] : name,
  );
  if (down.length > 0) return `${down.join(', ')} does not answer`;
  const { query, createTopic, append } = clientsOf({
    KAFKA_BROKERS: engines.brokers,
    CLICKHOUSE_URL: engines.clickhouseUrl,
  });
  try {
    await query('SELECT 1');
    await createTopic(TOPIC);
    await append(TOPIC, 'whole');
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

const TOPIC = 'tried-between-runs';
