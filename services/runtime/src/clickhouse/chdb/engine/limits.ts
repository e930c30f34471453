/** All limits of the embedded ClickHouse, which determine its memory and its queues. */

const MiB = 1024 * 1024;

/** Concurrent queries. Each occupies one of Node's four libuv threads, and one must stay free for files and KILL. */
export const DEFAULT_CONCURRENT_QUERIES = 2;
/** Concurrent queries of readers. Their memory limit leaves enough memory for one query of the product. */
export const DEFAULT_CONCURRENT_READERS = 1;
/** The limits of a separate process, which has sixteen threads. The remaining six serve files, probes, and KILL. */
export const PROCESS_CONCURRENT_QUERIES = 8;
export const PROCESS_CONCURRENT_READERS = 2;
/** Open requests: being read, queued, or answered. Further requests are rejected with error 202. */
export const MAX_OPEN_REQUESTS = 256;
/** Unsent results on disk. Above this limit, no query starts. */
export const MAX_UNSENT_RESULT_BYTES = 4096 * MiB;
/** Text of a query, without the data of an INSERT. */
export const MAX_QUERY_TEXT_BYTES = 16 * MiB;
/** Whole request of a reader: ClickHouse's own `max_query_size`. Checking longer texts would delay other requests. */
export const MAX_READER_TEXT_BYTES = 256 * 1024;
/** Beginning of a body that is searched for an INSERT with data: ClickHouse's own limit for the text of a query. */
export const MAX_INSERT_TEXT_BYTES = 256 * 1024;
/** Normalized text of a query, which runs with an added path. */
export const MAX_NORMALIZED_BYTES = 4 * MAX_QUERY_TEXT_BYTES;
/** Cached normalized statements, and the maximum length of a cached statement. */
export const MAX_CACHED_STATEMENTS = 1_000;
export const MAX_CACHED_STATEMENT_CHARACTERS = 4_096;
/** Decompressed data of an INSERT. The data is written to a file, so this limits disk usage. */
export const MAX_INSERT_BODY_BYTES = 1024 * MiB;
/** An INSERT up to this size is one block, and thus one part per partition. ClickHouse splits a larger one. */
export const MAX_ONE_BLOCK_BYTES = 64 * MiB;
/** Body bytes of a rejected request that are read before the error is sent and the connection closed. */
export const MAX_DISCARDED_BYTES = 64 * MiB;
export const MAX_FORM_BYTES = 16 * MiB;
/** Result size as the engine counts it before formatting. */
export const MAX_RESULT_BYTES = 256 * MiB;
/** File of a result. Text can be many times larger than the counted size. */
export const MAX_RESULT_FILE_BYTES = 2048 * MiB;
export const RESULT_CHECK_INTERVAL_MS = 200;
/** Results up to this size are sent from memory, not as a stream. */
export const MAX_BUFFERED_RESULT_BYTES = 64 * 1024;
export const MAX_QUERY_MEMORY_BYTES = 448 * MiB;
export const MAX_READER_MEMORY_BYTES = 96 * MiB;
/** Memory above which a sort or grouping spills to disk. */
export const SPILL_BYTES = 64 * MiB;
/** Memory above which a reader's sort, grouping, or join spills to disk. Each thread holds a part while it writes. */
export const READER_SPILL_BYTES = 24 * MiB;
/** Buffer of a reader's temporary file (default: 1 MiB). A join of two million sessions writes 64 files. */
export const READER_SPILL_BUFFER_BYTES = 64 * 1024;
/** Memory of the whole engine. The Node process needs its heap and buffers in addition. */
export const MAX_ENGINE_MEMORY_BYTES = 640 * MiB;
export const MAX_EXECUTION_SECONDS = 60;
export const MAX_READER_SECONDS = 30;
/** Grace period after a reader's time limit. Then the process is ended. */
export const READER_OVERTIME_SECONDS = 5;
/** Time for which closing waits for running requests, and then for cancelled queries. */
export const CLOSE_GRACE_MS = 10_000;
export const CANCEL_GRACE_MS = 3_000;
/** Interval between KILLs of an abandoned query. The first KILL can come before ClickHouse lists the query. */
export const KILL_INTERVAL_MS = 100;
/** Idle connections are closed after this time. Clients must use a shorter limit. */
export const KEEP_ALIVE_MS = 30_000;
/** Time without traffic after which a connection is closed. Longer than any query that a client waits for. */
export const SOCKET_IDLE_MS = 1_800_000;
