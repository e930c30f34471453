/** Downloads and builds the clients for `dataClients.int.test.ts`, so that the test does not wait for the downloads. */
import { goClient, JDBC_VERSIONS, jdbcClient, pythonClients } from './clients.ts';

for (const version of JDBC_VERSIONS) await jdbcClient(version);
await goClient();
await pythonClients();
