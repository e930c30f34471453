/** Downloads and builds the tools of the chart's tests, so that the tests do not wait for the tools. */
import { provideCheckers, provideHelm, provideHelmDocs } from './tools.ts';

provideHelm();
provideHelmDocs();
await provideCheckers();
