// Plain JavaScript, so that a Node too old for TypeScript says so in words.
const MINIMUM_MAJOR = 24;

if (Number(process.versions.node.split('.')[0]) < MINIMUM_MAJOR) {
  console.error(
    `questlog: Node ${MINIMUM_MAJOR} or newer is needed on ${process.platform}-${process.arch}, this is ${process.versions.node}`,
  );
  process.exit(1);
}
// Before anything uses libuv's pool: each query of the embedded ClickHouse holds one of its threads.
process.env.UV_THREADPOOL_SIZE ??= '16';
await import('./src/main.ts');
