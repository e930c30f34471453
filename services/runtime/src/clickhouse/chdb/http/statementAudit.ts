/** Reports the statements of studios' accounts, so that an operator can see which account read which data. */
import { maskQuoted } from '../engine/sqlText.ts';
import { fromEngine } from './httpErrors.ts';
import type { RequestHead } from './requestParsing.ts';

/** Content of the response header `X-ClickHouse-Summary`. A missing count means 0. */
export type Summary = Readonly<Partial<Record<SummaryField, number>>>;
type SummaryField = `${'read' | 'written' | 'result'}_${'rows' | 'bytes'}` | 'elapsed_ns';

/** One statement of a studio's account. */
export interface StudioStatement {
  readonly reader: string;
  readonly tenantId: string;
  readonly queryId: string;
  /** Statement without literals, or empty if ClickHouse cannot parse the statement. */
  readonly statement: string;
  /** Error code of ClickHouse. 0 if the statement has succeeded. */
  readonly code: number;
  /** Number of rows and bytes of the result. Undefined if the statement has failed. */
  readonly rows?: number | undefined;
  readonly bytes?: number | undefined;
  /** Time in milliseconds from the request to the result, including the wait for other statements. */
  readonly ms: number;
}

/**
 * Runs a statement. If the account belongs to a studio, reports the statement and removes the summary from the result. The
 * summary counts rows that ClickHouse read before ClickHouse applied a row policy, so a response must not contain the summary.
 * @param work runs the statement, and calls `note` with the text of the statement, which ClickHouse has formatted unless the
 * statement is `KILL QUERY`
 */
export async function audited<Result extends { summary: Summary }>(
  { head, onStudioStatement }: { head: RequestHead; onStudioStatement: (statement: StudioStatement) => void },
  work: (note: (normalized: string) => void) => Promise<Result>,
): Promise<Result> {
  const { studio, queryId } = head;
  if (studio === undefined) return await work(() => {});
  const beganMs = performance.now();
  let statement = '';
  const report = (code: number, { result_rows: rows, result_bytes: bytes }: Summary = {}): void => {
    const ms = Math.round(performance.now() - beganMs);
    const { username: reader, tenantId } = studio;
    onStudioStatement({ reader, tenantId, queryId, statement, code, ms, rows, bytes });
  };
  try {
    const result = await work((normalized) => {
      statement = shortened(withoutLiterals(normalized));
    });
    report(0, result.summary);
    return { ...result, summary: {} };
  } catch (error) {
    const { code } = fromEngine(error);
    if (code !== QUOTA_EXCEEDED) report(code);
    throw error;
  }
}

/** Replaces the literals of a formatted statement by `?`, because literals can contain data of players. */
function withoutLiterals(normalized: string): string {
  return maskQuoted(normalized).replaceAll(/'_*'|`_*`|(?<![\w$])\d[\w.]*/g, (token, index: number) => {
    const original = normalized.slice(index, index + token.length);
    return QUOTED_NAME.test(original) ? original : '?';
  });
}

/**
 * Quoted name that the report contains. Other quoted names are replaced, because they can be texts that the author has put in
 * double quotes by mistake.
 */
const QUOTED_NAME = /^`\w+`$/;

/** Omits the middle of a long statement, because the end of a statement usually names the tables. */
function shortened(statement: string): string {
  if (statement.length <= MAX_CHARACTERS) return statement;
  return `${statement.slice(0, MAX_CHARACTERS / 2)} … ${statement.slice(-MAX_CHARACTERS / 2)}`;
}

const MAX_CHARACTERS = 4_096;
/**
 * Error code of a statement that the quota rejects. These statements are not reported, because an account can send any number of
 * them, and the reports would fill the log.
 */
const QUOTA_EXCEEDED = 201;
