/** Stands in for a ClickHouse server's image: the embedded engine, taking the variables and the port of that image. */
import { connect, createServer } from 'node:net';
import { startEmbeddedClickHouse } from '@questlog/runtime/clickhouse/chdb/embeddedClickHouse';

const PORT = 8123;

const {
  CLICKHOUSE_USER: username = 'default',
  CLICKHOUSE_PASSWORD: password = '',
  CLICKHOUSE_DB: database = 'default',
} = process.env;

const options = { directory: '/var/lib/clickhouse', username, password, maxConcurrentQueries: 12 };
const server = await startEmbeddedClickHouse(options);
const answer = await fetch(server.url, {
  method: 'POST',
  headers: { Authorization: `Basic ${btoa(`${username}:${password}`)}` },
  body: `CREATE DATABASE IF NOT EXISTS \`${database}\` ENGINE = Atomic`,
});
if (!answer.ok) throw new Error(await answer.text());

// The engine listens to its own machine only, which in a container is the container.
const own = new URL(server.url);
createServer((client) => {
  const engine = connect(Number(own.port), own.hostname);
  client.pipe(engine).pipe(client);
  client.on('error', () => engine.destroy());
  engine.on('error', () => client.destroy());
}).listen(PORT, '0.0.0.0');

process.once('SIGTERM', () => void server.close().then(() => process.exit()));
