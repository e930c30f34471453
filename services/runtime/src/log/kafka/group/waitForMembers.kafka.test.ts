import { RECORDS_VERSION, TOPICS, topicDefinitions, WRITERS_GROUP } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { type Logger, silentLogger } from '../../../process/logger.ts';
import { aMember, aName, aTopic, until, untilAssigned } from '../../contract/harness.ts';
import { oneDeployment } from '../testing/deployment.ts';
import { describeKafka } from '../testing/engines.ts';
import { openGroupView } from '../testing/groupMembers.ts';
import { announceWriter } from './announceWriter.ts';
import { type WaitOptions, waitForMembers } from './waitForMembers.ts';

describeKafka('a process of another version', ({ brokers }) => {
  const own = oneDeployment(brokers);
  const connection = { brokers: brokers.split(','), clientId: 'questlog-tests' };

  /** Returns the wait, and a promise that resolves when the wait has found a member of an incompatible version. */
  function startWait(kind: WaitOptions['kind'], group: string, recordsVersion: number) {
    const found = Promise.withResolvers<string>();
    const logger: Logger = { ...silentLogger, warn: (_, fields) => found.resolve(String(fields?.['cause'])) };
    const groups = [own.nameOf(group)];
    const ended = waitForMembers({ connection, groups, kind, recordsVersion, logger });
    return { ended, found: found.promise };
  }

  test('does not wait for a group without members', async () => {
    await startWait('consumers', aName('group'), RECORDS_VERSION).ended;
  });

  test('does not wait for consumers that read its records', async () => {
    const [topic, group] = [await aTopic(own.log), aName('group')];
    const member = await aMember(own.log, group, topic);
    onTestFinished(() => member.consumer.stop());
    await untilAssigned(member, 1);
    await startWait('consumers', group, RECORDS_VERSION).ended;
  });

  test('waits until the last consumer that cannot read its records has left', async () => {
    const [topic, group] = [await aTopic(own.log), aName('group')];
    const old = await aMember(own.log, group, topic);
    await untilAssigned(old, 1);
    const wait = startWait('consumers', group, RECORDS_VERSION + 1);
    expect(await wait.found).toMatch(
      new RegExp(`${group} at .* reads version ${RECORDS_VERSION} .* writes version ${RECORDS_VERSION + 1}$`),
    );
    await old.consumer.stop();
    await wait.ended;
  });

  test('waits until the last writer of newer records has left', async () => {
    await own.log.ensureTopics(topicDefinitions(1).filter(({ name }) => name === TOPICS.directory));
    const view = await openGroupView(brokers);
    onTestFinished(() => view.close());
    const writers = ['first', 'second'].map(() =>
      announceWriter({ connection, prefix: own.prefix, logger: silentLogger }),
    );
    onTestFinished(() => Promise.all(writers.map((writer) => writer.close())).then(() => undefined));
    await until(async () => (await view.members(own.nameOf(WRITERS_GROUP)))?.size === writers.length);
    await startWait('writers', WRITERS_GROUP, RECORDS_VERSION).ended;

    const wait = startWait('writers', WRITERS_GROUP, RECORDS_VERSION - 1);
    expect(await wait.found).toMatch(
      new RegExp(
        `${WRITERS_GROUP} at .* writes version ${RECORDS_VERSION} .* reads version ${RECORDS_VERSION - 1}$`,
      ),
    );
    for (const writer of writers) await writer.close();
    await wait.ended;
  });
});
