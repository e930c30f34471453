/** Inserts batches and prints the number of each acknowledged batch until it is killed. */

import { startEmbeddedClickHouse } from '../embeddedClickHouse.ts';
import { auth } from './aClickHouse.ts';

const [directory = '', firstBatch = '0', rows = '100'] = process.argv.slice(2);
const server = await startEmbeddedClickHouse({ directory, password: 'secret' });

async function send(body: string): Promise<void> {
  const response = await fetch(server.url, { method: 'POST', body, headers: auth(server) });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
}

await send('CREATE TABLE IF NOT EXISTS t (batch UInt64, at UInt64) ENGINE = MergeTree ORDER BY (batch, at)');
for (let batch = Number(firstBatch); ; batch += 1) {
  const lines = Array.from({ length: Number(rows) }, (_, at) => `${batch},${at}`);
  await send(`INSERT INTO t FORMAT CSV\n${lines.join('\n')}\n`);
  console.log(batch);
}
