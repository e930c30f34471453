/** Tests that rerouting stops while the brokers do not answer. */
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { stopsInTime } from '@questlog/runtime/process/testing/stopsInTime';
import type { SchemaRegistry } from '@questlog/runtime/registry/registry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { startRerouting } from './rerouteReports.ts';

test('a stop does not wait for silent brokers, and no reports are moved afterwards', async () => {
  const silent = Promise.withResolvers<void>();
  const addedPartitions = async () => {
    await silent.promise;
    return [{ topic: TOPICS.reportLinks, partitions: 3 }];
  };
  let opened = 0;
  const register = async (): Promise<never> => {
    opened += 1;
    throw new Unavailable('the registry is away');
  };
  const log = { addedPartitions } as unknown as Log;
  const registry = { register } as unknown as SchemaRegistry;
  const rerouter = startRerouting({ log, registry, clock: systemClock, logger: silentLogger });
  expect(await stopsInTime(() => rerouter.stop())).toBe(true);
  silent.resolve();
  await rerouter.stop();
  expect(opened).toBe(0);
});
