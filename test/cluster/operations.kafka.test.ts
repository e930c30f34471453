/** Tests a deployment with separate processes: operations answers all admin endpoints, and ingest answers none. */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { routeOf } from '@questlog/schemas/http/operations/operation';
import { OPERATORS } from '@questlog/schemas/http/operations/operators';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aProject, eventually, type TestProject } from '../e2e/builders.ts';
import { bugsIn } from '../e2e/product.ts';
import { Deployment, type Service } from './deployment.ts';

/** A created token is valid at every ingest after this time. */
const KNOWN_WITHIN_MS = 2_000;
/** Endpoints whose answer does not end, that need an object of other tests, or that need embedded engines. */
const NEEDS_OBJECT = ['/admin/tail', '/admin/dead-letters/{id}', '/admin/erasures/{id}', '/admin/backups'];

describeKafka('operations as a process of its own', (engines) => {
  const deployment = new Deployment(engines);
  let ingest: Service;
  let operations: Service;
  let project: TestProject;

  beforeAll(async () => {
    const [first] = (await deployment.startAll('ingest', 'linker', 'projector')) as [Service];
    ingest = first;
    operations = await deployment.start('operations', { QUESTLOG_URL: ingest.baseUrl });
    project = await aProject(ingest, { revision: 'B' });
  });
  afterAll(() => deployment.remove());

  test('answers every GET endpoint below /admin, and ingest answers none', async () => {
    const paths = Object.values(OPERATORS)
      .map(routeOf)
      .filter(({ method, path }) => method === 'GET' && path.startsWith('/admin/'))
      .map(({ path }) => path)
      .filter((path) => !NEEDS_OBJECT.includes(path) && !path.startsWith('/admin/uploads/'));
    expect(paths.length).toBeGreaterThan(8);
    for (const template of paths) {
      const path = template.replace('{id}', project.projectId);
      const answer = await operations.admin('GET', path);
      expect([path, answer.status], answer.text()).toEqual([path, 200]);
      expect([path, (await fetch(ingest.adminUrl + path)).status]).toEqual([path, 404]);
    }
  });

  test('sends a test event through the games’ listener', async () => {
    const answer = await operations.admin('POST', `/admin/projects/${project.projectId}/test-event`);
    expect(answer.status, answer.text()).toBe(201);
    expect(answer.json()).toMatchObject({ eventType: 'questlog.test' });
    const tokens: { projectId: string }[] = (await operations.admin('GET', '/admin/tokens')).json();
    // The token of the test event was revoked.
    expect(tokens.filter(({ projectId }) => projectId === project.projectId)).toHaveLength(1);
  });

  test('creates a token that is valid at ingest within two seconds', async () => {
    const created = await operations.admin('POST', '/admin/tokens', {
      projectId: project.projectId,
      scopes: ['read'],
    });
    const headers = { Authorization: `Bearer ${created.json().token}` };
    const startMs = performance.now();
    await eventually(
      () => ingest.request('GET', '/v1/quota', { headers }),
      // The answer can be a 503 while the projector is behind.
      ({ status }) => status !== 401,
    );
    expect(performance.now() - startMs).toBeLessThan(KNOWN_WITHIN_MS);
  });

  test('ingest is ready, does not warn that operations is missing, and no process logs a bug', async () => {
    const { status, warnings } = await ingest.readyz();
    expect([status, warnings['operations']]).toEqual([200, undefined]);
    expect(deployment.services.flatMap((service) => bugsIn(service.stderr()))).toEqual([]);
  });
});
