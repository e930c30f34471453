/**
 * Simulates a game with the published Godot plugin Forge Logger 0.3.0, because the tests have no game engine. The game sends the
 * same request bodies as the real plugin. The simulation includes the queue on disk and the retries.
 */
import { randomUUID } from 'node:crypto';
import type { Answer } from './product.ts';

/** Sends a request to the `base_url` of the game or to an absolute URL. Returns undefined if no response arrived. */
export type Send = (
  method: string,
  pathOrUrl: string,
  headers: Readonly<Record<string, string>>,
  body: string | Buffer,
) => Promise<Answer | undefined>;

interface Queued {
  readonly body: string;
  tries: number;
}

/** Number of attempts after which the plugin drops a queued report. */
const MAX_TRIES = 5;

export class PluginGame {
  sessionId = '';
  /** Ids of all events of the current launch. Every report of the launch names all these events. */
  readonly eventIds: string[] = [];
  /** Queue of reports. The plugin keeps the queue on disk, so it survives the end of the game. */
  readonly queue: Queued[] = [];
  /** Ids of the accepted reports, as Questlog returned them. */
  readonly reportIds: string[] = [];
  readonly #send: Send;
  readonly #token: string;

  constructor(send: Send, token: string) {
    this.#send = send;
    this.#token = token;
  }

  async startSession(): Promise<Answer | undefined> {
    const answer = await this.#post(
      '/v1/ingest/sessions',
      '{"build":{"channel":"dev","gitCommit":"5d0c1f7e9a2b","platform":"Web","version":"1.4.2"},' +
        '"metadata":{"currentScene":"Arena","engineVersion":"4.6-stable (official)","gameName":"Arena","locale":"",' +
        '"startedAt":"2026-11-22T03:23:56"},"player":{"deviceId":""}}',
    );
    this.sessionId = isTaken(answer) ? answer.json().id : '';
    return answer;
  }

  /** Sends events. Omits the session id if the session was not registered. */
  async logEvents(count: number): Promise<Answer | undefined> {
    const session = this.sessionId === '' ? '' : `,"sessionId":"${this.sessionId}"`;
    const events = Array.from(
      { length: count },
      (_, i) =>
        `{"eventType":"checkpoint","occurredAt":"${new Date().toISOString()}",` +
        `"payload":{"hp":42,"level":${i + 1},"position":{"x":101.75,"y":0.0}}${session}}`,
    );
    const answer = await this.#post('/v1/ingest/events', `[${events.join(',')}]`);
    if (isTaken(answer)) this.eventIds.push(...answer.json().map(({ id }: { id: string }) => id));
    return answer;
  }

  /** Uploads a file. Returns the JSON of the attachment for a report, or undefined if the upload failed. */
  async upload(bytes: Buffer): Promise<string | undefined> {
    const asked = await this.#post(
      '/v1/ingest/uploads',
      '{"attachmentType":"log_bundle","fileName":"game.log","mimeType":"text/plain",' +
        `"sessionId":"${this.sessionId}","sizeBytes":${bytes.length}}`,
    );
    if (!isTaken(asked)) return undefined;
    const { uploadId, uploadUrl, requiredHeaders } = asked.json();
    const put = await this.#send('PUT', uploadUrl, requiredHeaders, bytes);
    if (!isTaken(put)) return undefined;
    return (
      '{"attachmentType":"log_bundle","fileName":"game.log","mimeType":"text/plain",' +
      `"sizeBytes":${bytes.length},"uploadId":"${uploadId}"}`
    );
  }

  aReport(title: string, attachment?: string): string {
    return (
      `{"attachments":[${attachment ?? ''}],"clientRequestId":"${randomUUID()}","context":${CONTEXT},` +
      `"eventIds":${JSON.stringify(this.eventIds)},"report":{"description":"…","fingerprint":"dash-collision-lock",` +
      `"reporterType":"player","severity":"high","sourceChannel":"api","title":"${title}"},"sessionId":"${this.sessionId}"}`
    );
  }

  /** Files a report. Queues the report if it is not accepted. */
  async report(body: string): Promise<Answer | undefined> {
    const answer = await this.#post('/v1/ingest/reports', body);
    if (isTaken(answer)) this.reportIds.push(answer.json().reportId);
    else this.queue.push({ body: asQueued(body), tries: 1 });
    return answer;
  }

  /** Simulates the next launch of the game. The game sends the queue before it registers a new session. */
  async relaunch(): Promise<Answer | undefined> {
    for (const queued of [...this.queue]) {
      const answer = await this.#post('/v1/ingest/reports', queued.body);
      queued.tries++;
      if (isTaken(answer)) this.reportIds.push(answer.json().reportId);
      if (isTaken(answer) || queued.tries >= MAX_TRIES) this.queue.splice(this.queue.indexOf(queued), 1);
    }
    this.eventIds.length = 0;
    return await this.startSession();
  }

  #post(path: string, body: string): Promise<Answer | undefined> {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${this.#token}` };
    return this.#send('POST', path, headers, body);
  }
}

export const CONTEXT =
  '{"buildVersion":"1.4.2","checkpoint":"level_3","extra":{"tags":["movement","ünïcode"],"uptimeSec":1},' +
  '"performance":{"fps":1.0,"frameTimeMs":64.65,"memoryMb":0.0,"nodeCount":9},"platform":"Web",' +
  '"playerPosition":{"x":101.75,"y":-0.5,"z":0},"sceneName":"Arena"}';

/** Converts integers to floats, as the plugin does when it reads its queue. */
export function asQueued(body: string): string {
  return body.replace(/:(-?\d+)(?=[,}\]])/g, ':$1.0');
}

/** Returns true if the plugin treats the answer as a success. Every 2xx status is a success. */
function isTaken(answer: Answer | undefined): answer is Answer {
  return answer !== undefined && answer.status < 300;
}
