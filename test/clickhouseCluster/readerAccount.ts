/** Creates the read-only account of data teams on a ClickHouse server. */
import { readFileSync } from 'node:fs';
import { openStore } from '@questlog/runtime/clickhouse/store';

const ACCOUNT = new URL('../../deploy/clickhouseReader.sql', import.meta.url);
const PASSWORD = 'read-only';

/**
 * Creates the account of `deploy/clickhouseReader.sql` on a node.
 * @param databases databases that the account can read, for example `questlog*`. @returns the address with the account
 */
export async function createReader(node: string, databases: string): Promise<URL> {
  const address = new URL(node);
  const { origin: url, username, password } = address;
  const store = openStore({ url, username, password, database: 'default' });
  const account = readFileSync(ACCOUNT, 'utf8')
    .replaceAll(/^--.*$/gm, '')
    .replace('<password>', PASSWORD)
    .replace('questlog.*', `${databases}.*`);
  for (const statement of account.split(';').filter((text) => text.trim() !== ''))
    await store.command(statement);
  await store.close();
  address.username = 'questlog_reader';
  address.password = PASSWORD;
  return address;
}
