/** The page for SQL queries. It shows a list of the tables, and the result as a table, a chart, or a file. */
import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Answer } from '../answerChart.ts';
import { AnswerView } from '../ask/answerView.ts';
import { Questions, Tables } from '../ask/aside.ts';
import { Failure, html, type PageProps } from '../html.ts';
import { errorOf, request } from '../request.ts';

interface Result {
  readonly answer?: Answer;
  readonly error?: Error;
  readonly isBusy?: boolean;
  readonly tookMs?: number;
}

const DAY_MS = 86_400_000;
const EXAMPLE = `SELECT toStartOfHour(received_at) AS hour, count() AS events
FROM events
WHERE received_at > now() - INTERVAL 1 DAY
GROUP BY hour
ORDER BY hour`;
const DRAFT_KEY = 'questlog-sql';
const PROJECT_PARAMETERS = ['project', 'tenant'];

export function SqlPage({ argument, project, projects }: PageProps): VNode {
  const [text, setText] = useState(argument || localStorage.getItem(DRAFT_KEY) || EXAMPLE);
  const [state, setState] = useState<Result>({});
  const editor = useRef<HTMLTextAreaElement>(null);
  const lastRun = useRef(0);
  const { names, values, set } = useParameters(
    text,
    project ?? (projects.length > 1 ? undefined : projects[0]),
  );
  const question = (format: string) => questionOf(text, format, names, values);
  const { answer, error, isBusy = false, tookMs = 0 } = state;
  const run = async (): Promise<void> => {
    const runNumber = ++lastRun.current;
    const settle = (next: Result) => runNumber === lastRun.current && setState(next);
    localStorage.setItem(DRAFT_KEY, text);
    setState((last) => ({ ...last, isBusy: true }));
    const beganMs = performance.now();
    try {
      const response = await request('POST', '/admin/sql', question('JSONCompactStrings'));
      settle({ answer: await response.json(), tookMs: performance.now() - beganMs });
    } catch (thrown) {
      settle({ error: errorOf(thrown) });
    }
  };
  const save = async (): Promise<void> => {
    try {
      const response = await request('POST', '/admin/sql', question('CSVWithNames'));
      const link = document.createElement('a');
      link.href = URL.createObjectURL(await response.blob());
      link.download = 'questlog.csv';
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (thrown) {
      setState((last) => ({ ...last, error: errorOf(thrown) }));
    }
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void run();
  };
  const write = (next: string) => {
    localStorage.setItem(DRAFT_KEY, next);
    setText(next);
  };
  const insert = (name: string) => {
    const { selectionStart = text.length, selectionEnd = text.length } = editor.current ?? {};
    write(text.slice(0, selectionStart) + name + text.slice(selectionEnd));
    editor.current?.focus();
  };
  const result = useMemo(
    () => answer && html`<${AnswerView} answer=${answer} tookMs=${tookMs} />`,
    [answer, tookMs],
  );
  return html`<section class="ask">
    <div>
      <label for="sql">SQL query (Ctrl+Enter runs it)</label>
      <textarea id="sql" ref=${editor} rows="9" spellcheck="false" value=${text} onKeyDown=${onKey}
        onInput=${(event: Event) => write((event.target as HTMLTextAreaElement).value)}></textarea>
      ${names.length > 0 && html`<${Parameters} names=${names} values=${values} onInput=${set} />`}
      <p class="actions">
        <button onClick=${run}>${isBusy ? 'Running…' : 'Run'}</button>
        <button class="plain" onClick=${save}>Save as CSV</button>
      </p>
      <${Failure} error=${error} />
      ${result}
    </div>
    <aside>
      <${Questions} onChoose=${write} />
      <${Tables} onInsert=${insert} />
    </aside>
  </section>`;
}

function Parameters(props: {
  names: readonly string[];
  values: Readonly<Record<string, string>>;
  onInput: (name: string, value: string) => void;
}): VNode {
  const { names, values, onInput } = props;
  const inputOf = (name: string) => html`<input value=${values[name] ?? ''}
    placeholder=${PROJECT_PARAMETERS.includes(name) ? 'select a project' : ''}
    onInput=${(event: Event) => onInput(name, (event.target as HTMLInputElement).value)} />`;
  return html`<fieldset class="filters"><legend>Parameters</legend>
    ${names.map((name) => html`<label>${name}${inputOf(name)}</label>`)}
  </fieldset>`;
}

function useParameters(text: string, project: PageProps['project']) {
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({});
  useEffect(() => setGiven(({ project: _project, tenant: _tenant, ...rest }) => rest), [project?.id]);
  const set = (name: string, value: string) => setGiven((last) => ({ ...last, [name]: value }));
  return { names: parametersOf(text), values: { ...usualValues(project), ...given }, set };
}

function questionOf(
  text: string,
  format: string,
  names: readonly string[],
  values: Readonly<Record<string, string>>,
) {
  if (names.some((name) => PROJECT_PARAMETERS.includes(name) && !values[name])) {
    throw new Error('Select a project at the top of the page, or type its id.');
  }
  const parameters = Object.fromEntries(names.map((name) => [name, values[name] ?? '']));
  return { query: `${text.replace(/[;\s]+$/, '')}\nFORMAT ${format}`, parameters };
}

function parametersOf(text: string): string[] {
  return [...new Set([...text.matchAll(/\{\s*(\w+)\s*:[^{}]+\}/g)].map(([, name = '']) => name))];
}

function usualValues(project: PageProps['project']): Record<string, string> {
  const day = (fromToday: number) => new Date(Date.now() + fromToday * DAY_MS).toISOString().slice(0, 10);
  const ids = project === undefined ? {} : { project: project.id, tenant: project.tenantId };
  return { ...ids, from: day(-30), to: day(1) };
}
