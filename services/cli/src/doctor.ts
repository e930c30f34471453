/** The command `questlog doctor`. It checks a local or remote Questlog and suggests a fix for each problem. */
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { styleText } from 'node:util';
import type { Settings } from '@questlog/questlog/config';
import type { Credentials } from '@questlog/questlog/credentials';
import { messageOf } from '@questlog/runtime/process/errors';
import { Command } from 'commander';
import type { AdminEndpoint } from './connection.ts';
import { example } from './manage.ts';
import { forTerminal, jsonText } from './print.ts';

/** The page of the documentation that describes the cure, for each check that can fail. */
const PAGES = {
  Node: 'README.md#start',
  settings: 'docs/reference/config.md',
  'data folder': 'docs/operating/one-process.md',
  disk: 'docs/operating/runbooks/full-disk.md',
  credentials: 'docs/operating/one-process.md',
  'admin listener': 'docs/operating/runbooks/README.md#on-another-machine-or-in-a-container',
  readiness: 'docs/operating/alerts.md#warnings',
  clock: 'docs/operating/linker.md',
  'admin token': 'docs/operating/tokens.md#the-admin-token',
  ClickHouse: 'docs/operating/outages.md',
  'ClickHouse reader': 'docs/operating/kafka.md#an-account-for-queries',
  'game listener': 'docs/operating/production.md#proxy',
} as const;

type Check = keyof typeof PAGES;

export interface Finding {
  readonly check: Check | 'Questlog';
  readonly state: 'ok' | 'warn' | 'fail';
  readonly found: string;
  readonly cure?: string;
}

const DOCUMENTATION = 'https://github.com/questlog/questlog/blob/main/';

const COLOUR = { ok: 'green', warn: 'yellow', fail: 'red' } as const;
const NODE_MAJOR = 24;
const MIB = 1024 * 1024;
const MIN_FREE_DISK_BYTES = 128 * MIB;
const LOW_DISK_BYTES = 1024 * MIB;
const MAX_CLOCK_DIFFERENCE_MS = 5_000;
const REQUEST_TIMEOUT_MS = 5_000;
const GROUP_AND_OTHERS = 0o077;

export function doctorCommand(version: string, env: NodeJS.ProcessEnv): Command {
  const command = new Command('doctor')
    .description('find problems, and suggest a fix for each')
    .option('--json', 'print JSON');
  example(command, 'questlog doctor');
  return command.action(async ({ json = false }: { json?: boolean }) => {
    const checks: Finding[] = [{ check: 'Questlog', state: 'ok', found: version }, ...(await examine(env))];
    const findings = checks.map(withPage);
    process.stdout.write(json ? `${jsonText(findings)}\n` : table(findings));
    if (findings.some(({ state }) => state === 'fail')) process.exitCode = 1;
  });
}

type FindingWithPage = Finding & { readonly page?: string };

function withPage(finding: Finding): FindingWithPage {
  const { check, state } = finding;
  return state === 'ok' || check === 'Questlog'
    ? finding
    : { ...finding, page: DOCUMENTATION + PAGES[check] };
}

function table(findings: readonly FindingWithPage[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  const lines = findings.map(({ check, state, found, cure, page }) => {
    const parts = [found, cure, page && `see ${page}`].filter((part) => part !== undefined);
    const text = forTerminal(parts.join('; ')).replace(/\s+/g, ' ');
    return `${styleText(COLOUR[state], state.padEnd(4))}  ${check.padEnd(width)}  ${text}\n`;
  });
  return lines.join('');
}

/** Runs the checks. If `QUESTLOG_ADMIN_URL` is set, checks no local folders, because Questlog can be on another machine. */
async function examine(env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const { adminEndpoint, settingsOf } = await import('./connection.ts');
  const findings = [nodeFinding(process.versions.node)];
  let config: Settings;
  try {
    config = await settingsOf(env);
    if (config.adminUrl === '') (await import('@questlog/questlog/config')).checkedOptions(config, true);
    findings.push({ check: 'settings', state: 'ok', found: 'valid' });
  } catch (error) {
    const found = messageOf(error).replace(/^settings: /, '');
    return [...findings, { check: 'settings', state: 'fail', found, cure: 'correct the setting' }];
  }
  let target = { adminUrl: config.adminUrl, adminToken: config.adminToken, gameUrl: config.url };
  if (config.adminUrl === '') {
    const { local, credentials } = await localFindings(config);
    findings.push(...local);
    if (credentials === undefined) return findings;
    target = {
      adminUrl: credentials.adminUrl,
      adminToken: config.adminToken || credentials.adminToken,
      gameUrl: config.url || credentials.baseUrl,
    };
  }
  const admin = adminEndpoint(target.adminUrl, target.adminToken);
  const adminChecks = await adminFindings(admin.url);
  findings.push(...adminChecks);
  if (adminChecks.some(({ check }) => check === 'clock')) findings.push(await clickhouseFinding(admin));
  return [...findings, await gameFinding(target.gameUrl)];
}

const START_CURE =
  'run npm start, or set QUESTLOG_DATA_DIR to the data folder or QUESTLOG_ADMIN_URL to the address of a Questlog';

async function localFindings(config: Settings): Promise<{ local: Finding[]; credentials?: Credentials }> {
  const dataDir = resolve(config.dataDir);
  if (!existsSync(dataDir)) {
    const found = `no Questlog has been started with ${dataDir} yet`;
    return { local: [{ check: 'data folder', state: 'fail', found, cure: START_CURE }] };
  }
  const { bavail, bsize } = statfsSync(dataDir);
  const local = [folderFinding(dataDir), diskFinding(bavail * bsize)];
  const { credentialsOf } = await import('./connection.ts');
  const { readCredentials } = await import('@questlog/questlog/credentials');
  try {
    const path = await credentialsOf(config);
    const credentials = readCredentials(path);
    if (credentials === undefined) {
      const found = `the file ${path} does not exist`;
      return { local: [...local, { check: 'credentials', state: 'fail', found, cure: START_CURE }] };
    }
    return { local: [...local, { check: 'credentials', state: 'ok', found: path }], credentials };
  } catch (error) {
    return {
      local: [
        ...local,
        failed('credentials', error, 'the next start creates new credentials if the file does not exist'),
      ],
    };
  }
}

function folderFinding(dataDir: string): Finding {
  const check = 'data folder';
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    return failed(
      check,
      error,
      'run this command as the owner of the folder, or make the user that runs Questlog the owner',
    );
  }
  const isReadableByOthers = (path: string): boolean => (statSync(path).mode & GROUP_AND_OTHERS) !== 0;
  const dataPaths = ['log', 'clickhouse', 'uploads', 'dev-credentials.json', 'dev-credentials.kafka.json']
    .map((name) => join(dataDir, name))
    .filter(existsSync);
  const readable = isReadableByOthers(dataDir) ? dataPaths.filter(isReadableByOthers) : [];
  if (readable.length === 0) return { check, state: 'ok', found: dataDir };
  const found = `other users of this machine can read ${readable.join(', ')}`;
  return { check, state: 'warn', found, cure: `chmod -R go= ${readable.join(' ')}` };
}

export function nodeFinding(version: string): Finding {
  const check = 'Node';
  if (Number.parseInt(version, 10) >= NODE_MAJOR) return { check, state: 'ok', found: version };
  const cure = `Questlog needs Node ${NODE_MAJOR} or newer: on Linux, npm ci installs it and npx questlog uses it`;
  return { check, state: 'fail', found: version, cure };
}

export function diskFinding(freeBytes: number): Finding {
  const found = `${(freeBytes / MIB / 1024).toFixed(1)} GiB free`;
  if (freeBytes >= LOW_DISK_BYTES) return { check: 'disk', state: 'ok', found };
  const state = freeBytes < MIN_FREE_DISK_BYTES ? 'fail' : 'warn';
  return { check: 'disk', state, found, cure: 'free space: Questlog rejects events when the disk is full' };
}

/** @param date the `Date` header of a response. The header has a resolution of one second. */
export function clockFinding(date: string | null, nowMs: number): Finding {
  const check = 'clock';
  const differenceMs = Math.abs(nowMs - Date.parse(date ?? ''));
  if (Number.isNaN(differenceMs)) {
    return {
      check,
      state: 'warn',
      found: 'the response has no Date header',
      cure: 'check the proxy in front of Questlog',
    };
  }
  const found = `${Math.floor(differenceMs / 1000)} s difference to the clock of the admin listener`;
  if (differenceMs <= MAX_CLOCK_DIFFERENCE_MS) return { check, state: 'ok', found };
  return { check, state: 'warn', found, cure: 'synchronize both machines with a time server (NTP)' };
}

async function adminFindings(url: string): Promise<Finding[]> {
  const check = 'admin listener';
  try {
    const alive = await answerOf(`${url}/healthz`);
    const clock = clockFinding(alive.headers.get('date'), Date.now());
    if (!alive.ok) return [unexpectedAnswer(check, `${url}/healthz`, alive)];
    const readiness = await (await answerOf(`${url}/readyz`)).text();
    const { problems = {}, warnings = {} }: Readiness = JSON.parse(readiness);
    const findingsOf = (state: 'fail' | 'warn', sentences: Sentences): Finding[] =>
      Object.entries(sentences).map(([name, sentence]) => {
        return { check: 'readiness', state, found: `${name}: ${sentence}` };
      });
    const listener: Finding = { check, state: 'ok', found: url };
    return [listener, ...findingsOf('fail', problems), ...findingsOf('warn', warnings), clock];
  } catch {
    return [unreachable(check, url, 'QUESTLOG_ADMIN_URL')];
  }
}

type Sentences = Readonly<Record<string, string>>;

interface Readiness {
  readonly problems?: Sentences;
  readonly warnings?: Sentences;
}

async function gameFinding(gameUrl: string): Promise<Finding> {
  const check = 'game listener';
  const url = gameUrl.replace(/\/+$/, '');
  if (url === '') {
    return { check, state: 'warn', found: 'not checked', cure: 'set QUESTLOG_URL to check it' };
  }
  try {
    const answer = await answerOf(`${url}/health`);
    return answer.ok ? { check, state: 'ok', found: url } : unexpectedAnswer(check, `${url}/health`, answer);
  } catch {
    return unreachable(check, url, 'QUESTLOG_URL');
  }
}

async function clickhouseFinding(admin: AdminEndpoint): Promise<Finding> {
  const check = 'ClickHouse';
  try {
    const { data }: { data: { version: string }[] } = await admin.json('runSql', {
      body: { query: 'SELECT version() AS version' },
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    return { check, state: 'ok', found: data[0]?.version ?? '' };
  } catch (error) {
    const code = error instanceof Error ? Reflect.get(error, 'code') : undefined;
    if (code === 'unauthorized') {
      return failed(
        'admin token',
        error,
        'set QUESTLOG_ADMIN_TOKEN to the value with which Questlog was started',
      );
    }
    if (code === 'query_not_allowed') {
      const cure = 'questlog sql does not work until this is fixed';
      return { ...failed('ClickHouse reader', error, cure), state: 'warn' };
    }
    return failed(
      check,
      error,
      'check the log of ClickHouse; accepted events wait in the event log meanwhile',
    );
  }
}

function answerOf(url: string): Promise<Response> {
  return fetch(url, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
}

function unexpectedAnswer(check: Check, url: string, { status }: Response): Finding {
  const cure = 'another program listens at this address: set the address of Questlog';
  return { check, state: 'fail', found: `${url} answers ${status}`, cure };
}

function unreachable(check: Check, url: string, name: string): Finding {
  const cure = `start Questlog (npm start), or set ${name} to its address`;
  return { check, state: 'fail', found: `no answer from ${url}`, cure };
}

function failed(check: Check, error: unknown, cure: string): Finding {
  return { check, state: 'fail', found: messageOf(error), cure };
}
