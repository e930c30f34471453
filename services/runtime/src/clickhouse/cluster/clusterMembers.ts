/** Opens the stores of the nodes of a cluster. A node that does not answer at the start joins the cluster when it answers. */
import { messageOf, Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { pause } from '../../process/waiting.ts';
import { QueryRejected, UNKNOWN_IDENTIFIER, UNKNOWN_TABLE } from '../clickhouseErrors.ts';
import type { Store, StoreOptions } from '../store.ts';
import { type ClusterOptions, identify, type NodeIdentity, rejectRepeatedNodes } from './clusterNodes.ts';

export interface Member extends NodeIdentity {
  readonly address: StoreOptions;
  readonly store: Store;
}

export interface Members {
  /** A node that answered at the start. */
  readonly first: Member;
  /**
   * Returns the nodes that have answered. Asks the other nodes again in the background, a short time after the last attempt.
   */
  joined(): readonly Member[];
  close(): Promise<void>;
}

export interface MembersDeps {
  readonly options: ClusterOptions;
  /** Settings of ClickHouse for every request. */
  readonly settings: Readonly<Record<string, string | number>>;
  readonly logger: Pick<Logger, 'warn'>;
  readonly open: (options: StoreOptions) => Store;
}

const RETRY_PAUSE_MS = 250;
/** Includes the wait for a free connection to the node. */
export const INSERTS_START_WITHIN_MS = 10_000;

/** @throws Unavailable if no node answers. */
export async function openMembers({ options, settings, logger, open }: MembersDeps): Promise<Members> {
  const { name, nodes } = options;
  const members: Member[] = [];
  const stores: Store[] = [];
  const join = async (address: StoreOptions, store: Store): Promise<void> => {
    const identity = await identify(store, address.url, name, nodes.length);
    rejectRepeatedNodes([...members, { address, ...identity }]);
    members.push({ address, store, ...identity });
  };
  const joins = nodes.map((address) => {
    const insertsStartWithinMs = INSERTS_START_WITHIN_MS;
    const store = withMissingSchema(open({ ...address, querySettings: settings, insertsStartWithinMs }));
    stores.push(store);
    let attempt: Promise<void> | undefined;
    // Causes that were logged. The same cause is logged once, because each attempt can fail with this cause.
    const causes = new Set<string>();
    const onFailure = (error: unknown): void => {
      const isUnavailable = error instanceof Unavailable;
      const cause = messageOf(error);
      if (!causes.has(cause))
        logger.warn(isUnavailable ? 'clickhouse_node_unavailable' : 'clickhouse_node_rejected', {
          ...{ node: address.url, cause },
        });
      causes.add(cause);
      void pause(RETRY_PAUSE_MS).then(() => (attempt = undefined));
    };
    return (): Promise<void> => {
      attempt ??= join(address, store).catch(onFailure);
      return attempt;
    };
  });
  const close = async (): Promise<void> => {
    await Promise.all(stores.map((store) => store.close()));
  };
  await Promise.all(joins.map((joinIfNeeded) => joinIfNeeded()));
  const [first] = members;
  if (first === undefined) {
    await close();
    throw new Unavailable(`no node of the ClickHouse cluster ${name} can be used`);
  }
  return {
    first,
    joined: () => {
      for (const joinIfNeeded of joins) void joinIfNeeded();
      return [...members];
    },
    close,
  };
}

/**
 * Returns a store that throws `Unavailable` if a table or a column is missing. A node that has lost its disk, or that was unavailable
 * during an upgrade of Questlog, lacks them until Questlog restarts.
 */
function withMissingSchema(store: Store): Store {
  return {
    ...store,
    query: <Row>(...query: Parameters<Store['query']>) =>
      store.query<Row>(...query).catch(rejectMissingSchema),
    stream: (...query) => store.stream(...query).catch(rejectMissingSchema),
    command: (...command) => store.command(...command).catch(rejectMissingSchema),
  };
}

const MISSING_SCHEMA_CODES = [UNKNOWN_TABLE, UNKNOWN_IDENTIFIER];

function rejectMissingSchema(error: unknown): never {
  if (!(error instanceof QueryRejected && MISSING_SCHEMA_CODES.includes(error.code))) throw error;
  throw new Unavailable(`ClickHouse: a node lacks a table or a column; restart Questlog: ${error.message}`, {
    cause: error,
  });
}
