/** Reads the size and the free space of the brokers' disks with version 4 of DescribeLogDirs (Kafka 3.3, KIP-827). */
import type { Broker, Cluster } from 'kafkajs';
import type { Disk } from '../../log.ts';
import { protocolError, type Request, sendRequest, type Throttled } from '../client/sendRequest.ts';
import { Reader } from '../read/fetchProtocol.ts';

/** @throws Error if a broker is older than Kafka 3.3, does not answer, or denies the request. */
export async function brokerDisks(cluster: Cluster, nodeIds: readonly number[]): Promise<readonly Disk[]> {
  const perBroker = nodeIds.map(async (nodeId) =>
    disksOf(await cluster.findBroker({ nodeId: String(nodeId) })),
  );
  return (await Promise.all(perBroker)).flat();
}

async function disksOf(broker: Broker): Promise<readonly Disk[]> {
  const { errorCode, disks } = await sendRequest(broker, DESCRIBE_LOG_DIRS);
  if (errorCode !== 0) throw protocolError(errorCode);
  return disks;
}

interface LogDirs extends Throttled {
  readonly errorCode: number;
  readonly disks: readonly Disk[];
}

const DESCRIBE_LOG_DIRS: Request<LogDirs> = {
  ...{ apiKey: 35, apiVersion: 4, apiName: 'DescribeLogDirs', since: '3.3' },
  // The three bytes are: no tagged fields of the header, an empty list of topics, and no tagged fields of the request.
  body: Buffer.of(0, 1, 0),
  decode: (bytes) => {
    const reader = new Reader(bytes);
    reader.tags();
    const clientSideThrottleTime = reader.int32();
    const errorCode = reader.int16();
    const disks: Disk[] = [];
    reader.each(() => disks.push(readDisk(reader)));
    return { clientSideThrottleTime, errorCode, disks };
  },
};

function readDisk(reader: Reader): Disk {
  reader.int16();
  reader.text();
  reader.each(() => {
    throw new Error('the broker returned topics that were not requested');
  });
  const totalBytes = reader.int64();
  const freeBytes = reader.int64();
  reader.tags();
  return { totalBytes, freeBytes };
}
