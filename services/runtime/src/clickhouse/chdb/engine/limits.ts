/** All limits of the embedded ClickHouse. They determine its memory and its queues. */

const MiB = 1024 * 1024;

/** Maximum number of concurrent queries. Each occupies one of four libuv threads. Files and KILL need one free thread. */
export const DEFAULT_CONCURRENT_QUERIES = 2;
/** Maximum number of concurrent queries of readers. Their memory limit leaves enough memory for one query of the product. */
export const DEFAULT_CONCURRENT_READERS = 1;
/** Maximum concurrent queries in a separate process with sixteen threads. The other six serve files, probes, and KILL. */
export const PROCESS_CONCURRENT_QUERIES = 8;
export const PROCESS_CONCURRENT_READERS = 2;
/** Maximum number of open requests: being read, queued, or answered. Further requests are rejected with error 202. */
export const MAX_OPEN_REQUESTS = 256;
/** Maximum bytes of unsent results on disk. No query starts while the limit is exceeded. */
export const MAX_UNSENT_RESULT_BYTES = 4096 * MiB;
/** Maximum bytes of a query's text, without the data of an INSERT. */
export const MAX_QUERY_TEXT_BYTES = 16 * MiB;
/** Maximum bytes of a reader's request: ClickHouse's `max_query_size`. A check of longer text would delay other requests. */
export const MAX_READER_TEXT_BYTES = 256 * 1024;
/** Maximum bytes of a body that are searched for an INSERT with data: ClickHouse's own limit for the text of a query. */
export const MAX_INSERT_TEXT_BYTES = 256 * 1024;
/** Maximum bytes of a query's normalized text. The text that runs also contains the path of a file. */
export const MAX_NORMALIZED_BYTES = 4 * MAX_QUERY_TEXT_BYTES;
/** Maximum number of cached normalized statements, and maximum length of a cached statement. */
export const MAX_CACHED_STATEMENTS = 1_000;
export const MAX_CACHED_STATEMENT_CHARACTERS = 4_096;
/** Maximum bytes of an INSERT's decompressed data. The data is written to a file, so the limit applies to disk usage. */
export const MAX_INSERT_BODY_BYTES = 1024 * MiB;
/** Maximum bytes of an INSERT that becomes one block, and therefore one part per partition. ClickHouse splits a larger INSERT. */
export const MAX_ONE_BLOCK_BYTES = 64 * MiB;
/** Maximum bytes of a rejected request's body that are read before the error is sent and the connection is closed. */
export const MAX_DISCARDED_BYTES = 64 * MiB;
export const MAX_FORM_BYTES = 16 * MiB;
/** Maximum bytes of a result, as the engine counts them before formatting. */
export const MAX_RESULT_BYTES = 256 * MiB;
/** Maximum bytes of a result's file. The formatted text can be many times larger than the counted size. */
export const MAX_RESULT_FILE_BYTES = 2048 * MiB;
export const RESULT_CHECK_INTERVAL_MS = 200;
/** Maximum bytes of a result that is sent from memory and not as a stream. */
export const MAX_BUFFERED_RESULT_BYTES = 64 * 1024;
export const MAX_QUERY_MEMORY_BYTES = 448 * MiB;
export const MAX_READER_MEMORY_BYTES = 96 * MiB;
/** Memory in bytes above which a sort or grouping spills to disk. */
export const SPILL_BYTES = 64 * MiB;
/** Memory in bytes above which a reader's sort, grouping, or join spills to disk. Each thread keeps a part in memory. */
export const READER_SPILL_BYTES = 24 * MiB;
/** Buffer in bytes of a reader's temporary file (default: 1 MiB). A join of two million sessions writes 64 such files. */
export const READER_SPILL_BUFFER_BYTES = 64 * 1024;
/** Maximum memory of the whole engine in bytes. The Node process needs more memory for its heap and buffers. */
export const MAX_ENGINE_MEMORY_BYTES = 640 * MiB;
export const MAX_EXECUTION_SECONDS = 60;
export const MAX_READER_SECONDS = 30;
/** Seconds between a reader's time limit and the end of the process, which stops a statement that ignores its limit. */
export const READER_OVERTIME_SECONDS = 5;
/** Maximum wait for running requests during a close, and then for cancelled queries. */
export const CLOSE_GRACE_MS = 10_000;
export const CANCEL_GRACE_MS = 3_000;
/** Interval between the KILLs of an abandoned query. The first KILL may be sent before ClickHouse lists the query. */
export const KILL_INTERVAL_MS = 100;
/** Time after which an idle connection is closed. Clients must use a shorter time. */
export const KEEP_ALIVE_MS = 30_000;
/** Time without traffic after which a connection is closed. The time is longer than any query that a client waits for. */
export const SOCKET_IDLE_MS = 1_800_000;
