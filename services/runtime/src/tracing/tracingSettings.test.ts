import Type from 'typebox';
import { expect, test } from 'vitest';
import { loadConfig } from '../process/config.ts';
import { tracingOptions, tracingSettings } from './tracingSettings.ts';

const OTLP = { OTEL_TRACES_EXPORTER: 'otlp' };

test.each([
  {},
  { OTEL_TRACES_EXPORTER: 'none' },
  { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' },
  { ...OTLP, OTEL_SDK_DISABLED: 'True' },
])('tracing is off with %j', (env) => {
  expect(optionsOf(env)).toBeUndefined();
});

test.each([
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector:4318' },
    { ratio: 1, isParentBased: true, trustsSampling: false },
  ],
  [
    { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.01' },
    { ratio: 0.01, isParentBased: false, trustsSampling: false },
  ],
  [
    { OTEL_TRACES_SAMPLER: 'parentbased_always_off', QUESTLOG_TRUST_TRACE_SAMPLING: 'on' },
    { ratio: 0, isParentBased: true, trustsSampling: true },
  ],
])('with the variables %j, the options are %j', (env, options) => {
  expect(optionsOf({ ...OTLP, ...env })).toEqual(options);
});

test.each([
  { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' },
  { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://[bad' },
  { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'localhost:4318/v1/traces' },
])('refuses the start with %j, because the spans would be lost', (env) => {
  expect(() => optionsOf({ ...OTLP, ...env })).toThrow(`${Object.keys(env)[0]}: must be`);
});

test.each([
  { OTEL_TRACES_EXPORTER: 'zipkin' },
  { OTEL_TRACES_SAMPLER: 'parentbased_sometimes' },
  { OTEL_TRACES_SAMPLER_ARG: '1 %' },
  { OTEL_TRACES_SAMPLER_ARG: '2' },
])('refuses the start with %j, because another sampler or exporter would apply', (env) => {
  expect(() => optionsOf({ ...OTLP, ...env })).toThrow(Object.keys(env)[0]);
});

function optionsOf(env: Record<string, string>) {
  return tracingOptions(loadConfig(Type.Object(tracingSettings), env, 'QUESTLOG_'));
}
