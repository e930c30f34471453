/** Breaks a deployment, and measures how long the alerts of each fault take to fire, and to end after the repair. */
import { eventually } from '../e2e/builders.ts';
import type { Alertmanager } from './prometheus.ts';

export interface Fault {
  readonly fault: string;
  /** Alerts that the fault causes. */
  readonly alerts: Readonly<Record<string, Limits>>;
  /** Other critical alerts that can fire because of the fault, and for some time after the repair. */
  readonly others?: readonly string[];
  begin(): unknown;
  /** Called repeatedly until all alerts fire. */
  repeat?(): Promise<unknown>;
  repair(): unknown;
}

/**
 * Seconds from the fault until the alert fires, and from the repair until the alert ends, on an idle machine: the interval of the
 * measurement, plus the threshold if it is a time, plus the range and `for` of the rule in shortened times.
 */
export type Limits = readonly [firesS: number, endsS: number];

/** Seconds that a busy machine can add to each limit. */
const BUSY_S = 60;

export class ProvokedAlerts {
  /** Critical alerts that fired although no fault was active that can cause them. */
  readonly unexpected = new Set<string>();
  readonly #alertmanager: Alertmanager;
  readonly #rows: string[] = [];
  #expected: readonly string[] = [];
  #firing: ReadonlyMap<string, string> = new Map();

  constructor(alertmanager: Alertmanager) {
    this.#alertmanager = alertmanager;
  }

  /** Reads the alerts that fire. The test must call this function about twice a second. */
  async read(): Promise<void> {
    this.#firing = await this.#alertmanager.firing();
    for (const [alert, severity] of this.#firing)
      if (severity === 'critical' && !this.#expected.includes(alert)) this.unexpected.add(alert);
  }

  /** @throws Error if an alert does not fire, or does not end, within its limit */
  async provoke({ fault, alerts, others = [], begin, repeat, repair }: Fault): Promise<void> {
    const limits = new Map(Object.entries(alerts));
    this.#expected = [...this.#expected, ...limits.keys(), ...others];
    await begin();
    const fire = new Map([...limits].map(([alert, [firesS]]) => [alert, firesS + BUSY_S]));
    const fired = await timesUntil(`fire: ${fault}`, fire, (alert) => this.#firing.has(alert), repeat);
    await repair();
    const end = new Map([...limits].map(([alert, [, endsS]]) => [alert, endsS + BUSY_S]));
    const ended = await timesUntil(`end: ${fault}`, end, (alert) => !this.#firing.has(alert));
    this.#expected = this.#expected.filter((alert) => !limits.has(alert));
    for (const alert of limits.keys())
      this.#rows.push(
        `${alert} | ${fault} | ${fired.get(alert)} of ${fire.get(alert)} | ${ended.get(alert)} of ${end.get(alert)}`,
      );
  }

  /** Returns a table of the faults that have ended. */
  table(): string {
    return ['alert | fault | seconds to fire | seconds to end', ...this.#rows].join('\n');
  }
}

/** Returns the seconds until each alert met the condition. @throws Error if an alert exceeds its limit in seconds */
async function timesUntil(
  what: string,
  limits: ReadonlyMap<string, number>,
  isMet: (alert: string) => boolean,
  repeat?: () => Promise<unknown>,
): Promise<ReadonlyMap<string, number>> {
  const startMs = performance.now();
  const times = new Map<string, number>();
  const poll = async (): Promise<number> => {
    await repeat?.();
    const seconds = Math.round((performance.now() - startMs) / 1000);
    for (const [alert, limitS] of limits) {
      if (times.has(alert)) continue;
      if (isMet(alert)) times.set(alert, seconds);
      else if (seconds > limitS) throw new Error(`${alert} did not ${what} (limit: ${limitS} s)`);
    }
    return times.size;
  };
  await eventually(poll, (met) => met === limits.size, Number.POSITIVE_INFINITY);
  return times;
}
