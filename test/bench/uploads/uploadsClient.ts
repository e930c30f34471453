/** Uploads files concurrently: each upload requests a URL and sends its bytes. */
import { request } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';

export interface UploadsWanted {
  readonly baseUrl: string;
  readonly token: string;
  readonly files: number;
  /** Bytes of each file. */
  readonly bytes: number;
}

export interface UploadsOutcome {
  readonly taken: number;
  /** Statuses of the failed uploads. */
  readonly refusals: string;
  readonly seconds: number;
}

const wanted: UploadsWanted = workerData;
const file = Buffer.alloc(wanted.bytes, 'a telemetry backbone for live games ');

const addresses = await Promise.all(Array.from({ length: wanted.files }, ask));
const beganMs = performance.now();
const statuses = await Promise.all(addresses.map(put));
const refused = statuses.filter((status) => status !== 200);
const outcome: UploadsOutcome = {
  taken: statuses.length - refused.length,
  refusals: [...new Set(refused)].join(', '),
  seconds: (performance.now() - beganMs) / 1000,
};
parentPort?.postMessage(outcome);

async function ask(): Promise<string> {
  const answer = await fetch(`${wanted.baseUrl}/v1/ingest/uploads`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${wanted.token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      attachmentType: 'log_bundle',
      fileName: 'game.log',
      mimeType: 'text/plain',
      sizeBytes: file.length,
    }),
  });
  if (answer.status !== 201)
    throw new Error(`an upload was answered ${answer.status}: ${await answer.text()}`);
  const { uploadUrl } = JSON.parse(await answer.text());
  return uploadUrl;
}

function put(address: string): Promise<number> {
  return new Promise((resolve) => {
    const headers = { 'Content-Type': 'text/plain', 'Content-Length': file.length };
    const sent = request(address, { method: 'PUT', headers, agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    });
    sent.on('error', () => resolve(0));
    sent.end(file);
  });
}
