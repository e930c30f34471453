/** Starts the engines of a run in Docker with testcontainers. */
import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import {
  type ContainerRuntimeClient,
  GenericContainer,
  Network,
  type StartedNetwork,
  type StartedTestContainer,
  Wait,
} from 'testcontainers';
import type { Part } from './choice.ts';
import { dockerClient, isThere } from './docker.ts';
import {
  addressOf,
  type BrokerAddress,
  brokerEnvironment,
  OUTSIDE_PORT,
  planBrokers,
} from './dockerBrokers.ts';
import { CLICKHOUSE_IMAGE, KAFKA_IMAGE, REAPER_IMAGE, REGISTRY_IMAGE } from './images.ts';
import type { StartedEngines } from './startedEngines.ts';

const STARTUP_TIMEOUT_MS = 180_000;
const REGISTRY_PORT = 8_080;
const CLICKHOUSE_PORT = 8_123;
const READER_XML = fileURLToPath(new URL('../../deploy/docker/clickhouseReader.xml', import.meta.url));
/** Stops waiting if the container exits. */
const UNLESS_ENDED = { abortOnContainerExit: true };
const RUN_LABEL = 'questlog.tests';

/** Starts the engines. @throws Error if Docker or a container fails. All containers are removed then. */
export async function startDockerEngines(parts: readonly Part[]): Promise<StartedEngines> {
  const docker = await dockerClient();
  if (docker === undefined) throw new Error('Docker does not answer any more');
  await doWithoutReaper(docker);
  const host = hostOf(docker);
  const network = await new Network().start();
  const run = { [RUN_LABEL]: network.getId() };
  const stop = async (): Promise<void> => {
    await removeContainers(docker, run);
    await network.stop();
  };
  const start = (container: GenericContainer): Promise<StartedTestContainer> =>
    container.withLabels(run).withStartupTimeout(STARTUP_TIMEOUT_MS).start();
  try {
    return { ...(await startParts(parts, host, network, start)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Start = (container: GenericContainer) => Promise<StartedTestContainer>;

async function startParts(
  parts: readonly Part[],
  host: string,
  network: StartedNetwork,
  start: Start,
): Promise<Omit<StartedEngines, 'stop'>> {
  const brokers = parts.includes('KAFKA_BROKERS') ? await planBrokers(host, 'broker', 3) : [];
  // Starts the brokers at the same time, because the brokers of a quorum wait for each other.
  const [, registry, clickhouse] = await allOrFirstError([
    Promise.all(brokersOf(brokers, network).map(start)),
    parts.includes('SCHEMA_REGISTRY_URL') ? startRegistry(host, start) : undefined,
    parts.includes('CLICKHOUSE_URL') ? startClickHouse(host, start) : undefined,
  ]);
  return {
    addresses: {
      ...(brokers.length > 0 && { KAFKA_BROKERS: brokers.map(addressOf).join(',') }),
      ...(registry !== undefined && { SCHEMA_REGISTRY_URL: registry }),
      ...(clickhouse !== undefined && { CLICKHOUSE_URL: clickhouse }),
    },
  };
}

/** Like Promise.all, but waits for all promises before it throws, so that the caller can stop all containers. */
async function allOrFirstError<T extends readonly unknown[]>(
  promises: readonly [...T],
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

function brokersOf(brokers: readonly BrokerAddress[], network: StartedNetwork): GenericContainer[] {
  const clusterId = randomBytes(16).toString('base64url');
  return brokers.map((broker) =>
    new GenericContainer(KAFKA_IMAGE)
      .withNetwork(network)
      .withNetworkAliases(broker.name)
      .withExposedPorts({ container: OUTSIDE_PORT, host: broker.port })
      .withEnvironment(brokerEnvironment(clusterId, broker, brokers))
      // The broker logs this message after the controllers allow clients.
      .withWaitStrategy(Wait.forLogMessage('Kafka Server started')),
  );
}

async function startRegistry(host: string, start: Start): Promise<string> {
  const registry = await start(
    new GenericContainer(REGISTRY_IMAGE)
      .withExposedPorts(REGISTRY_PORT)
      .withWaitStrategy(Wait.forHttp('/apis/ccompat/v7/subjects', REGISTRY_PORT, UNLESS_ENDED)),
  );
  return `http://${host}:${registry.getMappedPort(REGISTRY_PORT)}/apis/ccompat/v7`;
}

async function startClickHouse(host: string, start: Start): Promise<string> {
  const password = randomBytes(16).toString('hex');
  const clickhouse = await start(
    new GenericContainer(CLICKHOUSE_IMAGE)
      .withExposedPorts(CLICKHOUSE_PORT)
      .withEnvironment({
        CLICKHOUSE_USER: 'questlog',
        CLICKHOUSE_PASSWORD: password,
        CLICKHOUSE_READER_PASSWORD: password,
        CLICKHOUSE_DB: 'questlog',
      })
      .withCopyFilesToContainer([{ source: READER_XML, target: '/etc/clickhouse-server/users.d/reader.xml' }])
      .withWaitStrategy(Wait.forHttp('/ping', CLICKHOUSE_PORT, UNLESS_ENDED)),
  );
  const address = `${host}:${clickhouse.getMappedPort(CLICKHOUSE_PORT)}`;
  return `http://questlog:${password}@${address}/questlog`;
}

/** Finds containers by label, because testcontainers does not track a container that failed to start. */
async function removeContainers(
  { container }: ContainerRuntimeClient,
  run: Readonly<Record<string, string>>,
): Promise<void> {
  const label = Object.entries(run).map(([name, value]) => `${name}=${value}`);
  const found = await container.dockerode.listContainers({ all: true, filters: { label } });
  await Promise.all(found.map(({ Id }) => container.getById(Id).remove({ force: true, v: true })));
}

/** Disables the reaper of testcontainers if its image is missing. The keeper process stops the containers anyway. */
async function doWithoutReaper({ image }: ContainerRuntimeClient): Promise<void> {
  if (!(await isThere(image, REAPER_IMAGE))) process.env['TESTCONTAINERS_RYUK_DISABLED'] = 'true';
}

/** Returns 127.0.0.1 for this machine, because `localhost` can also be an IPv6 address that is not mapped. */
function hostOf({ info }: ContainerRuntimeClient): string {
  const { host } = info.containerRuntime;
  return host === 'localhost' ? '127.0.0.1' : host;
}
