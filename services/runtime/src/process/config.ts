/** Reads settings from environment variables. Each service defines its settings in a TypeBox object. */
import { readFileSync } from 'node:fs';
import Type, { type Static, type TObject, type TSchema } from 'typebox';
import { messageOf, StartRefused } from './errors.ts';
import { nearestName } from './nearestName.ts';

export interface SettingOptions {
  readonly env: string;
  /** Second environment variable for the setting. If both variables have a value, the value of the first variable applies. */
  readonly alias?: { readonly env: string; readonly isDeprecated: boolean };
  readonly description: string;
}

export interface DeprecatedName {
  readonly setting: string;
  readonly replacement: string;
}

export const setting = {
  integer: (options: SettingOptions & { default: number; minimum: number; maximum: number }) =>
    Type.Integer({ ...options }),
  text: (options: SettingOptions & { default: string }) => Type.String({ minLength: 1, ...options }),
  optional: (options: SettingOptions & { default?: string }) => Type.String({ default: '', ...options }),
  /** Setting whose text can be empty and is never printed. */
  secret: (options: SettingOptions) => Type.String({ ...options, default: '', secret: true }),
  choice: <const T extends string[]>(values: [...T], options: SettingOptions & { default: T[number] }) =>
    Type.Enum(values, { ...options }),
};

export type SettingsOf<T extends Record<string, TSchema>> = Readonly<Static<TObject<T>>>;

/** Runs all checks and returns their results. @throws StartRefused with the messages of all checks that failed */
export function checkSettings<T extends Readonly<Record<string, () => unknown>>>(
  checks: T,
  prefix = '',
): { readonly [Name in keyof T]: ReturnType<T[Name]> } {
  const problems: string[] = [];
  const options = Object.entries(checks).map(([name, check]) => {
    try {
      return [name, check()];
    } catch (error) {
      problems.push(messageOf(error));
      return [name, undefined];
    }
  });
  if (problems.length > 0) throw new StartRefused(prefix + problems.join('; '));
  return Object.fromEntries(options);
}

/** @throws StartRefused with the message if the setting is invalid */
export function rejectIf(isInvalid: boolean, message: string): void {
  if (isInvalid) throw new StartRefused(message);
}

type Env = Readonly<Record<string, string | undefined>>;

/** Reads the settings from environment variables. @throws StartRefused for invalid values and unknown `prefix` variables. */
export function loadConfig<T extends TObject>(schema: T, env: Env, prefix: string): Readonly<Static<T>> {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  const knownNames = new Set<string>();
  for (const [field, property] of Object.entries<TSchema>(schema.properties)) {
    const name = envName(property);
    for (const accepted of namesOf(property)) knownNames.add(accepted).add(`${accepted}_FILE`);
    const text = readFirst(env, namesOf(property), problems);
    values[field] = text === undefined ? Reflect.get(property, 'default') : parse(property, text);
    const problem = problemOf(property, values[field]);
    if (problem !== undefined) problems.push(`${name}: ${problem}, not ${JSON.stringify(text)}`);
  }
  for (const name of Object.keys(env)) {
    if (knownNames.has(name)) continue;
    const suggestion = nearestName(name, knownNames, 1);
    if (suggestion === undefined && !name.startsWith(prefix)) continue;
    problems.push(
      `${name}: there is no such setting${suggestion === undefined ? '' : `; did you mean ${suggestion}?`}`,
    );
  }
  if (problems.length > 0) throw new StartRefused(`settings: ${problems.join('; ')}`);
  return Object.freeze(values as Static<T>);
}

export function deprecatedNames(schema: TObject, env: Env): DeprecatedName[] {
  return Object.values<TSchema>(schema.properties).flatMap((property) => {
    const alias = aliasOf(property);
    if (alias?.isDeprecated !== true) return [];
    return [alias.env, `${alias.env}_FILE`]
      .filter((name) => env[name] !== undefined)
      .map((name) => ({ setting: name, replacement: name.replace(alias.env, envName(property)) }));
  });
}

export function shownConfig(schema: TObject, values: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(
    Object.entries(values).map(([field, value]) => {
      const isSecret = Reflect.get(Reflect.get(schema.properties, field), 'secret') === true;
      return [field, isSecret && value !== '' ? HIDDEN : hidePassword(value)];
    }),
  );
}

const HIDDEN = '***';

function hidePassword(value: unknown): unknown {
  if (typeof value !== 'string' || !URL.canParse(value)) return value;
  const url = new URL(value);
  if (url.password !== '') url.password = HIDDEN;
  return url.password === '' ? value : url.href;
}

/** Returns name, default, and meaning of each setting, for `docs/reference/config.md`. */
export function settingRows(schema: TObject): [name: string, value: string, meaning: string][] {
  return Object.values<TSchema>(schema.properties).map((property) => {
    const alias = aliasOf(property);
    const other =
      alias === undefined
        ? ''
        : ` ${alias.isDeprecated ? 'Deprecated name' : 'Other name'}: \`${alias.env}\`.`;
    return [
      envName(property),
      String(Reflect.get(property, 'default')),
      `${String(Reflect.get(property, 'description'))}${other}`,
    ];
  });
}

function envName(property: TSchema): string {
  return String(Reflect.get(property, 'env'));
}

function aliasOf(property: TSchema): SettingOptions['alias'] {
  return Reflect.get(property, 'alias');
}

function namesOf(property: TSchema): string[] {
  const alias = aliasOf(property);
  return alias === undefined ? [envName(property)] : [envName(property), alias.env];
}

function readFirst(env: Env, names: readonly string[], problems: string[]): string | undefined {
  const name = names.find(
    (candidate) => env[candidate] !== undefined || env[`${candidate}_FILE`] !== undefined,
  );
  return name === undefined ? undefined : read(env, name, problems);
}

/** Returns the value of the variable `NAME`, or the content of the file whose path is in `NAME_FILE`. */
function read(env: Env, name: string, problems: string[]): string | undefined {
  const file = env[`${name}_FILE`];
  if (file === undefined) return env[name];
  if (env[name] !== undefined) problems.push(`${name}: set either ${name} or ${name}_FILE, not both`);
  try {
    return readFileSync(file, 'utf8').trimEnd();
  } catch {
    problems.push(`${name}_FILE: ${file} cannot be read`);
    return undefined;
  }
}

/**
 * Returns the message that TypeBox would return for an invalid setting. TypeBox's own check is not used, because it would load
 * 300 more files when the process starts.
 */
function problemOf(property: TSchema, value: unknown): string | undefined {
  if (Type.IsEnum(property)) {
    const isOne = property.enum.some((one) => one === value);
    return isOne ? undefined : `must be one of ${property.enum.join(', ')}`;
  }
  if (Type.IsInteger(property)) {
    const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = boundsOf(property);
    if (typeof value !== 'number') return 'must be integer';
    if (value < minimum) return `must be >= ${minimum}`;
    return value > maximum ? `must be <= ${maximum}` : undefined;
  }
  if (!Type.IsString(property))
    throw new TypeError(`${envName(property)}: no such kind of setting is checked`);
  const { minLength = 0 } = boundsOf(property);
  if (typeof value !== 'string') return 'must be string';
  return value.length < minLength ? `must not have fewer than ${minLength} characters` : undefined;
}

function boundsOf(property: TSchema): { minimum?: number; maximum?: number; minLength?: number } {
  return property;
}

function parse(property: TSchema, text: string): unknown {
  if (Reflect.get(property, 'type') !== 'integer') return text;
  return /^-?\d+$/.test(text) ? Number(text) : text;
}
