/** Access to ClickHouse: queries, inserts, and errors that tell a caller whether a retry can succeed. */
import { addAbortSignal, Readable } from 'node:stream';
import {
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
  ClickHouseError,
  createClient,
} from '@clickhouse/client';
import { messageOf, Unavailable } from '../process/errors.ts';
import type { BoundedResource } from '../process/metrics.ts';
import { callerQueryFailure, insertFailure, queryFailure, UNKNOWN_SETTING } from './clickhouseErrors.ts';
import type { ListedPartition, ShardAssignments } from './cluster/partitions/shardAssignments.ts';
import type { QuorumList } from './cluster/quorums/quorumList.ts';
import { openHttpQueries } from './httpQuery.ts';

export interface Store {
  readonly database: string;
  /** Runs a SELECT and returns its rows as objects. 64-bit integers are strings. Values must be parameters (`{name:Type}`). */
  query<Row>(
    sql: string,
    params?: Readonly<Record<string, unknown>>,
    settings?: Readonly<Record<string, string | number>>,
  ): Promise<Row[]>;
  /**
   * Runs a query of an API caller. The response has ClickHouse's JSON format unless the query contains FORMAT. A SETTINGS
   * clause in the query can override `settings`.
   * @throws QueryRejected if the response is larger than `maxBytes`.
   */
  queryRaw(
    sql: string,
    settings: Readonly<Record<string, string | number>>,
    maxBytes: number,
    params?: Readonly<Record<string, unknown>>,
    signal?: AbortSignal,
  ): Promise<RawResult>;
  /**
   * Runs a SELECT with a FORMAT clause. Resolves after the query has ended, so that a failed query never returns a part of its
   * rows. The caller must read or destroy the stream.
   */
  stream(
    sql: string,
    params: Readonly<Record<string, unknown>>,
    settings: Readonly<Record<string, string | number>>,
    signal: AbortSignal,
  ): Promise<Readable>;
  command(sql: string, settings?: Readonly<Record<string, string | number>>): Promise<void>;
  /** Maximum time in which an insert can still take effect after its sender has stopped owning the Kafka partition. */
  readonly insertsEndWithinMs: number;
  /**
   * Inserts rows synchronously as one block. The insert is atomic within one partition of the table.
   * @throws Invalid if ClickHouse rejects the data.
   * @throws Unavailable if the insert failed or its outcome is unknown.
   */
  insert(insert: Insert): Promise<void>;
  ping(): Promise<boolean>;
  close(): Promise<void>;
  /** Store whose reads use a quorum of replicas. Undefined if ClickHouse is not a cluster. */
  readonly quorum?: Store;
  /**
   * Returns a store for the rows of a log partition. Undefined if ClickHouse is not a cluster. After a move of the partition, a
   * query runs on each shard that has or had the partition, and returns the rows of all these shards. Therefore, the caller
   * must sort, limit, and aggregate the rows itself.
   * @param shard shard that gets inserted rows
   */
  forPartition?(partition: number, shard?: string): Store;
  /** Shards of the log partitions. Undefined if ClickHouse is not a cluster. */
  readonly partitionShards?: ShardAssignments;
  /**
   * Moves log partitions to a shard, and returns their new state. Undefined if ClickHouse is not a cluster.
   * @throws Unavailable if a node does not answer, or if a node cannot query the shard
   */
  movePartitions?(partitions: readonly number[], shard: string): Promise<ListedPartition[]>;
  /** Quorums of the shards. Undefined if ClickHouse is not a cluster. */
  readonly shardQuorums?: QuorumList;
  /**
   * Lowers or restores the quorum of a shard. Undefined if ClickHouse is not a cluster.
   * @throws Unavailable if the quorum is restored, and too few replicas have all rows
   */
  changeQuorum?(shard: string, quorum: number): Promise<void>;
  /** Returns the name of the table that has the rows of a log partition. Undefined if ClickHouse is not a cluster. */
  localName?(table: string): string;
  /**
   * Returns the name of the table whose UUID identifies the rows of a table. Undefined on a single server, because the UUID of
   * the table itself identifies its rows.
   */
  idTable?(table: string): string;
  /**
   * Runs `work` with one of the readers, whose node has all committed rows of the query. Undefined if ClickHouse is not a
   * cluster.
   */
  runOn?<T>(
    sql: string,
    readers: readonly AddressedStore[],
    work: (reader: AddressedStore) => Promise<T>,
  ): Promise<T>;
  /** Connections to ClickHouse. Undefined if ClickHouse is a cluster. */
  readonly connections?: readonly BoundedResource[];
  /** Returns all nodes. Undefined if ClickHouse is not a cluster. */
  nodes?(): readonly NodeStore[];
  /** Returns a store for each shard, whose statements use the rows of the shard. Undefined if ClickHouse is not a cluster. */
  shards?(): readonly Store[];
}

export interface NodeStore {
  /** Address. Also contains the shard and the replica if the node has answered. */
  readonly name: string;
  readonly url: string;
  /** Undefined if the node has not answered since the start of the process. */
  readonly shard: string | undefined;
  /** Undefined if the node has not answered since the start of the process. */
  readonly replica: string | undefined;
  /** Number of replicas of the shard that must have a row. Undefined if the node has not answered since the start. */
  readonly quorum: number | undefined;
  /** True if an operator has lowered the quorum of the shard. Undefined if the node has not answered since the start. */
  readonly isQuorumLowered?: boolean;
  /** Store whose statements use the tables of this node. Undefined if the node has not answered since the start. */
  readonly store: Store | undefined;
}

export interface AddressedStore extends Store {
  readonly url: string;
  readonly username: string;
}

export interface RawResult {
  readonly contentType: string;
  readonly body: Buffer;
}

export interface Insert {
  readonly table: string;
  readonly columns: readonly string[];
  /** Rows in RowBinary, with their fields in the order of `columns`. */
  readonly rows: Buffer;
  /** Token that prevents a second insert of the same rows if the table has a deduplication window. */
  readonly deduplicationToken?: string;
  /** Number of replicas that must have the rows. Undefined if ClickHouse is not a cluster. */
  readonly quorum?: number;
}

export interface StoreOptions {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly database: string;
  /** Certificate authority of the server, in PEM. If the text is empty or undefined, the system's authorities apply. */
  readonly caPem?: string;
  /** Settings of ClickHouse for every request. */
  readonly querySettings?: Readonly<Record<string, string | number>>;
  /**
   * Maximum time until ClickHouse starts an insert. ClickHouse rejects a later insert, for example an insert that waits in a
   * socket while the server is suspended. Undefined if inserts have no such limit.
   */
  readonly insertsStartWithinMs?: number;
}

/** Maximum number of ids in one query. More ids would exceed the server's size limit for a query parameter. */
export const MAX_IDS_PER_QUERY = 2_500;

export function* chunksOf<T>(items: readonly T[], size = MAX_IDS_PER_QUERY): Generator<readonly T[]> {
  for (let i = 0; i < items.length; i += size) yield items.slice(i, i + size);
}

/** Time limit of a request to ClickHouse. An insert must end before ClickHouse forgets the insert's deduplication token. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Time limit of a query in ClickHouse, so that an abandoned query ends. */
const QUERY_TIME_LIMIT = { max_execution_time: (2 * REQUEST_TIMEOUT_MS) / 1000 };
const INSERT_TIME_LIMIT = { max_execution_time: REQUEST_TIMEOUT_MS / 1000 };
/** Delays the response until the query has ended, so that a late failure also gets an error status. */
const WAIT_END_OF_QUERY = { wait_end_of_query: 1 } as const;
/** Maximum time until a process detects that another process has become the owner of a Kafka partition. */
const LOSS_DETECTION_MS = 5_000;
/** Maximum difference between the clocks of ClickHouse and Questlog if inserts have a time limit for their start. */
export const MAX_CLOCK_DIFFERENCE_MS = 2_000;
/**
 * ClickHouse's default time after which Keeper ends the session of a suspended server. A server without its session cannot
 * finish an insert into a replicated table.
 */
const KEEPER_SESSION_MS = 30_000;
const MAX_CONNECTIONS = 16;
/** Maximum number of connections for streams. They are separate, so that a slow reader of a stream cannot delay an insert. */
const MAX_STREAM_CONNECTIONS = 2;

export function openStore(storeOptions: StoreOptions): AddressedStore {
  const { caPem = '', querySettings = {}, insertsStartWithinMs, ...options } = storeOptions;
  const clientOptions = {
    ...options,
    clickhouse_settings: querySettings,
    ...(caPem === '' ? {} : { tls: { ca_cert: Buffer.from(caPem) } }),
    request_timeout: REQUEST_TIMEOUT_MS,
    max_open_connections: MAX_CONNECTIONS,
    // Sends long parameters in the body of a request, because servers limit the URL to about 16 KiB.
    use_multipart_params_auto: true,
    compression: { request: false, response: false },
    log: { level: 127 },
  } satisfies ClickHouseClientConfigOptions;
  const client = createClient(clientOptions);
  const streams = createClient({ ...clientOptions, max_open_connections: MAX_STREAM_CONNECTIONS });
  const queries = openHttpQueries({
    ...{ ...options, caPem },
    maxConnections: MAX_CONNECTIONS,
    timeoutMs: REQUEST_TIMEOUT_MS,
  });
  const inserter = new Inserter(client, insertsStartWithinMs);
  const querying = new RunningCalls('clickhouse_query_connections', MAX_CONNECTIONS);
  const writing = new RunningCalls('clickhouse_write_connections', MAX_CONNECTIONS);
  const { url, username, database } = options;
  return {
    ...{ url, username, database },
    connections: [querying, writing],
    query: (sql, params = {}, settings = {}) =>
      translateErrors(() =>
        querying.run(() =>
          queries.run(sql, params, {
            ...querySettings,
            ...QUERY_TIME_LIMIT,
            output_format_json_quote_64bit_integers: 1,
            ...settings,
          }),
        ),
      ),
    queryRaw: (sql, settings, maxBytes, params = {}, signal = new AbortController().signal) =>
      translateErrors(async () => {
        const result = await client.exec({
          query: sql,
          query_params: params,
          clickhouse_settings: { default_format: 'JSON', ...WAIT_END_OF_QUERY, ...settings },
          abort_signal: signal,
        });
        // Passes the abort signal to the response stream, because the ClickHouse client ignores it after a response starts.
        const stream = addAbortSignal(signal, result.stream);
        const contentType = String(result.response_headers['content-type'] ?? 'application/octet-stream');
        return { contentType, body: await collect(stream, maxBytes) };
      }, callerQueryFailure),
    stream: (query, params, settings, signal) =>
      translateErrors(async () => {
        const clickhouse_settings = { ...QUERY_TIME_LIMIT, ...WAIT_END_OF_QUERY, ...settings };
        const request = { query, query_params: { ...params }, clickhouse_settings, abort_signal: signal };
        return addAbortSignal(signal, (await streams.exec(request)).stream);
      }),
    command: (sql, settings = {}) =>
      translateErrors(() => writing.run(() => inserter.command(sql, settings))),
    insertsEndWithinMs: insertsEndWithinMs(insertsStartWithinMs),
    insert: (insert) => translateErrors(() => writing.run(() => inserter.insert(insert)), insertFailure),
    ping: async () => (await client.ping({ select: true })).success,
    close: async () => {
      queries.close();
      await streams.close();
      await client.close();
    },
  };
}

function insertsEndWithinMs(startWithinMs: number | undefined): number {
  const endWithinMs = LOSS_DETECTION_MS + REQUEST_TIMEOUT_MS;
  if (startWithinMs === undefined) return endWithinMs;
  return endWithinMs + startWithinMs + MAX_CLOCK_DIFFERENCE_MS + KEEPER_SESSION_MS;
}

/** Counts running calls, including calls that wait for one of `limit` connections. */
class RunningCalls implements BoundedResource {
  readonly resource: string;
  readonly limit: number;
  #running = 0;

  constructor(resource: string, limit: number) {
    this.resource = resource;
    this.limit = limit;
  }

  used(): number {
    return this.#running;
  }

  async run<T>(call: () => Promise<T>): Promise<T> {
    this.#running += 1;
    try {
      return await call();
    } finally {
      this.#running -= 1;
    }
  }
}

class Inserter {
  readonly #client: ClickHouseClient;
  readonly #startWithinMs: number | undefined;
  #isBefore262 = false;

  constructor(client: ClickHouseClient, startWithinMs: number | undefined) {
    this.#client = client;
    this.#startWithinMs = startWithinMs;
  }

  insert(insert: Insert): Promise<void> {
    const mode = insert.deduplicationToken === undefined ? 'disable' : 'enable';
    return this.#withDeduplication(mode, (settings) => this.#send(insert, settings));
  }

  /** Runs a statement. Deduplication is disabled for `INSERT … SELECT`, because the callers check for duplicates themselves. */
  async command(query: string, own: Readonly<Record<string, string | number>>): Promise<void> {
    if (!IS_INSERT.test(query)) return void (await this.#client.command({ query, clickhouse_settings: own }));
    await this.#withDeduplication('disable', async (settings) => {
      const clickhouse_settings = { insert_deduplicate: 0 as const, ...own, ...settings };
      await this.#client.command({ query, clickhouse_settings });
    });
  }

  /** `deduplicate_insert` overrides `insert_deduplicate` in ClickHouse 26.2 and later. */
  async #withDeduplication(
    mode: string,
    send: (settings: Readonly<Record<string, string>>) => Promise<void>,
  ) {
    if (this.#isBefore262) return await send({});
    try {
      await send({ deduplicate_insert: mode });
    } catch (error) {
      // Sends the insert again without `deduplicate_insert`, which an older ClickHouse rejects before it reads any rows.
      if (!(error instanceof ClickHouseError && error.code === UNKNOWN_SETTING)) throw error;
      await send({});
      this.#isBefore262 = true;
    }
  }

  async #send(insert: Insert, mode: Readonly<Record<string, string>>): Promise<void> {
    const { deduplicationToken: token, quorum } = insert;
    const result = await this.#client.exec({
      query: insertStatement(insert, this.#startWithinMs),
      values: Readable.from([insert.rows]),
      clickhouse_settings: {
        ...INSERT_TIME_LIMIT,
        ...ONE_BLOCK,
        async_insert: 0,
        insert_deduplicate: token === undefined ? 0 : 1,
        ...mode,
        ...(token === undefined ? {} : { insert_deduplication_token: token }),
        ...(quorum === undefined ? {} : { insert_quorum: String(quorum) }),
      },
    });
    await collect(result.stream);
  }
}

/** Returns a statement that fails if ClickHouse starts it later than in `startWithinMs`. */
function insertStatement({ table, columns }: Insert, startWithinMs: number | undefined): string {
  const target = `INSERT INTO ${table} (${columns.join(', ')})`;
  if (startWithinMs === undefined) return `${target} FORMAT RowBinary`;
  const limit = ((Date.now() + startWithinMs) / 1000).toFixed(3);
  return `${target} SELECT * FROM input('auto') WHERE throwIf(now64(3) > toDateTime64(${limit}, 3), '${TOO_LATE}') = 0 FORMAT RowBinary`;
}

const TOO_LATE = 'the insert reached ClickHouse too late, or the clocks of ClickHouse and Questlog differ';

const IS_INSERT = /^\s*INSERT\b/i;

const ONE_BLOCK = {
  max_insert_block_size: '1048576',
  min_insert_block_size_rows: '1048576',
  min_insert_block_size_bytes: '134217728',
  max_insert_threads: '1',
  input_format_parallel_parsing: 0,
} as const;

async function collect(stream: Readable, maxBytes = Infinity): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > maxBytes)
      throw new ClickHouseError({ ...RESULT_TOO_LARGE, message: tooLargeMessage(maxBytes) });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const RESULT_TOO_LARGE = { code: '396', type: 'TOO_MANY_ROWS_OR_BYTES' };

function tooLargeMessage(maxBytes: number): string {
  return `the result is larger than ${Math.floor(maxBytes / 1024)} KiB; select fewer rows or columns`;
}

async function translateErrors<T>(
  work: () => Promise<T>,
  failureOf: (error: ClickHouseError) => Error = queryFailure,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ClickHouseError)) {
      throw new Unavailable(`ClickHouse does not answer: ${messageOf(error)}`, { cause: error });
    }
    throw failureOf(error);
  }
}
