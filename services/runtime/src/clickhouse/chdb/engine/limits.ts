/** All limits of the embedded ClickHouse. */

const MiB = 1024 * 1024;

/**
 * By default, two queries of Questlog and one query of the `reader` account can run at the same time. Each query occupies one
 * of four libuv threads, so one thread stays free for KILL.
 */
export const DEFAULT_CONCURRENT_QUERIES = 2;
export const DEFAULT_CONCURRENT_READERS = 1;
/** Maximum number of concurrent queries if the engine has its own process with sixteen libuv threads. */
export const PROCESS_CONCURRENT_QUERIES = 8;
export const PROCESS_CONCURRENT_READERS = 2;
/** Maximum number of unanswered requests of a reader's account. Further requests are rejected with ClickHouse's error 202. */
export const MAX_OPEN_REQUESTS = 64;
/** No query starts if the unsent results on disk exceed this number of bytes. */
export const MAX_UNSENT_RESULT_BYTES = 4096 * MiB;
export const MAX_QUERY_TEXT_BYTES = 16 * MiB;
/** Maximum bytes of a reader's request, equal to ClickHouse's `max_query_size`. */
export const MAX_READER_TEXT_BYTES = 256 * 1024;
/** Maximum bytes of an INSERT statement without its rows, equal to ClickHouse's limit for the text of a query. */
export const MAX_INSERT_TEXT_BYTES = 256 * 1024;
export const MAX_NORMALIZED_BYTES = 4 * MAX_QUERY_TEXT_BYTES;
export const MAX_CACHED_STATEMENTS = 1_000;
export const MAX_CACHED_STATEMENT_CHARACTERS = 4_096;
/** Maximum bytes of the data of an INSERT after decompression. The data is written to a file on the disk. */
export const MAX_INSERT_BODY_BYTES = 1024 * MiB;
/** Maximum bytes of an INSERT that is stored as one block. ClickHouse splits a larger INSERT into several blocks. */
export const MAX_ONE_BLOCK_BYTES = 64 * MiB;
/** Maximum bytes that are read from the body of a rejected request before the error is sent. */
export const MAX_DISCARDED_BYTES = 64 * MiB;
export const MAX_FORM_BYTES = 16 * MiB;
export const MAX_RESULT_BYTES = 256 * MiB;
/** Maximum bytes of a formatted result. A formatted result can be many times larger than the unformatted result. */
export const MAX_RESULT_FILE_BYTES = 2048 * MiB;
export const RESULT_CHECK_INTERVAL_MS = 200;
/** Maximum bytes of a result that is sent from memory. A larger result is streamed from a file. */
export const MAX_BUFFERED_RESULT_BYTES = 64 * 1024;
export const MAX_QUERY_MEMORY_BYTES = 448 * MiB;
export const MAX_READER_MEMORY_BYTES = 96 * MiB;
/** Bytes of memory above which a sort or grouping continues on disk. */
export const SPILL_BYTES = 64 * MiB;
/** Bytes of memory above which a reader's sort, grouping, or join continues on disk. */
export const READER_SPILL_BYTES = 24 * MiB;
/**
 * Size in bytes of the write buffer for a temporary file of a reader's query. The buffer is small, because a join of two
 * million sessions writes 64 temporary files.
 */
export const READER_SPILL_BUFFER_BYTES = 64 * 1024;
/** Maximum memory of the engine in bytes, without the heap and buffers of the Node process. */
export const MAX_ENGINE_MEMORY_BYTES = 640 * MiB;
/** Maximum execution time of a studio's account per hour. The account runs one query at a time, so this time is half of each hour. */
export const STUDIO_QUOTA_SECONDS = 1_800;
export const MAX_EXECUTION_SECONDS = 60;
export const MAX_READER_SECONDS = 30;
/** If a reader's query exceeds its time limit by more than this number of seconds, the process of the engine is killed. */
export const READER_OVERTIME_SECONDS = 5;
export const CLOSE_GRACE_MS = 10_000;
export const CANCEL_GRACE_MS = 3_000;
export const KILL_INTERVAL_MS = 100;
/** Time after which the server closes an idle connection. Clients must close idle connections earlier. */
export const KEEP_ALIVE_MS = 30_000;
/** Time after which a connection without traffic is closed. The time is long, because a running query causes no traffic. */
export const SOCKET_IDLE_MS = 1_800_000;
