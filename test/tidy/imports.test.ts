/** Checks which modules may import which. */
import { test } from 'vitest';
import { packageOf, reached, targetOf } from './graph.ts';
import { isMain, isTest, workspaceOf } from './projectFiles.ts';
import { type Import, parseSources, type Source } from './sources.ts';
import { expectNone } from './violations.ts';

const sources = parseSources();
const inServices = [...sources.values()].filter(({ path }) => /^(schemas|services)\//.test(path));

/** Layers of the workspaces. A workspace may import only from lower layers. */
const LAYERS: Readonly<Record<string, number>> = {
  schemas: 0,
  'services/client': 0,
  'services/runtime': 1,
  'services/console': 2,
  'services/ingest': 2,
  'services/linker': 2,
  'services/operations': 2,
  'services/projector': 2,
  'services/questlog': 3,
  'services/cli': 4,
  test: 5,
};

/** Entry files for whose first output people or supervisors wait, and the packages that may be loaded before that output. */
const LOADED_BY: readonly (readonly [entry: string, packages: RegExp])[] = [
  ['services/cli/src/main.ts', /^commander$/],
  ['services/questlog/src/main.ts', /^(avsc|pino|typebox)$/],
  ['services/questlog/src/credentials.ts', /^typebox$/],
  // The ClickHouse process starts before the other modules are loaded.
  ['services/questlog/src/services.ts', /^(@clickhouse\/client|avsc|pino|typebox)$/],
  ['services/questlog/src/wiring.ts', /^(?!jose|kafkajs|@kafkajs|@aws-sdk|@opentelemetry)/],
  ['services/runtime/src/clickhouse/chdb/main.ts', /^pino$/],
];

/** Layers of the folders of runtime. A folder may import only from lower layers. */
const RUNTIME_LAYERS: Readonly<Record<string, number>> = {
  process: 0,
  log: 1,
  clickhouse: 2,
  registry: 2,
  tracing: 3,
  directory: 3,
  consumer: 4,
  cursors: 4,
  http: 4,
  uploads: 5,
  exports: 6,
};

/** Folders of a service. A folder may import only from later folders of this list; `service.ts` wires all folders. */
const FOLDER_LAYERS: Readonly<Record<string, readonly string[]>> = {
  ingest: [
    ...[
      'settings.ts',
      'truncation.ts',
      'http',
      'linkedEvents',
      'rejections',
      'reports',
      'events',
      'sessions',
      'uploads',
      'entityCache',
    ],
    ...['expired', 'tokens', 'limits', 'ledger', 'core', 'context.ts', 'metrics.ts', 'tenantSeries.ts'],
  ],
  operations: [
    ...[
      'settings.ts',
      'http',
      'audit',
      'clickhouse',
      'deadLetters',
      'directory',
      'erasures',
      'exports',
      'retention',
      'sql',
      'reports',
    ],
    ...[
      'ledger',
      'expired',
      'watchDisks.ts',
      'watchLag.ts',
      'watchLedger.ts',
      'watchParts.ts',
      'watchReplicas.ts',
    ],
    ...['context.ts', 'metrics.ts'],
  ],
};

/** Libraries and the only folders that may import them. */
const ALLOWED_FOLDERS: Readonly<Record<string, string>> = {
  kafkajs: 'services/runtime/src/log/kafka/',
  '@kafkajs/confluent-schema-registry': 'services/runtime/src/registry/',
  'node:sqlite': 'services/runtime/src/log/embedded/',
  '@clickhouse/client': 'services/runtime/src/clickhouse/',
  chdb: 'services/runtime/src/clickhouse/',
  '@aws-sdk/client-s3': 'services/runtime/src/uploads/',
  '@aws-sdk/s3-request-presigner': 'services/runtime/src/uploads/',
  jose: 'services/ingest/src/tokens/',
  '@opentelemetry/api': 'services/runtime/src/tracing/',
  '@opentelemetry/core': 'services/runtime/src/tracing/',
  '@opentelemetry/exporter-trace-otlp-proto': 'services/runtime/src/tracing/',
  '@opentelemetry/resources': 'services/runtime/src/tracing/',
  '@opentelemetry/sdk-trace': 'services/runtime/src/tracing/',
};

/** Packages without IO, clock, and random numbers, as far as this project uses them. */
const PURE_PACKAGES = ['avsc', 'node:buffer', 'node:crypto', 'typebox'];
const PURE_CRYPTO = ['createHash', 'createHmac', 'hash', 'timingSafeEqual', 'Hash', 'Hmac'];
const IMPURE =
  /^(Date\.now|new Date\(\)|Date\(\)|performance\.\w+|Math\.random|process\.\w+|crypto\.\w+|console\.\w+|(set(Timeout|Interval|Immediate)|queueMicrotask|fetch)\(\))$/;

test('imports point one way: schemas ← runtime ← console, ingest, linker, operations, projector ← questlog ← cli ← test', () => {
  expectNone(
    imports([...sources.values()]).flatMap(({ at, from, target }) => {
      const [own, other] = [workspaceOf(from), target === undefined ? undefined : workspaceOf(target)];
      if (target === undefined || own === other) return [];
      const isLower = other !== undefined && stepOf(other) < stepOf(own);
      return isLower ? [] : [`${at}: ${own ?? 'the root'} must not import ${other ?? target}`];
    }),
  );
});

test('a file imports another workspace by its package name, not by a path', () => {
  expectNone(
    imports([...sources.values()])
      .filter(({ from, specifier, target }) => {
        return specifier.startsWith('.') && target !== undefined && workspaceOf(from) !== workspaceOf(target);
      })
      .map(({ at, specifier }) => `${at}: ${specifier} leaves its workspace; import it by its package name`),
  );
});

test('every imported file exists', () => {
  expectNone(
    imports([...sources.values()])
      .filter(({ target }) => target !== undefined && !sources.has(target))
      .map(({ at, target }) => `${at}: ${target} does not exist, or tsconfig.base.json does not include it`),
  );
});

test('there are no import cycles of values or types', () => {
  const product = inServices.filter(({ path }) => !isTest(path));
  expectNone(
    product
      .map(({ path }) => ({ path, circle: circleThrough(path) }))
      .filter(({ path, circle }) => circle.length > 0 && circle.every((other) => path <= other))
      .map(({ path, circle }) => `${path}: is in an import cycle with ${circle.join(' and ')}`),
  );
});

test('inside runtime imports point one way: process ← log ← clickhouse, registry ← directory, tracing ← consumer, cursors, http ← uploads ← exports', () => {
  const roomOf = (path: string): string | undefined => /^services\/runtime\/src\/([^/]+)/.exec(path)?.[1];
  const notOfTests = inServices.filter(({ path }) => !isTest(path) && !path.includes('/testing/'));
  expectNone(
    imports(notOfTests).flatMap(({ at, from, target }) => {
      const [own, other] = [roomOf(from), roomOf(target ?? '')];
      if (own === undefined || other === undefined || own === other) return [];
      const isAllowed = (RUNTIME_LAYERS[other] ?? 9) < (RUNTIME_LAYERS[own] ?? 0);
      return isAllowed ? [] : [`${at}: ${own} must not import ${other}`];
    }),
  );
});

test('runtime/process imports no other folder of the project', () => {
  const process = inServices.filter(({ path }) => path.startsWith('services/runtime/src/process/'));
  expectNone(
    imports(process)
      .filter(({ target }) => target !== undefined && !target.startsWith('services/runtime/src/process/'))
      .map(({ at, target }) => `${at}: process must not import ${target}`),
  );
});

test.each(Object.keys(FOLDER_LAYERS))(
  'inside %s imports point from earlier to later folders of its list',
  (service) => {
    const layers = FOLDER_LAYERS[service] ?? [];
    const folderOf = (path: string): string | undefined =>
      path.startsWith(`services/${service}/src/`) ? path.split('/')[3] : undefined;
    expectNone(
      imports(inServices.filter(({ path }) => !/\.(test|testing)\.ts$/.test(path))).flatMap(
        ({ at, from, target }) => {
          const [own, other] = [folderOf(from), folderOf(target ?? '')];
          if (own === undefined || other === undefined || own === other || own === 'service.ts') return [];
          const isAllowed = layers.includes(own) && layers.indexOf(own) < layers.indexOf(other);
          return isAllowed ? [] : [`${at}: ${own} must not import ${other}`];
        },
      ),
    );
  },
);

/** Servers that the benchmark compares with Questlog. */
const PEERS = 'test/bench/peers/';

test.each(Object.entries(ALLOWED_FOLDERS))('%s is imported only in %s', (library, home) => {
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
      .map((path) => `${path}: is test support, but a main.ts imports it directly or indirectly`),
  );
});

test('code that only tests use is named *.testing.ts or *.contract.ts, or is in a folder testing/', () => {
  const product = reached(mains(), { sources, follow: () => true, throughLiterals: true });
  const ofTests = /\.(test|testing|contract)\.ts$|\/main\.ts$|\/(testing|contract|fixtures)\//;
  expectNone(
    inServices
      .filter(({ path }) => !product.has(path) && !ofTests.test(path))
      .map(({ path }) => `${path}: no main.ts imports it; move it to testing/`),
  );
});

test('core and its imports are pure: no IO, clock, random numbers, or environment', () => {
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

test('only entry files and tests read process.env', () => {
  const product = reached(mains(), { sources, follow: () => true, throughLiterals: false });
  expectNone(
    inServices
      .filter(({ path }) => product.has(path) && !mains().includes(path))
      .flatMap(({ path, uses }) =>
        uses
          .filter(({ text }) => text === 'process.env')
          .map(
            ({ line }) => `${path}:${line}: only a main.ts reads process.env; pass settings as an argument`,
          ),
      ),
  );
});

test('help, rejected starts, and first output load no other packages', () => {
  expectNone(
    LOADED_BY.flatMap(([entry, packages]) =>
      imports(loadedWith(entry))
        .filter(({ specifier, target }) => target === undefined && !specifier.startsWith('node:'))
        .filter(({ specifier }) => !packages.test(specifier))
        .map(
          ({ at, specifier }) =>
            `${at}: ${specifier} is loaded by ${entry}; import it dynamically where it is used`,
        ),
    ),
  );
});

test('there are no default exports, except for vitest', () => {
  expectNone(
    [...sources.values()]
      .filter(({ path }) => !/^test\/.*\.config\.ts$/.test(path))
      .flatMap(({ path, uses }) =>
        uses
          .filter(({ text }) => text === 'export default')
          .map(({ line }) => `${path}:${line}: use a named export`),
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
  return LAYERS[workspace ?? 'test'] ?? 0;
}

/** Returns the other files of the import cycles that contain the file. */
function circleThrough(path: string): string[] {
  const follow = { sources, follow: () => true, throughLiterals: false };
  const targets = (from: string) =>
    imports([sources.get(from)].flatMap((source) => source ?? [])).flatMap(({ target }) => target ?? []);
  return [...reached(targets(path), follow)].filter(
    (other) => other !== path && reached(targets(other), follow).has(path),
  );
}

/** Returns the file and all files that are loaded before its first statement runs; type imports do not count. */
function loadedWith(entry: string): Source[] {
  const isLoaded = ({ isTypeOnly, isLater }: Import): boolean => !isTypeOnly && !isLater;
  const walk = { sources, follow: (_: Source, one: Import) => isLoaded(one), throughLiterals: false };
  return [...reached([entry], walk)]
    .flatMap((path) => sources.get(path) ?? [])
    .map((source) => ({ ...source, imports: source.imports.filter(isLoaded) }));
}

/** True if a process of the product starts with the file. */
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
    .map(({ specifier, line }) => `${path}:${line}: core imports ${specifier}, which is not pure`);
  const uses = source.uses
    .filter(({ text }) => IMPURE.test(text))
    .map(({ text, line }) => `${path}:${line}: core uses ${text}; pass the value as an argument`);
  return [...libraries, ...uses];
}
