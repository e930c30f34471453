/** Sends statements to the ClickHouse server of a benchmark. */

/** Returns the response of a statement as text. @throws Error with ClickHouse's message */
export async function queryOn(clickhouseUrl: string, statement: string): Promise<string> {
  const { origin, username, password } = new URL(clickhouseUrl);
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
  const headers = { Authorization: `Basic ${basic.toString('base64')}` };
  const response = await fetch(origin, { method: 'POST', headers, body: statement });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}
