/** The questions of `docs/data-guide.md` with their SQL, as a reader finds them there. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const GUIDE_PAGE = fileURLToPath(new URL('../../docs/data-guide.md', import.meta.url));

export interface Question {
  readonly number: number;
  readonly title: string;
  readonly sql: string;
}

/** Each is a heading `## 1. Who …?` with one fenced block of SQL below it. */
export function questionsOfGuide(): Question[] {
  const parts = readFileSync(GUIDE_PAGE, 'utf8').split(/^## /m);
  return parts.flatMap((part) => {
    const heading = /^(?<number>\d+)\. (?<title>.+)$/m.exec(part)?.groups;
    if (heading === undefined || !/^\d/.test(part)) return [];
    const [sql, ...others] = [...part.matchAll(/^```sql\n(?<text>[\s\S]*?)^```/gm)];
    if (sql === undefined || others.length > 0)
      throw new Error(`"${heading['title']}" needs one block of SQL`);
    return [
      {
        number: Number(heading['number']),
        title: heading['title'] ?? '',
        sql: sql.groups?.['text'] ?? '',
      },
    ];
  });
}
