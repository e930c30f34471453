/** The arrows of the house: who may import whom. */
import { test } from 'vitest';
import { packageOf, reached, targetOf } from './graph.ts';
import { isMain, isTest, workspaceOf } from './house.ts';
import { type Import, parseSources, type Source } from './sources.ts';
import { expectNone } from './violations.ts';

const sources = parseSources();
const inServices = [...sources.values()].filter(({ path }) => /^(schemas|services)\//.test(path));

/** Each may import what stands lower; of two on the same step neither may import the other. */
const STEPS: Readonly<Record<string, number>> = {
  schemas: 0,
  'services/client': 0,
  'services/runtime': 1,
  'services/console': 2,
  'services/ingest': 2,
  'services/linker': 2,
  'services/projector': 2,
  'services/questlog': 3,
  'services/cli': 4,
  test: 5,
};

/** Where people or supervisors wait for the first line, and the packages that may be loaded before it. */
const LOADED_BY: readonly (readonly [entry: string, packages: RegExp])[] = [
  ['services/cli/src/main.ts', /^commander$/],
  ['services/questlog/src/main.ts', /^(avsc|pino|typebox)$/],
  ['services/questlog/src/credentials.ts', /^typebox$/],
  // ClickHouse's process is started before the rest is loaded.
  ['services/questlog/src/services.ts', /^(@clickhouse\/client|avsc|pino|typebox)$/],
  ['services/questlog/src/wiring.ts', /^(?!jose|kafkajs|@kafkajs|@aws-sdk)/],
  ['services/runtime/src/clickhouse/chdb/main.ts', /^pino$/],
];

/** In runtime each room may import what stands lower. */
const STEPS_OF_RUNTIME: Readonly<Record<string, number>> = {
  process: 0,
  log: 1,
  clickhouse: 1,
  registry: 2,
  directory: 3,
  consumer: 3,
};

/** In ingest each room may import those to its right; `service.ts` wires all of them. */
const ROOMS_OF_INGEST = [
  'http',
  'reports',
  'events',
  'sessions',
  'uploads',
  'known',
  'tokens',
  'limits',
  'ledger',
  'expired',
  'places',
  'core',
  'metrics.ts',
  'rejected.ts',
];
/** They stand beside the others: used by `http` only, and using what lies below `sessions`. */
const BESIDE = ['admin', 'erasures', 'linkedEvents', 'rejections', 'retention'];

/** Adapters keep their library to themselves. */
const HOMES: Readonly<Record<string, string>> = {
  kafkajs: 'services/runtime/src/log/kafka/',
  '@kafkajs/confluent-schema-registry': 'services/runtime/src/registry/',
  'node:sqlite': 'services/runtime/src/log/embedded/',
  '@clickhouse/client': 'services/runtime/src/clickhouse/',
  chdb: 'services/runtime/src/clickhouse/',
  '@aws-sdk/client-s3': 'services/ingest/src/uploads/',
  '@aws-sdk/s3-request-presigner': 'services/ingest/src/uploads/',
  jose: 'services/ingest/src/tokens/',
};

/** Nothing of these reaches out of the process, or asks for a time or a random number, as they are used here. */
const PURE_PACKAGES = ['avsc', 'node:buffer', 'node:crypto', 'typebox'];
const PURE_CRYPTO = ['createHash', 'createHmac', 'hash', 'timingSafeEqual', 'Hash', 'Hmac'];
const IMPURE =
  /^(Date\.now|new Date\(\)|Date\(\)|performance\.\w+|Math\.random|process\.\w+|crypto\.\w+|console\.\w+|(set(Timeout|Interval|Immediate)|queueMicrotask|fetch)\(\))$/;

test('imports point one way: schemas ← runtime ← console, ingest, linker, projector ← questlog ← cli ← test', () => {
  expectNone(
    imports([...sources.values()]).flatMap(({ at, from, target }) => {
      const [own, other] = [workspaceOf(from), target === undefined ? undefined : workspaceOf(target)];
      if (target === undefined || own === other) return [];
      const isLower = other !== undefined && stepOf(other) < stepOf(own);
      return isLower ? [] : [`${at}: ${own ?? 'the root'} must not import ${other ?? target}`];
    }),
  );
});

test('another workspace is imported by its name, not by a path into it', () => {
  expectNone(
    imports([...sources.values()])
      .filter(({ from, specifier, target }) => {
        return specifier.startsWith('.') && target !== undefined && workspaceOf(from) !== workspaceOf(target);
      })
      .map(({ at, specifier }) => `${at}: ${specifier} leaves its workspace; import it by its package name`),
  );
});

test('every import leads to a file that is there', () => {
  expectNone(
    imports([...sources.values()])
      .filter(({ target }) => target !== undefined && !sources.has(target))
      .map(({ at, target }) => `${at}: there is no ${target}, or tsconfig.base.json does not include it`),
  );
});

test('no file comes to import itself, by values or by types', () => {
  const product = inServices.filter(({ path }) => !isTest(path));
  expectNone(
    product
      .map(({ path }) => ({ path, circle: circleThrough(path) }))
      .filter(({ path, circle }) => circle.length > 0 && circle.every((other) => path <= other))
      .map(({ path, circle }) => `${path}: is imported by what it imports, ${circle.join(' and ')}`),
  );
});

test('inside runtime imports point one way: process ← log, clickhouse ← registry ← directory, consumer', () => {
  const roomOf = (path: string): string | undefined => /^services\/runtime\/src\/([^/]+)/.exec(path)?.[1];
  const notOfTests = inServices.filter(({ path }) => !isTest(path) && !path.includes('/testing/'));
  expectNone(
    imports(notOfTests).flatMap(({ at, from, target }) => {
      const [own, other] = [roomOf(from), roomOf(target ?? '')];
      if (own === undefined || other === undefined || own === other) return [];
      const isAllowed = (STEPS_OF_RUNTIME[other] ?? 9) < (STEPS_OF_RUNTIME[own] ?? 0);
      return isAllowed ? [] : [`${at}: ${own} must not import ${other}`];
    }),
  );
});

test('process, the ground floor, imports nothing of ours', () => {
  const process = inServices.filter(({ path }) => path.startsWith('services/runtime/src/process/'));
  expectNone(
    imports(process)
      .filter(({ target }) => target !== undefined && !target.startsWith('services/runtime/src/process/'))
      .map(({ at, target }) => `${at}: process must not import ${target}`),
  );
});

test('inside ingest imports point one way: http → reports → events → sessions → uploads → known → tokens → limits → ledger → core → rejected', () => {
  const roomOf = (path: string): string | undefined => /^services\/ingest\/src\/([^/]+)/.exec(path)?.[1];
  expectNone(
    imports(inServices.filter(({ path }) => !/\.(test|testing)\.ts$/.test(path))).flatMap(
      ({ at, from, target }) => {
        const [own, other] = [roomOf(from), roomOf(target ?? '')];
        if (own === undefined || other === undefined || own === other || own === 'service.ts') return [];
        const isAllowed = BESIDE.includes(other) ? own === 'http' : stepIn(own) < stepIn(other);
        return isAllowed ? [] : [`${at}: ${own} must not import ${other}`];
      },
    ),
  );
});

/** Servers that Questlog is measured against, as others would write them. */
const PEERS = 'test/bench/peers/';

test.each(Object.entries(HOMES))('%s is imported only in %s', (library, home) => {
  expectNone(
    imports([...sources.values()])
      .filter(({ from }) => !from.startsWith(PEERS))
      .filter(({ from, specifier }) => packageOf(specifier) === library && !from.startsWith(home))
      .map(({ at }) => `${at}: ${library} is imported only in ${home}`),
  );
});

test('sources do not import fixtures, contracts or tests', () => {
  const product = reached(mains(), { sources, follow: () => true, throughLiterals: false });
  expectNone(
    [...product]
      .filter((path) => /\.(test|contract|fixture|testing)\.ts$|\/fixtures\//.test(path))
      .map((path) => `${path}: is for tests, yet a main.ts comes to import it`),
  );
});

test('what only tests use says so: it is *.testing.ts or *.contract.ts, or stands in testing/', () => {
  const product = reached(mains(), { sources, follow: () => true, throughLiterals: true });
  const ofTests = /\.(test|testing|contract)\.ts$|\/main\.ts$|\/(testing|contract|fixtures)\//;
  expectNone(
    inServices
      .filter(({ path }) => !product.has(path) && !ofTests.test(path))
      .map(({ path }) => `${path}: no main.ts comes to import it; put it into testing/`),
  );
});

test('core is pure: neither it nor what it imports does IO or asks for time, chance or environment', () => {
  const core = inServices.map(({ path }) => path).filter((path) => path.includes('/core/') && !isTest(path));
  const pure = reached(core, {
    sources,
    follow: (_, imported) => !imported.isTypeOnly,
    throughLiterals: false,
  });
  expectNone([...pure].flatMap((path) => impurities(sources.get(path))));
});

test('core returns values, not promises, and trusts its types without casts', () => {
  expectNone(
    inServices
      .filter(({ path }) => path.includes('/core/') && !isTest(path))
      .flatMap(({ path, uses }) =>
        uses
          .filter(({ text }) => ['async', 'await', 'as'].includes(text))
          .map(({ text, line }) => `${path}:${line}: no \`${text}\` in core`),
      ),
  );
});

test('process.env is read only where a process begins, and in tests', () => {
  const product = reached(mains(), { sources, follow: () => true, throughLiterals: false });
  expectNone(
    inServices
      .filter(({ path }) => product.has(path) && !mains().includes(path))
      .flatMap(({ path, uses }) =>
        uses
          .filter(({ text }) => text === 'process.env')
          .map(
            ({ line }) =>
              `${path}:${line}: settings come in as an argument; only a main.ts reads process.env`,
          ),
      ),
  );
});

test('help, refusals and starts load what they need: the rest is imported by the call that needs it', () => {
  expectNone(
    LOADED_BY.flatMap(([entry, packages]) =>
      imports(loadedWith(entry))
        .filter(({ specifier, target }) => target === undefined && !specifier.startsWith('node:'))
        .filter(({ specifier }) => !packages.test(specifier))
        .map(({ at, specifier }) => `${at}: ${specifier} is loaded with ${entry}, which begins without it`),
    ),
  );
});

test('nothing is exported as default, except to vitest', () => {
  expectNone(
    [...sources.values()]
      .filter(({ path }) => !/^test\/.*\.config\.ts$/.test(path))
      .flatMap(({ path, uses }) =>
        uses
          .filter(({ text }) => text === 'export default')
          .map(({ line }) => `${path}:${line}: exports are named, never default`),
      ),
  );
});

function imports(of: readonly Source[]): {
  at: string;
  from: string;
  specifier: string;
  target: string | undefined;
}[] {
  return of.flatMap(({ path, imports }) =>
    imports.map(({ specifier, line }) => {
      return { at: `${path}:${line}`, from: path, specifier, target: targetOf(path, specifier) };
    }),
  );
}

function stepOf(workspace: string | undefined): number {
  return STEPS[workspace ?? 'test'] ?? 0;
}

function stepIn(room: string): number {
  return ROOMS_OF_INGEST.indexOf(BESIDE.includes(room) ? 'sessions' : room);
}

/** The other files that a file reaches and that reach it. */
function circleThrough(path: string): string[] {
  const follow = { sources, follow: () => true, throughLiterals: false };
  const targets = (from: string) =>
    imports([sources.get(from)].flatMap((source) => source ?? [])).flatMap(({ target }) => target ?? []);
  return [...reached(targets(path), follow)].filter(
    (other) => other !== path && reached(targets(other), follow).has(path),
  );
}

/** The file and all that is loaded before its first line runs, without the types of it. */
function loadedWith(entry: string): Source[] {
  const isLoaded = ({ isTypeOnly, isLater }: Import): boolean => !isTypeOnly && !isLater;
  const walk = { sources, follow: (_: Source, one: Import) => isLoaded(one), throughLiterals: false };
  return [...reached([entry], walk)]
    .flatMap((path) => sources.get(path) ?? [])
    .map((source) => ({ ...source, imports: source.imports.filter(isLoaded) }));
}

/** Where a process of the product begins. */
function mains(): string[] {
  return [...sources.keys()].filter(isMain);
}

function impurities(source: Source | undefined): string[] {
  if (source === undefined) return [];
  const { path } = source;
  const libraries = source.imports
    .filter(({ specifier, isTypeOnly, names }) => {
      if (isTypeOnly || targetOf(path, specifier) !== undefined) return false;
      const library = packageOf(specifier);
      if (library === 'node:crypto')
        return names.length === 0 || !names.every((name) => PURE_CRYPTO.includes(name));
      return !PURE_PACKAGES.includes(library);
    })
    .map(({ specifier, line }) => `${path}:${line}: core comes to import ${specifier}, which is not pure`);
  const uses = source.uses
    .filter(({ text }) => IMPURE.test(text))
    .map(({ text, line }) => `${path}:${line}: core comes to ${text}; such values come in as arguments`);
  return [...libraries, ...uses];
}
