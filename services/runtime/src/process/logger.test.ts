import { expect, test } from 'vitest';
import { createLogger, type LoggerOptions, logOptions } from './logger.ts';

test('writes JSON with the level as a word', () => {
  const { logger, lines } = aLogger({ format: 'json', worker: 2 });
  logger.warn('disk_full', { freeBytes: 7 });
  expect(JSON.parse(lines[0] ?? '')).toEqual({
    ...{ level: 'warn', service: 'ingest', worker: 2, event: 'disk_full', freeBytes: 7 },
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
  });
});

test('adds the id of the current trace, if there is one', () => {
  let traceId: string | undefined = 'f'.repeat(32);
  const { logger, lines } = aLogger({ format: 'json', traceId: () => traceId });
  logger.warn('in_a_trace');
  traceId = undefined;
  logger.warn('outside');
  const fields = lines.map((line) => JSON.parse(line));
  expect(fields[0]).toMatchObject({ event: 'in_a_trace', trace_id: 'f'.repeat(32) });
  expect(fields[1]).not.toHaveProperty('trace_id');
});

test('writes text for a terminal: quoted fields, causes, and the stack of a bug on lines of its own', () => {
  const { logger, lines } = aLogger({ format: 'text' });
  logger.info('started', { url: 'http://127.0.0.1:1', note: 'two words' });
  logger.error('cannot_go_on', new Error('outer', { cause: new Error('inner') }), { bug: true });
  expect(lines[0]).toMatch(/^\S+Z INFO {2}ingest started url=http:\/\/127\.0\.0\.1:1 note="two words"\n$/);
  expect(lines[1]).toMatch(
    /^\S+Z ERROR ingest cannot_go_on bug=true causes=\["outer","inner"\]\nError: outer\n +at /,
  );
});

test('does not write entries below the level', () => {
  const { logger, lines } = aLogger({ level: 'error' });
  logger.warn('disk_full');
  expect(lines).toEqual([]);
});

test.each([
  [{}, true, { level: 'info', format: 'text' }],
  [{}, false, { level: 'info', format: 'json' }],
  [{ QUESTLOG_LOG_FORMAT: 'json', QUESTLOG_LOG_LEVEL: 'error' }, true, { level: 'error', format: 'json' }],
  [{ QUESTLOG_LOG_FORMAT: 'text' }, false, { level: 'info', format: 'text' }],
] as const)('chooses by the environment %j and the terminal (%j)', (env, isTerminal, options) => {
  expect(logOptions(env, isTerminal)).toEqual(options);
});

function aLogger(options: LoggerOptions) {
  const lines: string[] = [];
  const destination = { write: (line: string) => lines.push(line) };
  return { logger: createLogger('ingest', { ...options, destination }), lines };
}
