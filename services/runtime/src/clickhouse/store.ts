/** ClickHouse as the product sees it: queries, one insert path, and errors that say what to do about them. */
import { addAbortSignal, Readable } from 'node:stream';
import { type ClickHouseClient, ClickHouseError, createClient } from '@clickhouse/client';
import { steadyClock } from '../process/clock.ts';
import { Invalid, messageOf, Unavailable } from '../process/errors.ts';
import { coalesceCalls } from '../process/waiting.ts';

export interface Store {
  readonly database: string;
  /**
   * Rows of a SELECT as objects; 64-bit integers as strings, which are exact. Values go in as parameters
   * (`{name:Type}`), never into the text.
   */
  query<Row>(
    sql: string,
    params?: Readonly<Record<string, unknown>>,
    settings?: Readonly<Record<string, string | number>>,
  ): Promise<Row[]>;
  /**
   * Somebody else's query, answered in ClickHouse's JSON unless it says another FORMAT; settings are for it only, and
   * its text may change them.
   * @param signal of an asker who waits no more: the connection is closed, by which ClickHouse ends the query.
   * @throws QueryRejected when the answer is larger than `maxBytes`, whatever the query says.
   */
  queryRaw(
    sql: string,
    settings: Readonly<Record<string, string | number>>,
    maxBytes: number,
    params?: Readonly<Record<string, unknown>>,
    signal?: AbortSignal,
  ): Promise<RawResult>;
  /** DDL and the like, and rows that ClickHouse makes of its own. */
  command(sql: string): Promise<void>;
  /** So long after its sender has lost the partition that it is of, an insert is over, whatever was heard of it. */
  readonly insertsEndWithinMs: number;
  /**
   * The one way rows get in: synchronous, one ClickHouse block, all or nothing within one partition of the table.
   * @throws Invalid when ClickHouse refuses the data itself; Unavailable when the outcome is unknown or none.
   */
  insert(insert: Insert): Promise<void>;
  ping(): Promise<boolean>;
  close(): Promise<void>;
}

/** A store with its account and address, for messages to operators who can query ClickHouse directly. */
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
  /** RowBinary, in the order of `columns`. */
  readonly rows: Buffer;
  /** The guard against a late second insert of the same rows; only where the table has a de-duplication window. */
  readonly deduplicationToken?: string;
}

export interface StoreOptions {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly database: string;
  /** What its certificate is checked against, PEM; empty or absent: the system's. */
  readonly caPem?: string;
}

/** So many ids are still below what a server takes as one parameter. */
export const MAX_IDS_PER_QUERY = 2_500;

/** A list in parts that one query takes. */
export function* chunksOf<T>(items: readonly T[], size = MAX_IDS_PER_QUERY): Generator<readonly T[]> {
  for (let i = 0; i < items.length; i += size) yield items.slice(i, i + size);
}

const TABLES = 'SELECT name, uuid FROM system.tables WHERE database = currentDatabase()';

interface NamedTable {
  readonly name: string;
  readonly uuid: string;
}

/** Which table stands under a name: a restore makes it under a new UUID; what changes a table keeps it. */
export async function tableUuid(store: Pick<Store, 'query'>, table: string): Promise<string> {
  return uuidOf(table, await store.query<NamedTable>(`${TABLES} AND name = {table:String}`, { table }));
}

/** `tableUuid` for many who ask at once: one query, which begins after they asked, answers for every table. */
export function coalescedTableUuids(store: Pick<Store, 'query'>): (table: string) => Promise<string> {
  const lookup = coalesceCalls(() => store.query<NamedTable>(TABLES));
  return async (table) => uuidOf(table, await lookup());
}

/** A table that is exchanged for another is noticed so much later. */
const UUID_CACHE_MS = 1_000;

/**
 * `tableUuid` for those who ask often: one query answers for every table, all who share it and `knownForMs`. Also that a table
 * is not there; a query that failed is not kept.
 */
export function cachedTableUuids(
  store: Pick<Store, 'query'>,
  cacheMs = UUID_CACHE_MS,
): (table: string) => Promise<string> {
  let cached: { readonly atMs: number; readonly tables: Promise<NamedTable[]> } | undefined;
  return async (table) => {
    const nowMs = steadyClock.now();
    if (cached === undefined || nowMs - cached.atMs > cacheMs) {
      const lookup = { atMs: nowMs, tables: store.query<NamedTable>(TABLES) };
      cached = lookup;
      lookup.tables.catch(() => {
        if (cached === lookup) cached = undefined;
      });
    }
    return uuidOf(table, await cached.tables);
  };
}

function uuidOf(table: string, tables: readonly NamedTable[]): string {
  const found = tables.find(({ name }) => name === table);
  if (found === undefined) throw new Unavailable(`there is no table ${table}`);
  return found.uuid;
}

/** An insert's lifetime stays far below any de-duplication window, so that a forgotten one cannot come late. */
const REQUEST_TIMEOUT_MS = 30_000;
/**
 * Ends a query that nobody waits for: asked again, it would run beside its copies. Twice the silence that is borne, as an
 * answer that keeps coming may take longer.
 */
const QUERY_TIME_LIMIT = { max_execution_time: (2 * REQUEST_TIMEOUT_MS) / 1000 };
/** An insert is answered once: nobody waits for it any longer. */
const INSERT_TIME_LIMIT = { max_execution_time: REQUEST_TIMEOUT_MS / 1000 };
/** A server sends its answer once the query has ended, so that a failure after the first rows has its status too. */
const WAIT_END_OF_QUERY = { wait_end_of_query: 1 } as const;
/** Whoever has lost a partition may take so long to know it, and sends until then. */
const LOSS_DETECTION_MS = 5_000;
const MAX_CONNECTIONS = 16;

export function openStore({ caPem = '', ...options }: StoreOptions): AddressedStore {
  const client = createClient({
    ...options,
    ...(caPem === '' ? {} : { tls: { ca_cert: Buffer.from(caPem) } }),
    request_timeout: REQUEST_TIMEOUT_MS,
    max_open_connections: MAX_CONNECTIONS,
    // Parameters stand in the URL, of which servers take 16 KiB or so; a list of a thousand ids needs a body.
    use_multipart_params_auto: true,
    compression: { request: false, response: false },
    log: { level: 127 },
  });
  const inserter = new Inserter(client);
  const { url, username, database } = options;
  return {
    ...{ url, username, database },
    query: (sql, params = {}, settings = {}) =>
      translateErrors(async () => {
        const result = await client.query({
          query: sql,
          query_params: { ...params },
          format: 'JSONEachRow',
          clickhouse_settings: {
            ...QUERY_TIME_LIMIT,
            output_format_json_quote_64bit_integers: 1,
            ...settings,
          },
        });
        return await result.json();
      }),
    queryRaw: (sql, settings, maxBytes, params = {}, signal = new AbortController().signal) =>
      translateErrors(async () => {
        const result = await client.exec({
          query: sql,
          query_params: params,
          clickhouse_settings: { default_format: 'JSON', ...WAIT_END_OF_QUERY, ...settings },
          abort_signal: signal,
        });
        // The client's own signal is over once the answer begins.
        const stream = addAbortSignal(signal, result.stream);
        const contentType = String(result.response_headers['content-type'] ?? 'application/octet-stream');
        return { contentType, body: await collect(stream, maxBytes) };
      }, callerQueryFailure),
    command: (sql) => translateErrors(() => inserter.command(sql)),
    insertsEndWithinMs: LOSS_DETECTION_MS + REQUEST_TIMEOUT_MS,
    insert: (insert) => translateErrors(() => inserter.insert(insert), insertFailure),
    ping: async () => (await client.ping({ select: true })).success,
    close: () => client.close(),
  };
}

class Inserter {
  readonly #client: ClickHouseClient;
  #isBefore262 = false;

  constructor(client: ClickHouseClient) {
    this.#client = client;
  }

  insert(insert: Insert): Promise<void> {
    const mode = insert.deduplicationToken === undefined ? 'disable' : 'enable';
    return this.#withDeduplication(mode, (settings) => this.#send(insert, settings));
  }

  /** Of its rows none is dropped for being there: whoever repeats an INSERT of a statement has looked, or means it. */
  async command(query: string): Promise<void> {
    if (!IS_INSERT.test(query)) return void (await this.#client.command({ query }));
    await this.#withDeduplication('disable', async (settings) => {
      await this.#client.command({ query, clickhouse_settings: { insert_deduplicate: 0, ...settings } });
    });
  }

  /** @param mode since ClickHouse 26.2 it overrides `insert_deduplicate`, and whatever a server has as default. */
  async #withDeduplication(
    mode: string,
    send: (settings: Readonly<Record<string, string>>) => Promise<void>,
  ) {
    if (this.#isBefore262) return await send({});
    try {
      await send({ deduplicate_insert: mode });
    } catch (error) {
      // Refused with the request's settings, before its rows were read.
      if (!(error instanceof ClickHouseError && error.code === UNKNOWN_SETTING)) throw error;
      await send({});
      this.#isBefore262 = true;
    }
  }

  async #send(insert: Insert, mode: Readonly<Record<string, string>>): Promise<void> {
    const token = insert.deduplicationToken;
    const result = await this.#client.exec({
      query: `INSERT INTO ${insert.table} (${insert.columns.join(', ')}) FORMAT RowBinary`,
      values: Readable.from([insert.rows]),
      clickhouse_settings: {
        ...INSERT_TIME_LIMIT,
        ...ONE_BLOCK,
        async_insert: 0,
        insert_deduplicate: token === undefined ? 0 : 1,
        ...mode,
        ...(token === undefined ? {} : { insert_deduplication_token: token }),
      },
    });
    await collect(result.stream);
  }
}

const IS_INSERT = /^\s*INSERT\b/i;
const UNKNOWN_SETTING = '115';

/** Above any insert of ours, so that ClickHouse neither splits it nor waits for more. */
const ONE_BLOCK = {
  max_insert_block_size: '1048576',
  min_insert_block_size_rows: '1048576',
  min_insert_block_size_bytes: '134217728',
  max_insert_threads: '1',
  input_format_parallel_parsing: 0,
} as const;

/** Leaving the loop destroys the stream, and with it the connection: ClickHouse stops sending. */
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

/** As ClickHouse says it of a result that is beyond `max_result_bytes`. */
const RESULT_TOO_LARGE = { code: '396', type: 'TOO_MANY_ROWS_OR_BYTES' };

function tooLargeMessage(maxBytes: number): string {
  return `the answer is larger than ${Math.floor(maxBytes / 1024)} KiB; ask for fewer rows or columns`;
}

/**
 * ClickHouse's codes for data that no repeat will make acceptable (src/Common/ErrorCodes.cpp). Every other code may
 * pass: a block is only ever given up for its data.
 */
const DATA_ERRORS = new Set([
  '6', // CANNOT_PARSE_TEXT
  '26', // CANNOT_PARSE_QUOTED_STRING
  '27', // CANNOT_PARSE_INPUT_ASSERTION_FAILED
  '32', // ATTEMPT_TO_READ_AFTER_EOF
  '33', // CANNOT_READ_ALL_DATA
  '38', // CANNOT_PARSE_DATE
  '41', // CANNOT_PARSE_DATETIME
  '53', // TYPE_MISMATCH
  '69', // ARGUMENT_OUT_OF_BOUND
  '72', // CANNOT_PARSE_NUMBER
  '117', // INCORRECT_DATA
  '131', // TOO_LARGE_STRING_SIZE
  '321', // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
  '376', // CANNOT_PARSE_UUID
  '407', // DECIMAL_OVERFLOW
  '469', // VIOLATED_CONSTRAINT
]);

/** A query that ClickHouse understood and refused; `code` is its own. Asking again changes nothing. */
export class QueryRejected extends Error {
  override readonly name = 'QueryRejected';
  readonly code: string;

  constructor(error: ClickHouseError) {
    super(error.message, { cause: error });
    this.code = error.code;
  }
}

/** Codes of limits that queries share, and of temporary failures: the same query can succeed later. */
const TEMPORARY_ERRORS = new Set([
  '173', // CANNOT_ALLOCATE_MEMORY
  '201', // QUOTA_EXCEEDED: of the account, by all of its queries in an interval
  '202', // TOO_MANY_SIMULTANEOUS_QUERIES
  '209', // SOCKET_TIMEOUT, of a distributed query, as the next two
  '210', // NETWORK_ERROR
  '279', // ALL_CONNECTION_TRIES_FAILED
  '241', // MEMORY_LIMIT_EXCEEDED, unless it is the query's own limit
  '243', // NOT_ENOUGH_SPACE
  '394', // QUERY_WAS_CANCELLED
  '439', // CANNOT_SCHEDULE_TASK
  '745', // SERVER_OVERLOADED
]);

/**
 * ClickHouse's texts for a query's own memory limit, `max_memory_usage`: the first text since version 24.11, the second
 * in earlier versions. The limits of an account ("User", "(for user)") and of the server ("(total)") are shared with
 * other queries.
 */
const OWN_MEMORY_LIMIT = /Query memory limit exceeded|Memory limit \(for query\) exceeded/;

/** Of a query: what only another text, or other tables, would change. Everything else may pass. */
const QUERY_ERRORS = new Set([
  '36', // BAD_ARGUMENTS
  '42', // NUMBER_OF_ARGUMENTS_DOESNT_MATCH
  '43', // ILLEGAL_TYPE_OF_ARGUMENT
  '46', // UNKNOWN_FUNCTION
  '47', // UNKNOWN_IDENTIFIER
  '48', // NOT_IMPLEMENTED
  '60', // UNKNOWN_TABLE
  '62', // SYNTAX_ERROR
  UNKNOWN_SETTING,
  '386', // NO_COMMON_TYPE
  '396', // TOO_MANY_ROWS_OR_BYTES
  '457', // BAD_QUERY_PARAMETER
]);

/**
 * Only an insert can be refused for its data: the same code in a query is a query of ours that is wrong. Whatever else
 * an insert meets (a full disk has many codes) may pass, and its rows must not be given up.
 */
function insertFailure(error: ClickHouseError): Error {
  if (DATA_ERRORS.has(error.code))
    return new Invalid(`ClickHouse refuses the data: ${error.message}`, { cause: error });
  return new Unavailable(`ClickHouse did not insert: ${error.message}`, { cause: error });
}

function queryFailure(error: ClickHouseError): Error {
  if (QUERY_ERRORS.has(error.code) || DATA_ERRORS.has(error.code)) return new QueryRejected(error);
  return new Unavailable(`ClickHouse: ${error.message}`, { cause: error });
}

/**
 * Translates the failure of a caller's query. Such a query can fail in more ways than Questlog's own queries, so it is
 * rejected unless the failure is temporary.
 */
function callerQueryFailure(error: ClickHouseError): Error {
  const isTemporary = TEMPORARY_ERRORS.has(error.code) && !OWN_MEMORY_LIMIT.test(error.message);
  return isTemporary ? queryFailure(error) : new QueryRejected(error);
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
