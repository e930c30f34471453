/** Downloads and builds the tools of the chart's tests, so that the tests do not wait for the tools. */
import { provideCheckers, provideHelm } from './tools.ts';

provideHelm();
await provideCheckers();
