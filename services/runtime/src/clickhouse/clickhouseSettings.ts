/** Settings of ClickHouse: the address, the accounts, and the port of the embedded ClickHouse. */
import { checkSettings, rejectIf, type SettingsOf, setting } from '../process/config.ts';
import { StartRefused } from '../process/errors.ts';
import type { ListenAddress } from '../process/listener/listenAddress.ts';
import type { ClusterOptions } from './cluster/clusterNodes.ts';
import type { StoreOptions } from './store.ts';

export const clickhouseSettings = {
  clickhouseUrl: setting.optional({
    env: 'CLICKHOUSE_URL',
    description:
      'Address of ClickHouse’s HTTP interface (`http://user:password@host:8123/database`). If empty, `standalone` uses the embedded ClickHouse. With `CLICKHOUSE_CLUSTER`: addresses of all nodes, separated by commas.',
  }),
  clickhouseCluster: setting.optional({
    env: 'CLICKHOUSE_CLUSTER',
    description: 'Name of a ClickHouse cluster in `remote_servers` (experimental).',
  }),
  clickhouseUsername: setting.optional({
    env: 'CLICKHOUSE_USERNAME',
    alias: { env: 'CLICKHOUSE_USER', isDeprecated: false },
    description: 'Overrides the user in the address; `default` if neither is set.',
  }),
  clickhousePassword: setting.secret({
    env: 'CLICKHOUSE_PASSWORD',
    description: 'Overrides the password in the address.',
  }),
  clickhouseDatabase: setting.optional({
    env: 'CLICKHOUSE_DATABASE',
    description: 'Overrides the database in the address; `questlog` if neither is set.',
  }),
  clickhousePort: setting.integer({
    env: 'QUESTLOG_CLICKHOUSE_PORT',
    default: 0,
    minimum: 0,
    maximum: 65_535,
    description:
      'Port of the embedded ClickHouse on 127.0.0.1. 0: the port of the last start if it is free, otherwise any free port.',
  }),
  clickhouseReaderUrl: setting.optional({
    env: 'CLICKHOUSE_READER_URL',
    description:
      'Address of the same ClickHouse with a read-only account, for `POST /admin/sql`. The embedded ClickHouse creates this account itself. With `CLICKHOUSE_CLUSTER`: addresses of some or all nodes, separated by commas.',
  }),
  clickhouseStoragePolicy: setting.optional({
    env: 'CLICKHOUSE_STORAGE_POLICY',
    description:
      'Storage policy of all tables, which must contain the volumes of the current policy. If empty, the policy does not change.',
  }),
  clickhouseTlsCa: setting.optional({
    env: 'CLICKHOUSE_TLS_CA',
    description: 'Certificate authorities of ClickHouse’s certificate, in PEM.',
  }),
} as const;

type Settings = SettingsOf<typeof clickhouseSettings>;

/** @throws StartRefused with the names of all invalid settings */
export function clickhouseOptions(settings: Settings, mayBeEmbedded: boolean) {
  const { clickhouseUrl, clickhouseCluster, clickhouseReaderUrl, clickhousePort: port } = settings;
  const { clickhouseStoragePolicy: storagePolicy } = settings;
  const hasUrl = clickhouseUrl !== '';
  const { addresses, readers } = checkSettings({
    url: () => rejectIf(!hasUrl && !mayBeEmbedded, URL_REQUIRED),
    cluster: () => rejectIf(!hasUrl && clickhouseCluster !== '', CLUSTER_NEEDS_URL),
    readerUrl: () => rejectIf(!hasUrl && clickhouseReaderUrl !== '', READER_NEEDS_URL),
    storagePolicy: () =>
      rejectIf(storagePolicy !== '' && !(hasUrl && STORAGE_POLICY.test(storagePolicy)), POLICY_INVALID),
    addresses: () => (hasUrl ? clickhouseAddresses(settings) : []),
    readers: () => readerAccounts(settings),
  });
  const names = { host: 'QUESTLOG_CLICKHOUSE_PORT', port: 'QUESTLOG_CLICKHOUSE_PORT' };
  const embeddedAddress: ListenAddress = { host: '127.0.0.1', port, settings: names };
  const cluster: ClusterOptions | undefined =
    clickhouseCluster === '' ? undefined : { name: clickhouseCluster, nodes: addresses };
  const other = readers.find(({ url }) => !addresses.some((node) => node.url === url));
  if (cluster !== undefined && other !== undefined)
    throw new StartRefused(`CLICKHOUSE_READER_URL: CLICKHOUSE_URL does not contain the address ${other.url}`);
  return { address: addresses[0], cluster, storagePolicy, readers, embeddedAddress };
}

const URL_REQUIRED = 'CLICKHOUSE_URL: required here; only `questlog standalone` can use embedded engines';
const CLUSTER_NEEDS_URL = 'CLICKHOUSE_CLUSTER: requires CLICKHOUSE_URL with the addresses of all nodes';
const READER_NEEDS_URL =
  'CLICKHOUSE_READER_URL: requires CLICKHOUSE_URL; the embedded ClickHouse has its own read-only account';
const STORAGE_POLICY = /^[\w.-]{1,128}$/;
const POLICY_INVALID =
  'CLICKHOUSE_STORAGE_POLICY: requires CLICKHOUSE_URL, and can contain only letters, digits, underscores, dots, and hyphens';
const DEFAULT_USER = 'default';
const DEFAULT_DATABASE = 'questlog';
/** Database names that SQL accepts without quotes. The migrations contain the name of the database without quotes. */
const DATABASE = /^[A-Za-z_]\w{0,127}$/;

/** Matches a comma between two addresses, but not a comma in a password. */
const SEPARATOR = /,\s*(?=https?:\/\/)/;
/** Cluster names that SQL accepts in a string and in backticks. */
const CLUSTER = /^[\w.-]{1,128}$/;

/** Returns one address, or the addresses of all nodes of the cluster. */
export function clickhouseAddresses(settings: Settings): StoreOptions[] {
  const { clickhouseCluster: cluster } = settings;
  const urls = settings.clickhouseUrl.split(SEPARATOR);
  if (cluster === '' && urls.length > 1)
    throw new StartRefused('CLICKHOUSE_URL: several addresses require CLICKHOUSE_CLUSTER');
  if (cluster !== '' && !CLUSTER.test(cluster))
    throw new StartRefused(
      'CLICKHOUSE_CLUSTER: the name can contain only letters, digits, underscores, dots, and hyphens',
    );
  const addresses = urls.map((clickhouseUrl) => clickhouseAddress({ ...settings, clickhouseUrl }));
  if (new Set(addresses.map(({ url }) => url)).size < addresses.length)
    throw new StartRefused('CLICKHOUSE_URL: contains an address twice');
  if (new Set(addresses.map(({ database }) => database)).size > 1)
    throw new StartRefused('CLICKHOUSE_URL: all addresses must name the same database');
  return addresses;
}

function clickhouseAddress(settings: Settings): StoreOptions {
  const url = addressOf('CLICKHOUSE_URL', settings.clickhouseUrl);
  const database = settings.clickhouseDatabase || segments(url)[0] || DEFAULT_DATABASE;
  if (!DATABASE.test(database) || segments(url).length > 1) {
    throw new StartRefused(
      'CLICKHOUSE_URL, CLICKHOUSE_DATABASE: the name of the database can contain only letters, digits, and underscores',
    );
  }
  return {
    url: url.origin,
    username: settings.clickhouseUsername || decodeURIComponent(url.username) || DEFAULT_USER,
    password: settings.clickhousePassword || decodeURIComponent(url.password),
    database,
    caPem: settings.clickhouseTlsCa,
  };
}

export type ReaderAccount = Pick<StoreOptions, 'url' | 'username' | 'password'>;

/** Returns the read-only account of each address in `CLICKHOUSE_READER_URL`. */
function readerAccounts({ clickhouseReaderUrl, clickhouseCluster }: Settings): ReaderAccount[] {
  if (clickhouseReaderUrl === '') return [];
  const addresses = clickhouseReaderUrl.split(SEPARATOR);
  if (clickhouseCluster === '' && addresses.length > 1)
    throw new StartRefused('CLICKHOUSE_READER_URL: several addresses require CLICKHOUSE_CLUSTER');
  return addresses.map((address) => {
    const { origin: url, username, password } = addressOf('CLICKHOUSE_READER_URL', address);
    if (username === '')
      throw new StartRefused('CLICKHOUSE_READER_URL: must be http://user:password@host:port');
    return { url, username: decodeURIComponent(username), password: decodeURIComponent(password) };
  });
}

function addressOf(setting: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol)) return url;
  throw new StartRefused(`${setting}: must be an http:// or https:// address`);
}

function segments(url: URL): string[] {
  return url.pathname.split('/').filter((segment) => segment !== '');
}
