import { expect, test } from 'vitest';
import { type AnsweredEvent, eventArray, eventList, eventObject, eventPage, problemText } from './answer.ts';

const PAYLOAD = Buffer.from('{ "a":1e400,"a":-0, "\\u00e9":"é🎮" }');

function event(of: Partial<AnsweredEvent> = {}): AnsweredEvent {
  return {
    id: '01a1fe02-7454-7000-a110-3027adf24232',
    sessionId: null,
    buildId: null,
    eventType: 'a "quoted"\u0000 type é',
    occurredAt: 1n,
    payload: PAYLOAD,
    reportIds: [],
    overQuota: true,
    sequence: null,
    ...of,
  };
}

test('copies the payload byte for byte', () => {
  const answer = eventArray([event(), event()]);
  expect(answer.indexOf(PAYLOAD)).toBeGreaterThan(0);
  expect(answer.lastIndexOf(PAYLOAD)).toBeGreaterThan(answer.indexOf(PAYLOAD));
});

test('is JSON whose strings come back', () => {
  expect(JSON.parse(eventArray([event()]).toString())).toMatchObject([
    {
      eventType: 'a "quoted"\u0000 type é',
      sessionId: null,
      reportIds: [],
      overQuota: true,
      occurredAt: '1970-01-01T00:00:00.000001Z',
    },
  ]);
});

test('has the sequence that was sent, and no such field where none was', () => {
  const [counted, other] = JSON.parse(eventArray([event({ sequence: 7 }), event()]).toString());
  expect(counted.sequence).toBe(7);
  expect(other).not.toHaveProperty('sequence');
});

test('has no overQuota in revision B', () => {
  expect(JSON.parse(eventArray([event({ overQuota: undefined })]).toString())[0]).not.toHaveProperty(
    'overQuota',
  );
});

test('a page has the cursor of the next one', () => {
  const lists = [
    eventList([event({ sequence: 1 }), event({ sequence: 2 })]),
    eventList([event({ sequence: 3 })]),
  ];
  expect(JSON.parse(eventPage(lists, 'next').toString())).toMatchObject({
    events: [{ sequence: 1 }, { sequence: 2 }, { sequence: 3 }],
    next: 'next',
  });
  expect(JSON.parse(eventPage([], null).toString())).toEqual({ events: [], next: null });
});

test('the problem document of an element has the status of its first problem', () => {
  const problem = {
    index: 0,
    pointer: '/eventType',
    code: 'field_required',
    detail: 'eventType is required',
  } as const;
  expect(JSON.parse(problemText([problem], 'r'))).toMatchObject({
    status: 400,
    code: 'field_required',
    instance: 'urn:questlog:request:r',
    message: 'eventType is required',
    error: 'A required field is missing',
    errors: [problem],
  });
  expect(() => problemText([], 'r')).toThrow('without problems');
});

test('returns each stored field, and no other', () => {
  const [sessionId, buildId] = [
    '7846b5f4-39dd-4381-b200-dbc9f59749ad',
    '85ac27b3-4cf8-4a46-b24b-0b6ca34e27fa',
  ];
  const link = { state: 'linked', source: 'session' };
  const plain = { eventType: 'a', payload: Buffer.from('{}') };
  const whole = event({
    ...plain,
    sessionId,
    buildId,
    reportIds: ['one', 'two'],
    link,
    overQuota: undefined,
  });
  expect(JSON.parse(eventObject(whole).toString())).toEqual({
    ...{ id: whole.id, sessionId, buildId, eventType: 'a', occurredAt: '1970-01-01T00:00:00.000001Z' },
    ...{ payload: {}, reportIds: ['one', 'two'], link },
  });
  expect(JSON.parse(eventObject(event(plain)).toString())).toEqual({
    ...{
      id: whole.id,
      sessionId: null,
      buildId: null,
      eventType: 'a',
      occurredAt: '1970-01-01T00:00:00.000001Z',
    },
    ...{ payload: {}, reportIds: [], overQuota: true },
  });
});
