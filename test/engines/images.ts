/** Docker images of the tests, in the same versions as in docker-compose.yml. */

export const KAFKA_IMAGE = 'apache/kafka:4.3.1';
export const REGISTRY_IMAGE = 'quay.io/apicurio/apicurio-registry:3.0.9';
/** A version with long-term support. The Docker workflow also tests the oldest supported version. */
export const CLICKHOUSE_IMAGE = `clickhouse/clickhouse-server:${process.env['QUESTLOG_TEST_CLICKHOUSE_VERSION'] ?? '26.3.17.110'}`;
/** Keeper of the ClickHouse cluster in the tests. */
export const CLICKHOUSE_KEEPER_IMAGE = 'clickhouse/clickhouse-keeper:26.3.17.110';
/** Removes the containers of killed tests; testcontainers 11 uses this one. Tests also run without it. */
export const REAPER_IMAGE = 'testcontainers/ryuk:0.14.0';
