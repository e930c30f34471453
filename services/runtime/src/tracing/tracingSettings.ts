/**
 * Settings of traces. OpenTelemetry defines the variables `OTEL_*`, and its libraries read the variables that configure the
 * exporter. Questlog only checks the addresses in these variables, because the libraries ignore some invalid addresses.
 */
import { rejectIf, type SettingsOf, setting } from '../process/config.ts';
import { StartRefused } from '../process/errors.ts';

const PARENT_BASED = 'parentbased_';

export const tracingSettings = {
  tracesExporter: setting.optional({
    env: 'OTEL_TRACES_EXPORTER',
    description:
      '`otlp` exports [traces](../operating/tracing.md) to `OTEL_EXPORTER_OTLP_ENDPOINT`. If empty or `none`, Questlog exports no traces.',
  }),
  otlpEndpoint: setting.optional({
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    description: 'Address of the OpenTelemetry Collector. If empty, the address is `http://localhost:4318`.',
  }),
  otlpTracesEndpoint: setting.optional({
    env: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    description: 'Full address for traces, including the path. Replaces `OTEL_EXPORTER_OTLP_ENDPOINT`.',
  }),
  tracesSampler: setting.optional({
    env: 'OTEL_TRACES_SAMPLER',
    description:
      'Sampler of requests: `always_on`, `always_off`, `traceidratio`, or one of these names with the prefix `parentbased_`. If empty, the sampler is `parentbased_always_on`.',
  }),
  tracesSamplerArg: setting.optional({
    env: 'OTEL_TRACES_SAMPLER_ARG',
    description:
      'Share of the requests that `traceidratio` selects, from 0 to 1. If empty, `traceidratio` selects all requests.',
  }),
  otelDisabled: setting.optional({
    env: 'OTEL_SDK_DISABLED',
    description: '`true` disables traces.',
  }),
  trustTraceSampling: setting.choice(['on', 'off'], {
    env: 'QUESTLOG_TRUST_TRACE_SAMPLING',
    default: 'off',
    description: 'With `on`, a `parentbased_` sampler selects the requests whose `traceparent` is sampled.',
  }),
} as const;

export interface TracingOptions {
  /** Sampled share of the requests without a trusted `traceparent`, from 0 to 1. */
  readonly ratio: number;
  /** True if the sampling flag in a trusted `traceparent` decides whether a request is sampled. */
  readonly isParentBased: boolean;
  /** True if Questlog trusts the `traceparent` of a client for the sampling decision. */
  readonly trustsSampling: boolean;
}

/** Returns undefined if tracing is off. @throws StartRefused if a setting is invalid */
export function tracingOptions(values: SettingsOf<typeof tracingSettings>): TracingOptions | undefined {
  const { tracesExporter: exporter, tracesSampler, tracesSamplerArg, trustTraceSampling } = values;
  rejectIf(!['', 'none', 'otlp'].includes(exporter), 'OTEL_TRACES_EXPORTER: must be otlp or none');
  const share = tracesSamplerArg === '' ? 1 : Number(tracesSamplerArg);
  rejectIf(!(share >= 0 && share <= 1), 'OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1');
  const ratios = { always_on: 1, always_off: 0, traceidratio: share };
  const name = tracesSampler === '' ? 'parentbased_always_on' : tracesSampler;
  const isParentBased = name.startsWith(PARENT_BASED);
  const ratio = new Map(Object.entries(ratios)).get(isParentBased ? name.slice(PARENT_BASED.length) : name);
  const samplers = Object.keys(ratios).join(', ');
  if (ratio === undefined)
    throw new StartRefused(
      `OTEL_TRACES_SAMPLER: must be one of ${samplers}, with or without ${PARENT_BASED}`,
    );
  if (exporter !== 'otlp' || values.otelDisabled.toLowerCase() === 'true') return undefined;
  rejectIf(!isAddress(values.otlpEndpoint), `OTEL_EXPORTER_OTLP_ENDPOINT: ${NO_ADDRESS}`);
  rejectIf(!isAddress(values.otlpTracesEndpoint), `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: ${NO_ADDRESS}`);
  return { ratio, isParentBased, trustsSampling: trustTraceSampling === 'on' };
}

const NO_ADDRESS = 'must be an http:// or https:// address';

function isAddress(text: string): boolean {
  return text === '' || /^https?:$/.test(URL.parse(text)?.protocol ?? '');
}
