import { RECORDS_VERSION } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { type Logger, silentLogger } from '../../../process/logger.ts';
import { aMember, aName, aTopic, untilAssigned } from '../../contract/harness.ts';
import { oneDeployment } from '../testing/deployment.ts';
import { describeKafka } from '../testing/engines.ts';
import { waitForMembers } from './waitForMembers.ts';

describeKafka('a new writer', ({ brokers }) => {
  const own = oneDeployment(brokers);
  const connection = { brokers: brokers.split(','), clientId: 'questlog-tests' };

  /** Returns the wait, and a promise that resolves when the wait has found an old member. */
  function startWait(group: string, recordsVersion: number) {
    const found = Promise.withResolvers<string>();
    const logger: Logger = { ...silentLogger, warn: (_, fields) => found.resolve(String(fields?.['cause'])) };
    const groups = [own.nameOf(group)];
    return { ended: waitForMembers({ connection, groups, recordsVersion, logger }), found: found.promise };
  }

  test('does not wait for a group without members', async () => {
    await startWait(aName('group'), RECORDS_VERSION).ended;
  });

  test('does not wait for members that read its records', async () => {
    const [topic, group] = [await aTopic(own.log), aName('group')];
    const member = await aMember(own.log, group, topic);
    onTestFinished(() => member.consumer.stop());
    await untilAssigned(member, 1);
    await startWait(group, RECORDS_VERSION).ended;
  });

  test('waits until the last member that cannot read its records has left', async () => {
    const [topic, group] = [await aTopic(own.log), aName('group')];
    const old = await aMember(own.log, group, topic);
    await untilAssigned(old, 1);
    const wait = startWait(group, RECORDS_VERSION + 1);
    expect(await wait.found).toMatch(
      new RegExp(`${group} at .* reads version ${RECORDS_VERSION} .* writes version ${RECORDS_VERSION + 1}$`),
    );
    await old.consumer.stop();
    await wait.ended;
  });
});
