/** Checks `/healthz` for Docker. With `/readyz`, an orchestrator would restart the consumers during a Kafka outage. */
const { QUESTLOG_ADMIN_HOST: host = '127.0.0.1', QUESTLOG_ADMIN_PORT: port = '8081' } = process.env;
const address = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}/healthz`;

try {
  const answer = await fetch(url, { headers: { Connection: 'close' } });
  // Prints the response, because Docker shows the output of the health check in `docker inspect`.
  process.stdout.write(`${await answer.text()}\n`);
  process.exitCode = answer.ok ? 0 : 1;
} catch {
  process.stdout.write(`no response from ${url}\n`);
  process.exitCode = 1;
}
