/** Entry point of the console. It contains the sign-in, the navigation, and the selection of a project. */
import type { ProjectOutput } from '@questlog/schemas/http/admin';
import { render, type VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { DocsLink, decodeAddress, Failure, html } from './html.ts';
import { PAGES, type Page } from './pages.ts';
import { request, SIGNED_OUT } from './request.ts';
import { useGet } from './resource.ts';
import { addressHasToken, SignInForm } from './signInForm.ts';

const PROJECT_KEY = 'questlog-project';
const SIGNED_IN_KEY = 'questlog-signed-in';
const PROJECTS_EVERY_MS = 10_000;

function routeOf(hash: string): { path: string; argument: string } {
  const [, path = '', argument = ''] = /^#\/([a-z]+)(?:\/(.*))?$/.exec(hash) ?? [];
  return { path, argument: decodeAddress(argument) };
}

function useRoute(onToken: () => void): { path: string; argument: string } {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const onChange = () => (addressHasToken() ? onToken() : setHash(location.hash));
    window.addEventListener('hashchange', onChange);
    return () => window.removeEventListener('hashchange', onChange);
  }, []);
  return routeOf(hash);
}

/** Reads the sign-in state without a request, because browsers log a 401 response as an error. */
function App(): VNode {
  const [isIn, setIn] = useState(() => localStorage.getItem(SIGNED_IN_KEY) !== null && !addressHasToken());
  const set = (isNow: boolean) => {
    if (isNow) localStorage.setItem(SIGNED_IN_KEY, 'yes');
    else localStorage.removeItem(SIGNED_IN_KEY);
    setIn(isNow);
  };
  useEffect(() => {
    const onSignedOut = () => set(false);
    window.addEventListener(SIGNED_OUT, onSignedOut);
    return () => window.removeEventListener(SIGNED_OUT, onSignedOut);
  }, []);
  return isIn
    ? html`<${Console} onSignOut=${() => set(false)} />`
    : html`<${SignInForm} onDone=${() => set(true)} />`;
}

function Console({ onSignOut }: { onSignOut: () => void }): VNode {
  const route = useRoute(onSignOut);
  const [failure, setFailure] = useState<Error>();
  const [projectId, setProjectId] = useState(() => localStorage.getItem(PROJECT_KEY) ?? '');
  const { value, error, refresh } = useGet<ProjectOutput[]>('/admin/projects', PROJECTS_EVERY_MS);
  useEffect(() => setFailure(undefined), [value]);
  const choose = (id: string) => {
    localStorage.setItem(PROJECT_KEY, id);
    setProjectId(id);
  };
  const projects = value ?? [];
  const project = projects.find(({ id }) => id === projectId);
  const page = PAGES.find(({ path }) => path === route.path) ?? PAGES[0];
  if (page === undefined) throw new Error('there is no page');
  document.title = `${page.title} · Questlog`;
  return html`<div class="shell">
    <header>
      <a class="brand" href="#/overview"><img src="/ui/icon.svg" alt="" width="22" height="22" />Questlog</a>
      <label class="project">Project
        <select value=${project?.id ?? ''} onChange=${(event: Event) => choose((event.target as HTMLSelectElement).value)}>
          <option value="">all</option>
          ${projects.map(({ id, name }) => html`<option value=${id} selected=${id === project?.id}>${name}</option>`)}
        </select>
      </label>
      <button class="plain" onClick=${() => request('POST', '/logout').then(onSignOut, setFailure)}>Sign out</button>
    </header>
    <nav aria-label="Pages">
      ${PAGES.filter(({ under }) => under === undefined).map(
        ({ path, title }) => html`<a href=${`#/${path}`} aria-current=${currentOf(path, page)}>${title}</a>`,
      )}
    </nav>
    <main>
      ${page.under === undefined && html`<div class="page-head"><h1>${page.title}</h1>${page.docs && html`<${DocsLink} path=${page.docs}>Documentation<//>`}</div>`}
      <${Failure} error=${error ?? failure} />
      ${value && html`<${page.view} key=${`${page.path}/${route.argument}`} project=${project} projects=${projects} argument=${route.argument} onProjects=${refresh} />`}
    </main>
  </div>`;
}

const root = document.getElementById('console');
if (root === null) throw new Error('the page has no element for the console');
render(html`<${App} />`, root);

function currentOf(path: string, page: Page): 'page' | 'true' | undefined {
  if (path === page.path) return 'page';
  return path === page.under ? 'true' : undefined;
}
