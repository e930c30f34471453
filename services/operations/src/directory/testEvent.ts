/**
 * Handles POST /admin/projects/{id}/test-event. Sends the test event to the games' listener over HTTP, with a token that is
 * valid for one minute. This proves that games can reach the listener and that events are stored.
 */
import { createHash } from 'node:crypto';
import { Rejected } from '@questlog/runtime/http/rejected';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { Backoff, retry } from '@questlog/runtime/process/waiting';
import type { ProblemCode } from '@questlog/schemas/http/problem';
import { canonicalUuid, uuidV8 } from '@questlog/schemas/uuid';
import type { administer } from './administer.ts';

const TOKEN_LIFETIME_MS = 60_000;
/** Maximum wait for a new token. Each ingest process accepts the token within two seconds, and answers 401 until then. */
const TOKEN_DELAY_MS = 2_500;
const RETRY_INTERVAL_MS = 100;
const REQUEST_LIMIT_MS = 10_000;

/**
 * Returns the created event as JSON.
 * @param gamesUrl URL of the games' listener without a slash at the end. If it is empty, the operator must set QUESTLOG_URL
 * @throws Rejected with the problem that a game would get
 * @throws Unavailable if the games' listener is unavailable
 */
export async function sendTestEvent(
  tokens: Pick<ReturnType<typeof administer>, 'createToken' | 'revokeToken'>,
  gamesUrl: string,
  { projectIdText, requestId, nowMs }: { projectIdText: string; requestId: string; nowMs: number },
): Promise<object> {
  const projectId = canonicalUuid(projectIdText) ?? projectIdText;
  const expiresAt = new Date(nowMs + TOKEN_LIFETIME_MS).toISOString();
  if (gamesUrl === '')
    throw new Unavailable(
      "set QUESTLOG_URL to the address of the games' listener; the test event is sent there",
    );
  const { body: created } = await tokens.createToken({ projectId, scopes: ['events:write'], expiresAt });
  try {
    const deadlineMs = performance.now() + TOKEN_DELAY_MS;
    const sender = { token: created.token, requestId };
    const postOnce = async (path: string, body: object): Promise<unknown> => {
      const { status, answer } = await postJson(`${gamesUrl}${path}`, body, sender);
      if (status < 300) return answer;
      throw problemFrom(status, answer);
    };
    const post = (path: string, body: object) =>
      retry(() => postOnce(path, body), {
        backoff: new Backoff(RETRY_INTERVAL_MS, RETRY_INTERVAL_MS),
        isRetryable: (error) =>
          error instanceof Rejected && error.code === 'unauthorized' && performance.now() < deadlineMs,
      });
    const sessionId = testSession(projectId);
    await post('/v1/ingest/sessions', { id: sessionId });
    const event = { sessionId, eventType: 'questlog.test', payload: { sentBy: 'an operator' } };
    const [stored] = (await post('/v1/ingest/events', event)) as object[];
    return stored ?? {};
  } finally {
    await tokens.revokeToken(created.id);
  }
}

async function postJson(
  url: string,
  body: object,
  { token, requestId }: { token: string; requestId: string },
): Promise<{ status: number; answer: unknown }> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${token}`,
        'Content-Type': 'application/json',
        'X-Request-Id': requestId,
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
    });
    return { status: response.status, answer: await response.json() };
  } catch (error) {
    throw new Unavailable(`the games' listener at ${url} gave no usable answer: ${messageOf(error)}`);
  }
}

function problemFrom(status: number, answer: unknown): Error {
  const { code, detail } = answer as { code?: ProblemCode; detail?: string };
  const text = `the games' listener answered ${status}: ${detail ?? 'no problem document'}`;
  return code === undefined || status >= 500 ? new Unavailable(text) : new Rejected(code, text);
}

/** Returns the session id of all test events of a project, because API revision A requires a session for every event. */
function testSession(projectId: string): string {
  return uuidV8(createHash('sha256').update(`questlog.test ${projectId}`).digest());
}
