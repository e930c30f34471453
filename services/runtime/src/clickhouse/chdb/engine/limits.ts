/** Every bound of the embedded ClickHouse, in one place, so that its memory and its queues can be read off. */

const MiB = 1024 * 1024;

/** Queries in the engine at once. Each holds a libuv thread; Node has four, and one must stay free for files and KILL. */
export const DEFAULT_CONCURRENT_QUERIES = 2;
/** Queries of readers beside them: with what each may allocate, they leave room for one of the product. */
export const DEFAULT_CONCURRENT_READERS = 1;
/** The same in a process of its own, which has sixteen threads: the six that are left serve files, probes and KILL. */
export const PROCESS_CONCURRENT_QUERIES = 8;
export const PROCESS_CONCURRENT_READERS = 2;
/** Requests that are read, queued or answered at once; the next one is refused with error 202. */
export const MAX_OPEN_REQUESTS = 256;
/** Results on disk that clients have not yet read; above it no further query starts. */
export const MAX_UNSENT_RESULT_BYTES = 4096 * MiB;
/** A query's text (an INSERT's data does not count). */
export const MAX_QUERY_TEXT_BYTES = 16 * MiB;
/** All that a reader sends: ClickHouse's own `max_query_size`. Longer ones would hold up everybody while they are checked. */
export const MAX_READER_TEXT_BYTES = 256 * 1024;
/** What of a body is looked at for an INSERT with data, whose text ends before: as much as ClickHouse parses of a query. */
export const MAX_INSERT_TEXT_BYTES = 256 * 1024;
/** The print of a query's text, which runs with a path added. */
export const MAX_NORMALIZED_BYTES = 4 * MAX_QUERY_TEXT_BYTES;
/** Prints that are kept, and the longest statement whose print is. */
export const MAX_CACHED_STATEMENTS = 1_000;
export const MAX_CACHED_STATEMENT_CHARACTERS = 4_096;
/** An INSERT's data after decompression; it goes through a file, so this bounds the disk. */
export const MAX_INSERT_BODY_BYTES = 1024 * MiB;
/** An INSERT up to this size is one block, and so one part a partition; a larger one is cut, as ClickHouse does. */
export const MAX_ONE_BLOCK_BYTES = 64 * MiB;
/** What is read of a refused request's body before the error is answered and the connection closed. */
export const MAX_DISCARDED_BYTES = 64 * MiB;
/** A multipart form with a query and its parameters. */
export const MAX_FORM_BYTES = 16 * MiB;
/** A result as the engine counts it before it is formatted. */
export const MAX_RESULT_BYTES = 256 * MiB;
/** The file of a result: text can be many times what was counted. */
export const MAX_RESULT_FILE_BYTES = 2048 * MiB;
/** How often a growing file is looked at. */
export const RESULT_CHECK_INTERVAL_MS = 200;
/** A result up to this size is sent from memory and not as a stream. */
export const MAX_BUFFERED_RESULT_BYTES = 64 * 1024;
/** What one query may allocate in the engine. */
export const MAX_QUERY_MEMORY_BYTES = 448 * MiB;
/** What one query of a reader may allocate. */
export const MAX_READER_MEMORY_BYTES = 96 * MiB;
/** A sort or a grouping that holds more than this goes on on the disk. */
export const SPILL_BYTES = 64 * MiB;
/** Memory above which a reader's sort, grouping or join spills to disk; each thread holds a share while it writes. */
export const READER_SPILL_BYTES = 24 * MiB;
/** Buffer of each temporary file of a reader. A join of two million sessions writes 64 of them; 1 MiB each is the default. */
export const READER_SPILL_BUFFER_BYTES = 64 * 1024;
/** What the engine may allocate in all; the Node process adds its heap and its buffers to it. */
export const MAX_ENGINE_MEMORY_BYTES = 640 * MiB;
/** How long one query may run. */
export const MAX_EXECUTION_SECONDS = 60;
/** How long a statement of a reader may run. */
export const MAX_READER_SECONDS = 30;
/** What it gets beyond that to notice, until the process is ended for it. */
export const READER_OVERTIME_SECONDS = 5;
/** How long closing waits for running requests, and after that for the queries it has cancelled. */
export const CLOSE_GRACE_MS = 10_000;
export const CANCEL_GRACE_MS = 3_000;
/** How often an abandoned query is killed again until it has ended: it may not have been visible the first time. */
export const KILL_INTERVAL_MS = 100;
/** How long an idle connection of a client is kept; clients reuse theirs for less than this. */
export const KEEP_ALIVE_MS = 30_000;
/** A connection on which nothing moves for this long is cut off: longer than any query that one would wait for. */
export const SOCKET_IDLE_MS = 1_800_000;
