import { expect, test } from 'vitest';
import { aProcess, event, OTHER_KEY, SWITCH } from './ingestProcess.testing.ts';

test.each([
  ['a switch rejects', { switches: [{ ...SWITCH, eventType: event.eventType }] }, 'switched_off'],
  ['the rate limit rejects', { limits: { eventsPerSecond: 1, burstSeconds: 1 } }, 'rate_limited'],
])('rejects an event that %s without waiting for the quota', async (_, options, code) => {
  const { send, lookUp } = aProcess(options);
  await send({ ...event, eventType: 'another' }, { key: null });
  Object.assign(lookUp, { hasQuota: false, isBroken: true });
  const rejected = send(event, { key: null }).catch((error) => error.errors?.[0].code ?? error.code);
  expect(await rejected).toBe(code);
  const { status, rejectedElements } = await send(event, { key: null, isLenient: true });
  expect([status, rejectedElements]).toMatchObject([207, [{ index: 0, code }]]);
});

test('applies switches and the rate limit once to requests that wait for the quota', async () => {
  const sample = { ...SWITCH, action: 'sample' };
  const switches = [
    SWITCH,
    { ...sample, eventType: 'dropped', sampleRate: 0 },
    { ...sample, eventType: event.eventType, sampleRate: 1 },
  ];
  const limits = { eventsPerSecond: 60, burstSeconds: 1 };
  const { send, appended, lookUp, metrics } = aProcess({ isLenient: true, switches, limits });
  lookUp.hasQuota = false;
  const others = ['other', 'dropped'].map((eventType) => ({ ...event, eventType }));
  const [first, second] = await Promise.all([
    send([...others, ...Array(40).fill(event)], { key: OTHER_KEY }),
    send(Array(30).fill(event)),
  ]);
  expect(first.rejectedElements).toMatchObject([{ index: 0, code: 'switched_off' }]);
  expect(first.headers).toEqual({ 'Questlog-Sampled': '1 of 41' });
  expect(second.rejectedElements.map(({ index }) => index)).toEqual([20, 21, 22, 23, 24, 25, 26, 27, 28, 29]);
  const rates = appended().flatMap(({ message }) => message.events.map(({ sampleRate }) => sampleRate));
  expect(rates).toEqual(Array(60).fill(1));
  const { values } = await metrics.switched.get();
  expect(values).toMatchObject([
    { labels: { action: 'reject' }, value: 1 },
    { labels: { action: 'sample' } },
  ]);
});

test('rejects an event whose session is erased while the request waits for the quota', async () => {
  const { send, appended, lookUp, sessions } = aProcess({ isLenient: true });
  lookUp.hasQuota = false;
  const answer = send(event, { key: null });
  sessions.delete(event.sessionId);
  expect((await answer).rejectedElements).toMatchObject([{ index: 0, code: 'unknown_session' }]);
  expect(appended()).toEqual([]);
});
