/**
 * Creates the accounts of studios on every node of a ClickHouse server or cluster, and repairs the accounts periodically. A node
 * that was unavailable, or that lost its accounts, gets the accounts when the node answers again.
 */
import { messageOf, Unavailable } from '../../process/errors.ts';
import { runPeriodically, withinLimit } from '../../process/waiting.ts';
import type { StoreOptions } from '../store.ts';
import type { StudioAccounts, StudioReader } from '../studioTables.ts';
import { type NodeAccountsOptions, openNodeAccounts } from './nodeAccounts.ts';

const INTERVAL_MS = 5_000;
const ANSWER_LIMIT_MS = 5_000;

export interface ServerAccountsOptions extends NodeAccountsOptions {
  /** Address that is sent to the owner of a new account. */
  readonly url: string;
  readonly database: string;
  /** Addresses of all nodes, and the login of the product's account. */
  readonly nodes: readonly StoreOptions[];
  /** Time between two repairs. Only tests set this time. */
  readonly everyMs?: number;
  /** Time after which a change does not wait for a node any longer. Only tests set this time. */
  readonly answerLimitMs?: number;
}

export type ServerAccounts = StudioAccounts & { close(): Promise<void> };

export function openServerAccounts(options: ServerAccountsOptions): ServerAccounts {
  const { url, database, everyMs = INTERVAL_MS, answerLimitMs = ANSWER_LIMIT_MS } = options;
  const current = { accounts: [] as readonly StudioReader[], caughtUp: async () => {} };
  const nodes = options.nodes.map((address) => openNodeAccounts(address, current, options));
  const reconcile = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => withinLimit(node.reconcile(), answerLimitMs, () => {})));
  };
  let stop: (() => Promise<void>) | undefined;
  return {
    ...{ url, database },
    refusal: async () => {
      const answers = await Promise.allSettled(nodes.map((node) => node.refusal(answerLimitMs)));
      const failures = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
      if (failures.length === nodes.length) throw new Unavailable(failures.map(messageOf).join('; '));
      return answers.flatMap((answer) => (answer.status === 'fulfilled' ? (answer.value ?? []) : []))[0];
    },
    set: async (accounts, caughtUp) => {
      Object.assign(current, { accounts, caughtUp });
      await reconcile();
      stop ??= runPeriodically(reconcile, { firstMs: everyMs, everyMs }, () => {});
      const problems = nodes.map(({ problem }) => problem());
      if (problems.every((problem) => problem !== undefined)) throw new Unavailable(problems.join('; '));
    },
    warning: () => {
      const problems = nodes.flatMap(({ problem }) => problem() ?? []);
      return problems.length === 0 ? undefined : problems.join('; ');
    },
    close: async () => {
      await stop?.();
      await Promise.all(nodes.map((node) => node.close()));
    },
  };
}
