/** Starts a real Prometheus that scrapes processes of Questlog and evaluates the rules of `deploy/monitoring`. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { eventually } from '../e2e/builders.ts';
import { collectOutput, end } from '../e2e/product.ts';

export interface Prometheus {
  /** Returns the values of an instant query, with their labels. */
  query(expr: string): Promise<Sample[]>;
  /** Returns the names of the alerts that fire, sorted. */
  firing(): Promise<string[]>;
  stop(): Promise<void>;
}

export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  /** Unix time in seconds, and the value. */
  readonly value: readonly [number, string];
}

const RULES = new URL('../../deploy/monitoring/rules.yaml', import.meta.url);
/** Prometheus scrapes and evaluates once a second, instead of once a minute. */
const FASTER = 60;

/** @param program path of the program `prometheus` @param targets host and port of each process */
export async function startPrometheus(program: string, targets: readonly string[]): Promise<Prometheus> {
  const [port = 0] = await freePorts(1);
  const folder = mkdtempSync(join(tmpdir(), 'questlog-prometheus-'));
  const rules = join(folder, 'rules.yaml');
  const config = join(folder, 'prometheus.json');
  writeFileSync(rules, withShorterTimes(readFileSync(RULES, 'utf8')));
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [rules],
      scrape_configs: [{ job_name: 'questlog', static_configs: [{ targets }] }],
    }),
  );
  const flags = {
    'config.file': config,
    'storage.tsdb.path': join(folder, 'data'),
    'web.listen-address': `127.0.0.1:${port}`,
  };
  const child = spawn(
    program,
    Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
  );
  const output = collectOutput(child);
  const url = `http://127.0.0.1:${port}`;
  const isReady = () =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  await eventually(isReady, (ready) => {
    if (child.exitCode !== null) throw new Error(`Prometheus has ended: ${output.stderr}`);
    return ready;
  });
  const query: Prometheus['query'] = async (expr) => {
    const response = await fetch(`${url}/api/v1/query`, {
      method: 'POST',
      body: new URLSearchParams({ query: expr }),
    });
    const { error, data } = (await response.json()) as { error?: string; data: { result: Sample[] } };
    if (error !== undefined) throw new Error(`${expr}: ${error}`);
    return data.result;
  };
  return {
    query,
    firing: async () => {
      const found = await query('group by (alertname) (ALERTS{alertstate="firing"})');
      return found.map(({ metric }) => metric['alertname'] ?? '').toSorted();
    },
    stop: async () => {
      await end(child, 'SIGTERM');
      rmSync(folder, { recursive: true });
    },
  };
}

/** Divides ranges, offsets, and the times before an alert fires by `FASTER`, so that a test need not wait for minutes. */
function withShorterTimes(rules: string): string {
  const secondsOf = { m: 60, h: 60 * 60, d: 24 * 60 * 60 };
  return rules.replace(
    /(\[|for: |offset )(\d+)([mhd])/g,
    (_, before, count, unit: keyof typeof secondsOf) => {
      return `${before}${(Number(count) * secondsOf[unit]) / FASTER}s`;
    },
  );
}
