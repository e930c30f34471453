/** Builds the OpenTelemetry Collector for the benchmark and for the test of traces, and returns the benchmark's settings. */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const VERSION = 'v0.155.0';
const BUILDER = `go.opentelemetry.io/collector/cmd/builder@${VERSION}`;
const MODULES = `
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver ${VERSION}
exporters:
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/kafkaexporter ${VERSION}
  - gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter ${VERSION}
`;
const NAME = 'otelcol';
const BUILT_WITHIN_MS = 1_200_000;

export const COLLECTOR_VERSION = `OpenTelemetry Collector ${VERSION}`;

const FOLDER = fileURLToPath(new URL(`../../../node_modules/.cache/${NAME}-${VERSION}`, import.meta.url));
const PROGRAM = join(FOLDER, NAME);

/** Returns the path of the program. Undefined if `provideCollector` has not built the program yet. */
export function builtCollector(): string | undefined {
  return existsSync(PROGRAM) ? PROGRAM : undefined;
}

/** Returns the path of the program. @throws Error with the reason if the program cannot be built or the benchmark ends first */
export async function provideCollector(ending: AsyncDisposableStack): Promise<string> {
  if (existsSync(PROGRAM)) return PROGRAM;
  if (spawnSync('go', ['version']).status !== 0) throw new Error('there is no Go to build it with');
  const unfinished = `${FOLDER}.${process.pid}`;
  const interrupted = new AbortController();
  ending.defer(() => interrupted.abort());
  try {
    await build(unfinished, interrupted.signal);
    renameSync(unfinished, FOLDER);
  } catch (error) {
    const said = (error as { stderr?: string }).stderr?.trim().split('\n').at(-1);
    throw new Error(`its builder failed: ${said || String(error)}`);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return PROGRAM;
}

async function build(folder: string, signal: AbortSignal): Promise<void> {
  const run = promisify(execFile);
  const bounds = { signal, timeout: BUILT_WITHIN_MS, maxBuffer: 64 * 1024 * 1024 };
  mkdirSync(folder, { recursive: true });
  await run('go', ['install', BUILDER], { ...bounds, env: { ...process.env, GOBIN: folder } });
  const list = join(folder, 'builder.yaml');
  writeFileSync(list, `dist:\n  name: ${NAME}\n  output_path: ${folder}\n${MODULES}`);
  await run(join(folder, 'builder'), ['--config', list], bounds);
}

/** Settings without a sending queue, so that a request is answered after the brokers have its events. */
export function collectorSettings(brokers: string, topic: string, port: number): string {
  return JSON.stringify({
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: {
      kafka: {
        brokers: brokers.split(','),
        logs: { topic, encoding: 'otlp_proto' },
        producer: { required_acks: -1 },
        sending_queue: { enabled: false },
      },
    },
    service: {
      telemetry: { metrics: { level: 'none' }, logs: { level: 'warn' } },
      pipelines: { logs: { receivers: ['otlp'], exporters: ['kafka'] } },
    },
  });
}

interface Sent {
  readonly sessionId: string;
  readonly eventType: string;
  readonly payload: unknown;
}

/**
 * Converts a request of Questlog to OTLP logs in JSON. The payload is a text, so that the Collector does not parse it. @param
 * batch body of a Questlog request
 */
export function otlpOf(batch: Buffer): Buffer {
  const events: Sent[] = JSON.parse(batch.toString());
  const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });
  const logRecords = events.map(({ sessionId, eventType, payload }) => ({
    body: { stringValue: JSON.stringify(payload) },
    attributes: [text('session.id', sessionId), text('event.name', eventType)],
  }));
  return Buffer.from(JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }));
}
