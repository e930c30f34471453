import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Type from 'typebox';
import { expect, test } from 'vitest';
import { configTable, loadConfig, setting, shownConfig } from './config.ts';
import { StartRefused } from './errors.ts';

const schema = Type.Object({
  port: setting.integer({ env: 'X_PORT', default: 8080, minimum: 0, maximum: 65_535, description: 'Port.' }),
  mode: setting.choice(['fast', 'safe'], { env: 'X_MODE', default: 'safe', description: 'Mode.' }),
  secret: setting.text({ env: 'X_SECRET', default: 'none', description: 'Secret.' }),
});

test('takes defaults where nothing is set, and freezes the result', () => {
  const config = loadConfig(schema, {}, 'X_');
  expect(config).toEqual({ port: 8080, mode: 'safe', secret: 'none' });
  expect(Object.isFrozen(config)).toBe(true);
});

test('reports every bad and unknown setting at once', () => {
  const env = { X_PORT: '80x', X_MODE: 'slow', X_TYPO: '1', OTHER: '1' };
  expect(() => loadConfig(schema, env, 'X_')).toThrow(StartRefused);
  expect(() => loadConfig(schema, env, 'X_')).toThrow(/X_PORT.*X_MODE.*X_TYPO/);
});

test.each(['-1', '65536', '1.5', '', ' 1'])('refuses the port %j', (port) => {
  expect(() => loadConfig(schema, { X_PORT: port }, 'X_')).toThrow(/X_PORT/);
});

test('reads a secret from the file that X_SECRET_FILE names', () => {
  const directory = mkdtempSync(join(tmpdir(), 'config-'));
  const file = join(directory, 'secret');
  writeFileSync(file, 'hush\n');
  expect(loadConfig(schema, { X_SECRET_FILE: file }, 'X_').secret).toBe('hush');
  expect(() => loadConfig(schema, { X_SECRET_FILE: join(directory, 'none') }, 'X_')).toThrow(/X_SECRET_FILE/);
  rmSync(directory, { recursive: true });
});

test('describes every setting in a table', () => {
  expect(configTable(schema)).toContain('| `X_PORT` | `8080` | Port. |');
});

test('shows settings without their secrets, those in addresses too', () => {
  const shown = Type.Object({
    token: setting.secret({ env: 'X_TOKEN', description: 'Token.' }),
    url: setting.optional({ env: 'X_URL', description: 'Address.' }),
    other: setting.secret({ env: 'X_OTHER', description: 'Not given.' }),
  });
  const values = loadConfig(shown, { X_TOKEN: 'hush', X_URL: 'http://me:hush@host:1/db' }, 'X_');
  expect(shownConfig(shown, values)).toEqual({ token: '***', url: 'http://me:***@host:1/db', other: '' });
});
