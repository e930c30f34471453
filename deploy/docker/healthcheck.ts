/** Docker's question, as an exit status: is this process ready? Its operators' listener answers for all services. */
const { QUESTLOG_ADMIN_PORT: port = '8081' } = process.env;

try {
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { headers: { Connection: 'close' } });
  // `docker inspect` shows what was printed, and so what is wrong.
  process.stdout.write(`${await answer.text()}\n`);
  process.exitCode = answer.ok ? 0 : 1;
} catch {
  process.stdout.write(`nothing answers on port ${port}\n`);
  process.exitCode = 1;
}
