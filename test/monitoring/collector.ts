/** Starts a real OpenTelemetry Collector, which receives the traces of Questlog and forwards them as JSON to the test. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { builtCollector } from '../bench/peers/collector.ts';
import { eventually } from '../e2e/builders.ts';
import { collectOutput, end } from '../e2e/product.ts';

export interface Collector {
  /** Value of `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string;
  /** Returns the spans that have arrived. */
  spans(): readonly Span[];
  /** Returns everything that has arrived, as JSON. */
  text(): string;
  stop(): Promise<void>;
}

/** A span in OTLP's JSON. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty if the span has no parent. */
  readonly parentSpanId?: string;
  readonly name: string;
  /** 2: server, 3: client, 4: producer, 5: consumer. */
  readonly kind: number;
  readonly attributes?: readonly { key: string; value: Readonly<Record<string, unknown>> }[];
  readonly links?: readonly { traceId: string; spanId: string }[];
  /** Name of the service that exported the span. */
  readonly service: string;
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Span['attributes'] };
    readonly scopeSpans: readonly { readonly spans: readonly Omit<Span, 'service'>[] }[];
  }[];
}

const LACK = 'run: node deploy/node24.mjs test/bench/peers/buildCollector.ts';

/** Returns the path of the Collector's program, or the reason why there is no program. */
export function findCollector(): { readonly program?: string; readonly lack?: string } {
  const program = builtCollector();
  if (program !== undefined) return { program };
  failIfRequired('collector', `it is not built; ${LACK}`);
  return { lack: LACK };
}

export async function startCollector(program: string): Promise<Collector> {
  const exports: string[] = [];
  const receiver = createServer(async (request, response) => {
    exports.push(Buffer.concat(await request.toArray()).toString());
    response.setHeader('Content-Type', 'application/json').end('{}');
  });
  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  const { port: receiverPort } = receiver.address() as AddressInfo;
  const [port] = await freePorts(1);
  const folder = mkdtempSync(join(tmpdir(), 'questlog-collector-'));
  const settings = join(folder, 'collector.json');
  writeFileSync(
    settings,
    JSON.stringify(settingsOf(`127.0.0.1:${port}`, `http://127.0.0.1:${receiverPort}`)),
  );
  const child = spawn(program, ['--config', settings]);
  const output = collectOutput(child);
  const endpoint = `http://127.0.0.1:${port}`;
  const answers = () => fetch(`${endpoint}/v1/traces`, { method: 'POST' }).then(Boolean, () => false);
  await eventually(answers, (isUp) => {
    if (child.exitCode !== null) throw new Error(`the Collector has ended: ${output.stderr}`);
    return isUp;
  });
  return {
    endpoint,
    spans: () => exports.flatMap((text) => spansOf(JSON.parse(text))),
    text: () => exports.join('\n'),
    stop: async () => {
      await end(child, 'SIGTERM');
      receiver.closeAllConnections();
      receiver.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function settingsOf(endpoint: string, receiver: string): object {
  const otlphttp = {
    endpoint: receiver,
    encoding: 'json',
    compression: 'none',
    sending_queue: { enabled: false },
  };
  return {
    receivers: { otlp: { protocols: { http: { endpoint } } } },
    exporters: { otlphttp },
    service: {
      telemetry: { metrics: { level: 'none' }, logs: { level: 'warn' } },
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlphttp'] } },
    },
  };
}

function spansOf({ resourceSpans }: Export): Span[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const name = resource.attributes?.find(({ key }) => key === 'service.name');
    const service = String(name?.value['stringValue']);
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => ({ ...span, service })));
  });
}
