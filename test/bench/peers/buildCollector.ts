/** Builds the OpenTelemetry Collector for the benchmark and for the tests of traces, which takes some minutes. */
import { messageOf } from '@questlog/runtime/process/errors';
import { provideCollector } from './collector.ts';

const ending = new AsyncDisposableStack();
const built = await provideCollector(ending).catch(
  (error) => `the Collector was not built: ${messageOf(error)}`,
);
await ending.disposeAsync();
console.log(built);
