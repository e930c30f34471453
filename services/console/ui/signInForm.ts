/** The sign-in form. The operator types the admin token or opens an address that ends with `#token=…`. */
import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { decodeAddress, Failure, html } from './html.ts';
import { errorOf, Rejected, request } from './request.ts';

export function addressHasToken(): boolean {
  return /^#token=./.test(location.hash);
}

/** Returns the token after `#` in the address, and removes it from the address and the browser history. */
function takeTokenFromAddress(): string {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1] ?? '';
  if (token !== '') history.replaceState(null, '', '#/overview');
  return decodeAddress(token);
}

export function SignInForm({ onDone }: { onDone: () => void }): VNode {
  const [error, setError] = useState<Error>();
  const send = async (token: string): Promise<void> => {
    try {
      await request('POST', '/login', { token });
      onDone();
    } catch (thrown) {
      const error = errorOf(thrown);
      const { message } = error;
      setError(
        error instanceof Rejected
          ? new Error(`${message.charAt(0).toUpperCase()}${message.slice(1)}.`)
          : error,
      );
    }
  };
  useEffect(() => {
    const take = () => {
      const token = takeTokenFromAddress();
      if (token !== '') void send(token);
    };
    take();
    window.addEventListener('hashchange', take);
    return () => window.removeEventListener('hashchange', take);
  }, []);
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault();
    void send(String(new FormData(event.target as HTMLFormElement).get('token')));
  };
  return html`<main class="sign-in">
    <h1><img src="/ui/icon.svg" alt="" width="32" height="32" />Questlog</h1>
    <form onSubmit=${onSubmit}>
      <label for="token">Admin token</label>
      <input id="token" name="token" type="password" autocomplete="current-password" required autofocus />
      <button>Sign in</button>
      <${Failure} error=${error} />
    </form>
    <p>The admin token is the value of <code>QUESTLOG_ADMIN_TOKEN</code>, or of <code>adminToken</code> in the file <code>dev-credentials.json</code>
      ${' '}in the data folder (<code>.data</code>). <code>npx questlog console</code> prints an address that contains the token.</p>
  </main>`;
}
