/** Opens `@clickhouse/client` as data teams use it. */
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';

export type NodeClient = ReturnType<typeof openNodeClient>;

/** Opens a client that accepts compressed responses and logs no errors. */
export function openNodeClient(
  url: string,
  account: { readonly username: string; readonly password: string },
) {
  const [compression, log] = [{ response: true }, { level: ClickHouseLogLevel.OFF }];
  return createClient({ url, ...account, database: 'questlog', compression, log });
}
