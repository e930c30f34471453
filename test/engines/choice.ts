/** Chooses the engines of the Kafka suites, and the line that is printed about the choice. */
import { requiredNames } from '@questlog/runtime/process/testing/required';

/** The engines that a run needs, by their environment variables. */
export const PARTS = ['KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'CLICKHOUSE_URL'] as const;
export type Part = (typeof PARTS)[number];

export type Environment = Readonly<Record<string, string | undefined>>;

/** Capabilities of this machine to start engines. */
export interface MachineCapabilities {
  readonly dockerAnswers: boolean;
  /** The first image that Docker neither has nor can pull. */
  readonly missingImage: string | undefined;
  /** The local stack finds its processes in /proc. */
  readonly isLinux: boolean;
  /** The major version of `java` on the PATH. */
  readonly java: number | undefined;
  readonly hasMaven: boolean;
  /** True if the jars are downloaded, so that Maven is not needed. */
  readonly hasJars: boolean;
}

export type Provider = 'docker' | 'local';

export type Choice =
  | {
      readonly kind: 'given';
      readonly missing: readonly Part[];
      readonly from?: Provider;
      readonly line: string;
    }
  | { readonly kind: Provider; readonly line: string }
  | { readonly kind: 'none'; readonly isRefused: boolean; readonly line: string };

const MINIMUM_JAVA = 17;

/** Returns the engines that the environment does not name. An empty value counts as missing. */
export function missingParts(env: Environment): readonly Part[] {
  return PARTS.filter((part) => !env[part]);
}

/** @param machine capabilities of the machine. Undefined if no engine is missing. */
export function chooseEngines(env: Environment, machine: MachineCapabilities | undefined): Choice {
  const missing = missingParts(env);
  const given = PARTS.filter((part) => !missing.includes(part));
  if (missing.length === 0 || machine === undefined) {
    return { kind: 'given', missing: [], line: `kafka tests: on ${listOf(PARTS)} as given` };
  }
  const noDocker = whyNoDocker(machine);
  const noLocal = whyNoLocal(machine);
  if (noDocker !== undefined && noLocal !== undefined) return none(env, `${noDocker}, and ${noLocal}`);
  const from = noDocker === undefined ? 'docker' : 'local';
  const because = noDocker === undefined ? '' : `; ${noDocker}`;
  const source = from === 'docker' ? 'in Docker' : 'from a local stack';
  if (given.length > 0) {
    const line = `kafka tests: on ${listOf(given)} as given, ${listOf(missing)} ${source}${because}`;
    return { kind: 'given', missing, from, line };
  }
  const line = from === 'docker' ? 'on Kafka in Docker' : 'on a local Kafka';
  return { kind: from, line: `kafka tests: ${line} (3 brokers)${because}` };
}

function none(env: Environment, reason: string): Choice {
  const required = requiredNames(env).filter((name) => name === 'kafka' || name === 'registry');
  if (required.length === 0)
    return { kind: 'none', isRefused: false, line: `kafka tests: skipped: ${reason}` };
  const line = `QUESTLOG_REQUIRE asks for ${listOf(required)}, but ${reason}`;
  return { kind: 'none', isRefused: true, line: `kafka tests: ${line}` };
}

function whyNoDocker({ dockerAnswers, missingImage }: MachineCapabilities): string | undefined {
  if (!dockerAnswers) return 'Docker does not answer';
  return missingImage && `Docker has no image ${missingImage} and cannot pull it`;
}

function whyNoLocal({ isLinux, java, hasMaven, hasJars }: MachineCapabilities): string | undefined {
  if (!isLinux) return 'a local stack needs Linux';
  if (java === undefined) return `there is no Java ${MINIMUM_JAVA}`;
  if (java < MINIMUM_JAVA) return `Java is ${java} instead of ${MINIMUM_JAVA} or newer`;
  return hasMaven || hasJars ? undefined : 'there is no Maven to fetch a local Kafka with';
}

function listOf(names: readonly string[]): string {
  const last = names.at(-1) ?? '';
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`;
}
