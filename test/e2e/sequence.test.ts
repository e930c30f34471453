/** Tests the sequence numbers of events. Reads return the numbers, and sessions and reports list the numbers that are missing. */
import { beforeAll, describe, expect, test } from 'vitest';
import { aKey, anEvent, eventually, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

describe.concurrent('an event’s sequence', () => {
  test('is returned unchanged everywhere, and omitted if it was not sent', async () => {
    const sessionId = await game.session();
    const largest = Number.MAX_SAFE_INTEGER;
    const posted = await game.post([
      anEvent({ sessionId, sequence: 7 }),
      anEvent({ sessionId, sequence: largest }),
      anEvent({ sessionId }),
      anEvent({ sessionId, sequence: null }),
    ]);
    const created: Created[] = posted.json();
    const read = await Promise.all(
      created.map(async ({ id }) => (await game.get(`/v1/events/${id}`)).json()),
    );
    const page = await game.get(`/v1/sessions/${sessionId}/events`);

    expect(posted.status).toBe(201);
    expect(created.map(({ sequence }) => sequence)).toEqual([7, largest, undefined, undefined]);
    expect(created.map((event) => 'sequence' in event)).toEqual([true, true, false, false]);
    expect(read).toEqual(created);
    expect(page.json().events).toEqual(created);
  });

  test('can be a float, with the same response for a retry', async () => {
    const key = { 'Idempotency-Key': aKey() };
    const body = `{"eventType":"x","sessionId":"${game.sessionId}","sequence":5.0}`;
    const first = await game.post(body, key);
    const again = await game.post(body, key);

    expect([first.status, first.json()[0].sequence]).toEqual([201, 5]);
    expect([again.status, again.text()]).toEqual([200, first.text()]);
  });

  test('is in the links of a report and in the stream of linked events', async () => {
    const project = await shared.aProject({ revision: 'B' });
    const { sessionId } = project;
    const counted = anEvent({ sessionId, sequence: 3 });
    const report = (await project.report({ sessionId, events: [counted, anEvent({ sessionId })] })).json();
    const page = await eventually(
      async () => (await project.get(`/v1/reports/${report.id}/events`)).json(),
      ({ events }) => events.length === 2,
    );
    const streamed = await linkedEvents(project, 2);

    expect(report.events.map(({ sequence }: Created) => sequence)).toEqual([3, undefined]);
    const sequences = (events: readonly Created[]) =>
      new Map(events.map(({ id, sequence }) => [id, sequence]));
    expect(sequences(page.events)).toEqual(sequences(report.events));
    expect(sequences(streamed)).toEqual(sequences(report.events));
  });
});

describe.concurrent('a session with sequences', () => {
  test('lists received numbers and gaps; late events fill gaps, and a repeated number counts once', async () => {
    const sessionId = await game.session();
    await send(sessionId, [10, 1, 2, 3, 8, 7]);
    expect(await sequenceOf(sessionId)).toEqual({
      received: 6,
      highest: 10,
      missing: [
        [4, 6],
        [9, 9],
      ],
    });

    await send(sessionId, [5, 5, 7, 10]);
    expect(await sequenceOf(sessionId)).toEqual({
      received: 7,
      highest: 10,
      missing: [
        [4, 4],
        [6, 6],
        [9, 9],
      ],
    });

    await send(sessionId, [9, 4, 6]);
    expect(await sequenceOf(sessionId)).toEqual({ received: 10, highest: 10, missing: [] });
  });

  test('lists a gap before its first number, and the largest possible gap', async () => {
    const sessionId = await game.session();
    await send(sessionId, [Number.MAX_SAFE_INTEGER, 2]);

    expect(await sequenceOf(sessionId)).toEqual({
      received: 2,
      highest: Number.MAX_SAFE_INTEGER,
      missing: [
        [1, 1],
        [3, Number.MAX_SAFE_INTEGER - 1],
      ],
    });
  });

  test('lists the lowest thousand gaps, and that there are more', async () => {
    const sessionId = await game.session();
    const odd = Array.from({ length: 1_001 }, (_, n) => 2 * n + 1);
    for (let at = 0; at < odd.length; at += 200) await send(sessionId, odd.slice(at, at + 200));
    const thousand = odd.slice(0, 1_000).map((n) => [n + 1, n + 1]);
    expect(await sequenceOf(sessionId)).toEqual({ received: 1_001, highest: 2_001, missing: thousand });

    await send(sessionId, [2_003]);
    expect(await sequenceOf(sessionId)).toEqual({
      ...{ received: 1_002, highest: 2_003, missing: thousand },
      missingTruncated: true,
    });
  });

  test('is counted separately from other sessions, also of the same id in another project', async () => {
    const [one, silent] = [await game.session(), await game.session()];
    const other = await shared.aProject({ revision: 'B', tenantId: game.tenantId });
    await other.session({ id: one });
    await send(one, [1, 3]);
    await send(silent, [undefined]);
    await other.post(anEvent({ sessionId: one, sequence: 2 }));
    await game.post(anEvent({ sequence: 2 }));

    expect(await sequenceOf(one)).toEqual({ received: 2, highest: 3, missing: [[2, 2]] });
    expect(await sequenceOf(silent)).toBeNull();
    expect((await other.get(`/v1/sessions/${one}`)).json().sequence).toEqual({
      ...{ received: 1, highest: 2, missing: [[1, 1]] },
    });
  });
});

test('a report has the sequence of its session, and null without a session', async () => {
  const sessionId = await game.session();
  const counted = [1, 4].map((sequence) => anEvent({ sessionId, sequence }));
  const { id } = (await game.report({ sessionId, events: counted })).json();
  const bare = (await game.report({ events: [anEvent({ sequence: 4 })] })).json();
  const read = async (report: string) => (await game.get(`/v1/reports/${report}`)).json().sequence;

  expect(await read(id)).toEqual({ received: 2, highest: 4, missing: [[2, 3]] });
  await send(sessionId, [3]);
  expect(await read(id)).toEqual({ received: 3, highest: 4, missing: [[2, 2]] });
  expect(await read(bare.id)).toBeNull();
});

interface Created {
  readonly id: string;
  readonly sequence?: number;
}

async function send(sessionId: string, sequences: readonly (number | undefined)[]): Promise<void> {
  const answer = await game.post(sequences.map((sequence) => anEvent({ sessionId, sequence })));
  expect(answer.status).toBe(201);
}

async function sequenceOf(sessionId: string): Promise<unknown> {
  return (await game.get(`/v1/sessions/${sessionId}`)).json().sequence;
}

/** Waits until the stream has `count` links of the project, and returns the events of these links. */
async function linkedEvents(project: TestProject, count: number): Promise<Created[]> {
  const abort = new AbortController();
  const stream = await fetch(`${shared.product.credentials.baseUrl}/v1/linked-events?from=start`, {
    headers: { Authorization: `Bearer ${project.token}` },
    signal: abort.signal,
  });
  let text = '';
  const found = (): Created[] =>
    [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? '').event);
  for await (const part of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    if (text.endsWith('\n\n') && found().length >= count) break;
  }
  abort.abort();
  return found();
}
