/**
 * Tests that Java classes from `schemas/readers` can read the records of both event topics. Both topics have their classes in
 * one project.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { aLinkedEvent, anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { unframe } from '@questlog/schemas/topics/contract';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { expect, onTestFinished, test } from 'vitest';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const JAVA = here('./java');
const POM = join(JAVA, 'pom.xml');
const JARS = here('../../node_modules/.cache/questlog-java-jars');
/** Option that disables the second compiler of Java, because that compiler would compete for the cores. */
const QUICK_START = ['-XX:TieredStopAtLevel=1'];
const READERS = here('../../schemas/readers');

/** Time limit. It includes the first download of 6 MB by Maven. */
const WITHIN_MS = 120_000;

test('classes of all schemas for readers compile in one project, and read events and links unchanged', {
  timeout: WITHIN_MS,
}, ({ skip }) => {
  if (spawnSync('javac', ['-version']).status !== 0) {
    failIfRequired('kafka', 'javac is not installed');
    skip('javac is not installed');
  }
  provideJars();
  const work = mkdtempSync(join(tmpdir(), 'questlog-java-'));
  onTestFinished(() => rmSync(work, { recursive: true }));

  const key = '01a1fe02-7454-7000-a110-3027adf24232';
  const accepted = anEventsAccepted({
    idempotency: { key, digest: Buffer.alloc(32, 7) },
    revision: 'B',
    events: [
      {
        eventType: 'été 漢 😀',
        payload: Buffer.from('{"a":1e400,"ü":-0}'),
        sequence: 9_007_199_254_740_000,
        sampleRate: 0.25,
      },
      {},
    ],
  });
  const link = aLinkedEvent();
  const records = [
    [eventsAccepted, unframe(eventsAccepted.framed(1, accepted))?.body],
    [linkedEvents, linkedEvents.type.toBuffer(link)],
  ] as const;
  const base64 = (bytes: string | Buffer = '') => Buffer.from(bytes).toString('base64');
  const file = join(work, 'records');
  writeFileSync(
    file,
    records.map(([{ subject, schema }, body]) => `${subject} ${base64(schema)} ${base64(body)}\n`).join(''),
  );
  const generate = (schemas: string) => {
    const own = [join(JAVA, 'GenerateAndRead.java'), schemas, work, join(JAVA, 'ReadBothTopics.java'), file];
    const args = [...QUICK_START, '-cp', join(JARS, '*'), ...own];
    return spawnSync('java', args, { encoding: 'utf8' });
  };

  const { status, stdout, stderr } = generate(READERS);

  expect(status, stderr).toBe(0);
  const [first, second] = accepted.events;
  const { event } = link;
  expect(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split('\t')),
  ).toEqual([
    ['event', first?.id, 'été 漢 😀', '{"a":1e400,"ü":-0}', '9007199254740000', '0.25', 'B', key],
    ['event', second?.id, 'checkpoint', '{}', 'null', 'null', 'B', key],
    [
      ...['link', event.id, event.eventType, event.payload.toString(), link.kind, link.source, link.reportId],
      new Date(event.receivedAt).toISOString().replace('.000Z', 'Z'),
    ],
  ]);
});

/**
 * Downloads the jars with Maven if they are missing or the pom has changed. @throws Error if a jar differs from
 * `java/jars.sha256`.
 */
function provideJars(): void {
  const pom = readFileSync(POM);
  const copy = join(JARS, 'pom.xml');
  if (!existsSync(copy) || !readFileSync(copy).equals(pom)) {
    rmSync(JARS, { recursive: true, force: true });
    mkdirSync(JARS, { recursive: true });
    execFileSync('mvn', ['-B', '-q', '-ntp', '-C', '-f', POM, `-Djars=${JARS}`, 'generate-resources']);
  }
  execFileSync('sha256sum', ['--check', '--quiet', join(JAVA, 'jars.sha256')], { cwd: JARS });
  writeFileSync(copy, pom);
}
