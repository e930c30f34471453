/** Starts a real Prometheus and a real Alertmanager with the rules and the configuration of `deploy/monitoring`. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
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
const ALERTMANAGER = new URL('../../deploy/monitoring/alertmanager.yaml', import.meta.url);
/** Seconds that replace a minute, an hour, and a day in the rules. Prometheus scrapes and evaluates once a second. */
const SECONDS = { m: 1, h: 10, d: 240 };

interface PrometheusOptions {
  /** Host and port of each process. */
  readonly targets: readonly string[];
  /** Labels of all targets. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Host and port of the Alertmanager that receives the alerts. */
  readonly alertmanager?: string;
}

/** @param program path of the program `prometheus` */
export async function startPrometheus(program: string, options: PrometheusOptions): Promise<Prometheus> {
  const started = await startProgram(program, (folder, address) => {
    const rules = join(folder, 'rules.yaml');
    const config = join(folder, 'prometheus.json');
    writeFileSync(rules, withShorterTimes(readFileSync(RULES, 'utf8')));
    writeFileSync(config, JSON.stringify(configOf(rules, options)));
    return {
      'config.file': config,
      'storage.tsdb.path': join(folder, 'data'),
      'web.listen-address': address,
    };
  });
  const query: Prometheus['query'] = async (expr) => {
    const response = await fetch(`http://${started.address}/api/v1/query`, {
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
    stop: started.stop,
  };
}

function configOf(rules: string, { targets, labels, alertmanager }: PrometheusOptions) {
  const alertmanagers = alertmanager === undefined ? [] : [{ static_configs: [{ targets: [alertmanager] }] }];
  return {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [rules],
    alerting: { alertmanagers },
    scrape_configs: [{ job_name: 'questlog', static_configs: [{ targets, labels }] }],
  };
}

export interface Alertmanager {
  /** Host and port. */
  readonly address: string;
  /** Returns the severity of each alert that fires, by its name, or by its name and service (`QuestlogServiceAbsent linker`). */
  firing(): Promise<ReadonlyMap<string, string>>;
  stop(): Promise<void>;
}

interface AlertLabels {
  readonly alertname: string;
  readonly severity: string;
  /** Name of the service. Undefined if the alert is not about one service. */
  readonly name?: string;
}

/** @param program path of the program `prometheus-alertmanager` */
export async function startAlertmanager(program: string): Promise<Alertmanager> {
  const started = await startProgram(program, (folder, address) => ({
    'config.file': fileURLToPath(ALERTMANAGER),
    'storage.path': folder,
    'web.listen-address': address,
    'cluster.listen-address': '',
  }));
  return {
    ...started,
    firing: async () => {
      const response = await fetch(`http://${started.address}/api/v2/alerts`);
      const alerts = (await response.json()) as { labels: AlertLabels }[];
      return new Map(
        alerts.map(({ labels: { alertname, name, severity } }) => [
          name === undefined ? alertname : `${alertname} ${name}`,
          severity,
        ]),
      );
    },
  };
}

type Flags = Readonly<Record<string, string>>;

/** Starts Prometheus or Alertmanager on a free port, with its files in a new folder. */
async function startProgram(program: string, flagsOf: (folder: string, address: string) => Flags) {
  const [port = 0] = await freePorts(1);
  const address = `127.0.0.1:${port}`;
  const folder = mkdtempSync(join(tmpdir(), 'questlog-monitoring-'));
  const flags = Object.entries(flagsOf(folder, address));
  const child = spawn(
    program,
    flags.map(([name, value]) => `--${name}=${value}`),
  );
  const output = collectOutput(child);
  const isReady = () =>
    fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  await eventually(isReady, (ready) => {
    if (child.exitCode !== null) throw new Error(`${program} has ended: ${output.stderr}`);
    return ready;
  });
  return {
    address,
    stop: async () => {
      await end(child, 'SIGTERM');
      rmSync(folder, { recursive: true });
    },
  };
}

/**
 * Shortens ranges, offsets, and the times before an alert fires, so that a test need not wait for minutes. Thresholds in seconds,
 * for example of the lag, do not change.
 */
function withShorterTimes(rules: string): string {
  return rules.replace(
    /(\[|for: |offset )(\d+)([mhd])/g,
    (_, before, count, unit: keyof typeof SECONDS) => `${before}${Number(count) * SECONDS[unit]}s`,
  );
}
