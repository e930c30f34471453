/** Starts a ClickHouse cluster with one keeper in Docker. */
import { randomBytes } from 'node:crypto';
import { GenericContainer, Network, type StartedTestContainer, Wait } from 'testcontainers';
import { CLICKHOUSE_IMAGE, CLICKHOUSE_KEEPER_IMAGE } from '../engines/images.ts';
import type { ClickHouseCluster, ClusterShape } from './aClickHouseCluster.ts';

const NAME = 'questlog';
const HTTP_PORT = 8_123;
const KEEPER_PORT = 9_181;
const UNLESS_ENDED = { abortOnContainerExit: true };

interface Node {
  /** Counted from 1. */
  readonly shard: number;
  /** Counted from 1. */
  readonly replica: number;
}

export async function startDockerCluster({ shards, replicas }: ClusterShape): Promise<ClickHouseCluster> {
  const all = upTo(shards).flatMap((shard) => upTo(replicas).map((replica) => ({ shard, replica })));
  const network = await new Network().start();
  const started: StartedTestContainer[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((container) => container.stop()));
    await network.stop();
  };
  const start = async (container: GenericContainer): Promise<StartedTestContainer> => {
    const running = await container.withNetwork(network).start();
    started.push(running);
    return running;
  };
  try {
    await start(keeper());
    const password = randomBytes(16).toString('hex');
    const servers = await Promise.all(all.map((node) => start(server(node, all, password))));
    const nodes = servers.map(
      (node) => `http://questlog:${password}@${node.getHost()}:${node.getMappedPort(HTTP_PORT)}`,
    );
    return { name: NAME, nodes, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function keeper(): GenericContainer {
  return new GenericContainer(CLICKHOUSE_KEEPER_IMAGE)
    .withNetworkAliases('keeper')
    .withExposedPorts(KEEPER_PORT)
    .withWaitStrategy(Wait.forListeningPorts());
}

function server(node: Node, all: readonly Node[], password: string): GenericContainer {
  return new GenericContainer(CLICKHOUSE_IMAGE)
    .withNetworkAliases(hostOf(node))
    .withExposedPorts(HTTP_PORT)
    .withEnvironment({
      CLICKHOUSE_USER: 'questlog',
      CLICKHOUSE_PASSWORD: password,
      CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT: '1',
    })
    .withCopyContentToContainer([
      { content: configuration(node, all), target: '/etc/clickhouse-server/config.d/cluster.xml' },
    ])
    .withWaitStrategy(Wait.forHttp('/ping', HTTP_PORT, UNLESS_ENDED));
}

function hostOf({ shard, replica }: Node): string {
  return `shard${shard}-replica${replica}`;
}

function configuration(node: Node, all: readonly Node[]): string {
  const shards = upTo(Math.max(...all.map(({ shard }) => shard))).map((shard) => {
    const replicas = all
      .filter((one) => one.shard === shard)
      .map((one) => `<replica><host>${hostOf(one)}</host><port>9000</port></replica>`);
    return `<shard><internal_replication>true</internal_replication>${replicas.join('')}</shard>`;
  });
  return `<clickhouse>
  <interserver_http_host>${hostOf(node)}</interserver_http_host>
  <macros><shard>${node.shard}</shard><replica>replica${node.replica}</replica></macros>
  <remote_servers><${NAME}><secret>questlog</secret>${shards.join('')}</${NAME}></remote_servers>
  <zookeeper><node><host>keeper</host><port>${KEEPER_PORT}</port></node></zookeeper>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
</clickhouse>`;
}

/** Returns the numbers from 1 to `last`. */
function upTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}
