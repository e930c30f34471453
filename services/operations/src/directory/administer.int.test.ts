/** Tests changes by operators at several ingests on one log. Each response is valid at every ingest. */
import { randomUUID } from 'node:crypto';
import { type DirectoryHandle, openDirectory } from '@questlog/runtime/directory/openDirectory';
import { aLog, topicSpec } from '@questlog/runtime/log/embedded/testing/testLog';
import { withPausedTails } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { administer } from './administer.ts';

const ROUNDS = 100;

test('keeps all concurrent changes of fields at three ingests', async () => {
  const { open } = await aDeployment();
  const [here, there, elsewhere] = [await open(), await open(), await open()];
  const { id } = (await here.operations.createTenant({ name: 'T', spread: 1 })).body;
  for (let n = 1; n <= ROUNDS; n++) {
    const name = `T ${n}`;
    const [named, limited, widened] = await Promise.all([
      here.operations.patchTenant({ name }, id),
      there.operations.patchTenant({ monthlySoftQuota: n }, id),
      elsewhere.operations.patchTenant({ spread: n }, id),
    ]);
    expect([named.body.name, limited.body.monthlySoftQuota, widened.body.spread]).toEqual([name, n, n]);
    // A change without fields returns the current entity.
    for (const { operations } of [here, there, elsewhere]) {
      const { body } = await operations.patchTenant({}, id);
      expect(body).toMatchObject({ name, monthlySoftQuota: n, spread: n });
    }
  }
  const later = await open();
  expect(later.operations.tenants()).toEqual(here.operations.tenants());
});

test('a change after a change at another ingest loses nothing, although this ingest has read old records', async () => {
  const { open } = await aDeployment();
  const current = new Gate();
  const [here, there] = [await open(), await open(() => current.passed())];
  const { id } = (await here.operations.createProject(await aProjectInput(here))).body;
  for (let n = 1; n <= 10; n++) {
    current.shut();
    await here.operations.patchProject({ name: `P ${n}` }, id);
    const changed = there.operations.patchProject({ reportWindow: { beforeMs: n, afterMs: 0 } }, id);
    current.open();
    expect((await changed).body).toMatchObject({
      name: `P ${n}`,
      reportWindow: { beforeMs: n, afterMs: 0 },
    });
  }
});

test('an entity that was created at one ingest is found at another, although that one has read old records', async () => {
  const { open } = await aDeployment();
  const current = new Gate();
  const [here, there] = [await open(), await open(() => current.passed())];
  current.shut();
  const tenant = (await here.operations.createTenant({ name: 'T' })).body;
  const made = there.operations.createProject({ tenantId: tenant.id, name: 'P' });
  current.open();
  const project = (await made).body;

  current.shut();
  const { id } = (await here.operations.createToken({ projectId: project.id })).body;
  const revoked = there.operations.revokeToken(id);
  current.open();
  await revoked;
  await here.operations.patchTenant({}, tenant.id);
  expect(here.operations.tokens()).toEqual([]);
});

test('stores the first of two concurrent tenants with the same id, and answers the second with a conflict', async () => {
  const { open } = await aDeployment();
  const [here, there] = [await open(), await open()];
  for (let n = 0; n < 20; n++) {
    const id = randomUUID();
    const answers = await Promise.allSettled([
      here.operations.createTenant({ id, name: 'here' }),
      there.operations.createTenant({ id, name: 'there' }),
    ]);
    const made = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    const rejected = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
    expect(made).toMatchObject([{ status: 201 }]);
    expect(rejected).toMatchObject([{ code: 'conflict' }]);
    for (const { operations } of [here, there]) {
      const { body } = await operations.patchTenant({}, id);
      expect(body).toEqual(made[0]?.body);
    }
  }
});

test('answers the same creation at two ingests with one 201 and one 200', async () => {
  const { open } = await aDeployment();
  const [here, there] = [await open(), await open()];
  const expected = { id: randomUUID(), name: 'T' };
  const answers = await Promise.all([here, there].map(({ operations }) => operations.createTenant(expected)));
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 201]);
  expect(answers[0]?.body).toEqual(answers[1]?.body);
});

interface Ingest {
  readonly directory: DirectoryHandle;
  readonly operations: ReturnType<typeof administer>;
}

async function aProjectInput({ operations }: Ingest): Promise<{ tenantId: string; name: string }> {
  return { tenantId: (await operations.createTenant({ name: 'T' })).body.id, name: 'P' };
}

async function aDeployment(): Promise<{ open(mayRead?: () => Promise<void>): Promise<Ingest> }> {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPICS.directory), topicSpec(TOPICS.schemas)]);
  const registry = await openLogRegistry(log);
  return {
    open: async (mayRead = async () => {}) => {
      const directory = await openDirectory(withPausedTails(log, mayRead), registry, silentLogger);
      onTestFinished(() => directory.close());
      return { directory, operations: administer(directory, systemClock) };
    },
  };
}

class Gate {
  #opened = Promise.withResolvers<void>();

  constructor() {
    this.#opened.resolve();
  }

  passed(): Promise<void> {
    return this.#opened.promise;
  }

  shut(): void {
    this.#opened = Promise.withResolvers<void>();
  }

  open(): void {
    this.#opened.resolve();
  }
}
