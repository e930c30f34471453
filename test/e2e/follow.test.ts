/** Tests `questlog follow`. It prints the steps of one event from the response to the links. */
import { beforeAll, expect, test } from 'vitest';
import { aKey, eventually, rawEvent, type TestProject } from './builders.ts';
import { aStranger, atTerminal, type Ended, questlogCommand, testAtTerminal } from './questlogCommand.ts';
import { sharedProduct } from './sharedProduct.ts';

const PAYLOAD = '{"big":12345678901234567890, "pi" : 3.140,\n"text":"\\u001b[2J$&\u202e"}';
const TYPE = 'level\u009bup\nlog         forged';
const shared = sharedProduct();
let game: TestProject;
let env: Record<string, string>;

beforeAll(async () => {
  const { adminUrl, adminToken } = shared.product.credentials;
  env = { QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken };
  game = await shared.aProject({ revision: 'A' });
});

test('prints an event with its times, log position, payload as sent, and links', async () => {
  const occurredAt = '2026-11-22T12:00:00.123456Z';
  const sent = await game.post(
    rawEvent(PAYLOAD, { sessionId: game.sessionId, occurredAt, sequence: 4, eventType: TYPE }),
  );
  expect(sent.status, sent.text()).toBe(201);
  const [{ id }] = sent.json();
  const filed = await game.report({ eventIds: [id] });
  expect(filed.status, filed.text()).toBe(201);
  const reportId: string = filed.json().id;
  // Repeats the command until it shows the link, because a link is created after its report.
  const follow = () => questlogCommand(['follow', id, '--json'], { env });
  const listed = await eventually(follow, ({ stdout }) => stdout.includes('"linked"'));
  const shown = await questlogCommand(['follow', id.toUpperCase()], { env });

  expect(shown).toMatchObject({ code: 0, stderr: '' });
  expect(shown.stdout).toContain('event       level\uFFFDup\uFFFDlog         forged\n');
  expect(shown.stdout).toContain('3.140, "text":"\\u001b[2J$&\uFFFD"}\n');
  expect(shown.stdout).toContain(`happened    ${occurredAt} by the game’s clock`);
  expect(shown.stdout).toMatch(/received {4}20\d\d-\d\d-\d\dT[\d:.]+Z, [\d.]+ \w+ (after|before) that\n/);
  expect(shown.stdout).toMatch(/log {9}partition \d, offset \d+, index 0, of log /);
  expect(shown.stdout).toContain(`linked to report ${reportId}, which names it`);
  expect(listed.stdout).toContain(`"payload": ${PAYLOAD}\n}`);
  expect(listed.stdout).toContain('"level\\u009bup\\nlog');
  expect(JSON.parse(listed.stdout)).toMatchObject({
    eventType: TYPE,
    ...{ id, projectId: game.projectId, sessionId: game.sessionId, occurredAt, sequence: 4 },
    log: { id: expect.any(String), partition: expect.any(Number), offset: expect.any(Number), index: 0 },
    links: [{ reportId, state: 'linked', source: 'named', changedAt: expect.stringMatching(/^20.*Z$/) }],
  });
});

testAtTerminal('escapes a payload at a terminal, also in JSON', async () => {
  const [{ id }] = (await game.post(rawEvent(PAYLOAD, { sessionId: game.sessionId }))).json();
  const { screen } = await atTerminal(['follow', id, '--json'], env).ended();
  expect(screen).toContain('"text":"\\u001b[2J$&\\u202e"}');
});

test('an unknown event is exit code 1 with the next step', async () => {
  const id = aKey();

  const { code, stdout, stderr } = await questlogCommand(['follow', id, '--wait', '0'], { env });

  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(new RegExp(`no event ${id} after 0 s\\. Check the id.*questlog doctor`));
});

test('finds an event that arrives during the wait', async () => {
  const id = aKey();
  const row = {
    id,
    projectId: id,
    eventType: 'late',
    payload: '{}',
    offset: '9',
    laterMs: '-129600000',
    sequence: null,
  };
  const answers = [[], [], [row], []];
  const url = await aStranger((_, response) => response.end(JSON.stringify({ data: answers.shift() ?? [] })));

  const ended: Ended = await questlogCommand(['follow', id], {
    env: { QUESTLOG_ADMIN_URL: url, QUESTLOG_ADMIN_TOKEN: 'x' },
  });

  expect(ended).toMatchObject({ code: 0, stderr: 'not in ClickHouse yet; waiting for up to 10 s\n' });
  expect(ended.stdout).toContain('36.0 h before that');
  expect(ended.stdout).toContain('offset 9');
  expect(ended.stdout).toContain('link        to no report');
});
