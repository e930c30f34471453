/**
 * The coordinators of a transactional producer. kafkajs asks where they are before each step, five times a transaction,
 * and asks for all metadata when the transaction before is not through yet. Here each is found once, and again when it
 * has moved or its connection is gone. A patch, as those of `patches.ts`.
 */
import { createRequire } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import { Backoff } from '../../../process/waiting.ts';
import { isOfType } from './failures.ts';
import { once } from './patches.ts';

/** The steps that a coordinator takes part in. */
const STEPS = [
  'initProducerId',
  'addPartitionsToTxn',
  'addOffsetsToTxn',
  'txnOffsetCommit',
  'endTxn',
] as const;
type Step = (typeof STEPS)[number];
/** What a transaction begins with: refused until the markers of the one before are written, which takes milliseconds. */
const BEGINNINGS: readonly Step[] = ['addPartitionsToTxn', 'addOffsetsToTxn'];

/** It did nothing: another has the transactions or the group. */
const MOVED = ['NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE'];
const NOT_THROUGH = 'CONCURRENT_TRANSACTIONS';

/** Tries of one step at coordinators that have moved; then kafkajs decides. */
const MAX_MOVES = 2;
const FIRST_PAUSE_MS = 3;
const MAX_PAUSE_MS = 20;
/** Then kafkajs tries again, with all metadata. */
const MAX_PAUSES = 8;

/** A broker of kafkajs, as far as transactions need one. */
export type CoordinatorSteps = Record<Step, (request: unknown) => Promise<unknown>>;
export interface CoordinatorBroker extends CoordinatorSteps {
  isConnected(): boolean;
}

/** Stands for the broker that is the coordinator, whichever that is at the time. */
export function keptCoordinator(find: () => Promise<CoordinatorBroker>): CoordinatorSteps {
  let known: CoordinatorBroker | undefined;
  const attempt = async (step: Step, request: unknown): Promise<unknown> => {
    const broker = known?.isConnected() === true ? known : await find();
    known = broker;
    try {
      return await broker[step](request);
    } catch (error) {
      // Whatever it is, to ask again where it is costs one request.
      if (known === broker && !isOfType(error, NOT_THROUGH)) known = undefined;
      throw error;
    }
  };
  const take = async (step: Step, request: unknown): Promise<unknown> => {
    const backoff = new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS);
    for (let moves = 0, pauses = 0; ; ) {
      try {
        return await attempt(step, request);
      } catch (error) {
        if (isOfType(error, ...MOVED) && moves++ < MAX_MOVES) continue;
        if (!isOfType(error, NOT_THROUGH) || !BEGINNINGS.includes(step) || pauses++ === MAX_PAUSES)
          throw error;
        await delay(backoff.next());
      }
    }
  };
  return {
    initProducerId: (request) => take('initProducerId', request),
    addPartitionsToTxn: (request) => take('addPartitionsToTxn', request),
    addOffsetsToTxn: (request) => take('addOffsetsToTxn', request),
    txnOffsetCommit: (request) => take('txnOffsetCommit', request),
    endTxn: (request) => take('endTxn', request),
  };
}

/** Has transactional producers keep their coordinators; a cluster without one is left as it is. */
export function patchCoordinators(): void {
  const kept = new WeakMap<object, Map<string, CoordinatorSteps>>();
  once(cluster.prototype, (prototype) => {
    const { findGroupCoordinator: find } = prototype;
    prototype.findGroupCoordinator = async function findOnce(this: Cluster, asked: Asked) {
      const own = kept.get(this) ?? new Map<string, CoordinatorSteps>();
      if (asked.coordinatorType === TRANSACTION) kept.set(this, own);
      else if (!kept.has(this)) return find.call(this, asked);
      const key = `${asked.coordinatorType} ${asked.groupId}`;
      const known = own.get(key) ?? keptCoordinator(() => find.call(this, asked));
      own.set(key, known);
      return known as CoordinatorBroker;
    };
  });
}

/** kafkajs's number of the kind of coordinator. */
const TRANSACTION = 1;

interface Asked {
  readonly groupId: string;
  readonly coordinatorType?: number;
}

interface Cluster {
  findGroupCoordinator(asked: Asked): Promise<CoordinatorBroker>;
}

const kafkajs = createRequire(import.meta.url);
const cluster: { readonly prototype: Cluster } = kafkajs('kafkajs/src/cluster');
