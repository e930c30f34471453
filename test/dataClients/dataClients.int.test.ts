/** Tests the clients of data teams with the embedded ClickHouse and its user `reader`. */
import { aClickHouse, type TestServer } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { ALL_TYPES } from './allTypes.ts';
import { testDataClients } from './testDataClients.ts';

let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse({ maxConcurrentReaders: 2 });
  for (const statement of ALL_TYPES) await it.ask(statement);
});
afterAll(() => it[Symbol.asyncDispose]());

const running = () => it.number("SELECT count() FROM system.processes WHERE query LIKE 'SELECT sum(sip%'");
afterEach(() => expect.poll(running).toBe(0));

await testDataClients(() => ({ ...it.reader, host: new URL(it.server.url).host }));
