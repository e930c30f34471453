/** Runs before each file of the `kafka` project: gives the engines to the files, or skips them. */
import { engines } from '@questlog/runtime/log/kafka/testing/engines';
import { beforeEach } from 'vitest';

if (engines !== undefined) process.env['QUESTLOG_TEST_ENGINES'] = JSON.stringify(engines);
// A suite that runs on the embedded engines as well would otherwise do so a second time, under the name of Kafka.
else beforeEach(({ skip }) => skip('there is no Kafka to run it on'));
