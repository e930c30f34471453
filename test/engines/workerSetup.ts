/** Provides the engines to each file of the `kafka` project, or skips the file. */
import { engines } from '@questlog/runtime/log/kafka/testing/engines';
import { beforeEach } from 'vitest';

if (engines !== undefined) process.env['QUESTLOG_TEST_ENGINES'] = JSON.stringify(engines);
// Skips suites that also run on the embedded engines, because they would otherwise run twice.
else beforeEach(({ skip }) => skip('Kafka is not available'));
