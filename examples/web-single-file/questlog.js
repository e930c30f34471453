const url = 'https://telemetry.your-game.example';
const token = '<ACCESS_TOKEN>';

/** Codes of problems that do not concern the content of a batch, such as a wrong token, a wrong address, or too many requests. */
const WAITS = [
  'unauthorized',
  'forbidden',
  'suspended',
  'not_found',
  'method_not_allowed',
  'misdirected_request',
  'request_timeout',
  'rate_limited',
];

let sessionId;
const waiting = [];
let batch;
let warnedMs = -Infinity;
let failedSinceMs;

/** Opens a session. Call this function when the game starts. */
export async function begin(version, playerId) {
  const session = await send('/v1/ingest/sessions', {
    id: crypto.randomUUID(),
    build: { version, platform: 'Web' },
    player: { externalId: playerId },
  });
  sessionId = session.id;
  setInterval(() => flush().catch(warn), 5_000);
  addEventListener('pagehide', () => flush().catch(warn));
}

/** Queues an event for the next flush. */
export function record(eventType, payload = {}) {
  waiting.push({ sessionId, eventType, occurredAt: new Date().toISOString(), payload });
  if (waiting.length > 10_000) waiting.shift();
}

/** Sends the queued events. A batch without a response is sent again with the same key, so Questlog stores the batch once. */
export async function flush() {
  if (batch === undefined && waiting.length > 0) {
    batch = { key: uuidv7(), events: waiting.splice(0, 200) };
  }
  const sent = batch;
  if (sent === undefined) return;
  try {
    const headers = { 'Idempotency-Key': sent.key, Prefer: 'handling=lenient' };
    const rejected = (await send('/v1/ingest/events', sent.events, headers)).filter(({ code }) => code);
    if (rejected.length > 0)
      console.error(`Questlog rejected ${rejected.length} events:`, rejected[0].code, rejected[0].message);
  } catch (error) {
    if (!error.isRefused) throw error;
    console.error('events were refused:', error);
  }
  if (batch === sent) batch = undefined;
}

/**
 * Files a bug report with a screenshot (a Blob). Questlog links the report to the events of the last ten minutes. To retry, pass
 * the same id.
 */
export async function report(title, screenshot, id = crypto.randomUUID()) {
  await flush().catch(warn);
  return await send('/v1/ingest/reports', {
    sessionId,
    clientRequestId: id,
    occurredAt: new Date().toISOString(),
    report: { title, reporterType: 'player' },
    attachments: await upload(screenshot).then(
      (file) => [file],
      () => [],
    ),
  });
}

async function upload(screenshot) {
  const { type: mimeType, size: sizeBytes } = screenshot;
  const file = { attachmentType: 'screenshot', fileName: 'screenshot.png', mimeType, sizeBytes };
  const room = await send('/v1/ingest/uploads', { sessionId, ...file });
  const { uploadId, uploadUrl, requiredHeaders } = room;
  const answer = await fetch(uploadUrl, { method: 'PUT', headers: requiredHeaders, body: screenshot });
  if (!answer.ok) throw new Error(`the picture was refused: ${answer.status}`);
  return { uploadId, ...file };
}

async function send(path, content, headers = {}) {
  const body = JSON.stringify(content);
  const answer = await fetch(url + path, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', ...headers },
    body,
    // Lets the browser finish sending the last batch after the page closes. Browsers allow 64 KiB.
    keepalive: body.length < 60_000,
  });
  const result = await answer.json().catch(() => undefined);
  // A rate limit rejected some events of the batch. A retry with the same key stores only these events.
  const limited = answer.status === 207 && result?.find(({ code }) => code === 'rate_limited');
  if (answer.ok && result !== undefined && !limited) return reached(result);
  const { status } = limited || answer;
  const problem = limited || result;
  const isQuestlog = problem?.type === `urn:questlog:problem:${problem?.code}`;
  const isRefused = isQuestlog && status < 500 && !WAITS.includes(problem.code);
  const message = isQuestlog ? problem.message : `${url} answers ${status}, and is not Questlog`;
  throw Object.assign(new Error(message), { status, isRefused });
}

/** Logs the first failure. Logs later failures at most once per minute. */
function warn(error) {
  failedSinceMs ??= Date.now();
  if (Date.now() - warnedMs < 60_000) return;
  warnedMs = Date.now();
  console.warn(`${waiting.length} events and a batch wait: ${url}:`, error);
}

function reached(result) {
  if (failedSinceMs)
    console.info(`reached ${url} again after ${Math.round((Date.now() - failedSinceMs) / 1000)} s`);
  failedSinceMs = undefined;
  return result;
}

function uuidv7() {
  const time = Date.now().toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}
