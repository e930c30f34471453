/** Docker's health check: the exit status says whether the process is ready. It asks the admin listener. */
const { QUESTLOG_ADMIN_HOST: host = '127.0.0.1', QUESTLOG_ADMIN_PORT: port = '8081' } = process.env;
// Whoever listens on all addresses listens on the loopback too.
const address = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}/readyz`;

try {
  const answer = await fetch(url, { headers: { Connection: 'close' } });
  // `docker inspect` shows this text.
  process.stdout.write(`${await answer.text()}\n`);
  process.exitCode = answer.ok ? 0 : 1;
} catch {
  process.stdout.write(`nothing answers at ${url}\n`);
  process.exitCode = 1;
}
