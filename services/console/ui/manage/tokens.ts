/** Forms that create, rotate, and revoke access tokens. */
import type { ProjectOutput, TokenCreated, TokenOutput } from '@questlog/schemas/http/admin';
import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { Dialog, type Field, FormDialog, type Values } from '../form.ts';
import { html } from '../html.ts';
import { post, request } from '../request.ts';
import type { FormProps } from './entityForm.ts';

const SCOPES = [
  { value: 'events:write', label: 'events:write: send events and sessions', isChecked: true },
  { value: 'reports:write', label: 'reports:write: file bug reports and send files', isChecked: true },
  { value: 'read', label: 'read: read events, reports, files and links', isChecked: false },
];

const ofToken = ({ token }: TokenCreated): NewSecret => ({
  ...{ title: 'New token', text: token },
  advice: 'The token is shown only once. Copy it now and store it with the secrets of the game.',
});

export function TokenForm(
  props: FormProps & { projects: readonly ProjectOutput[]; onMade: (secret: NewSecret) => void },
): VNode {
  const { projects, onMade, onClose, onChange } = props;
  const fields: Field[] = [
    { name: 'projectId', label: 'Project', options: projects },
    { name: 'scopes', label: 'Scopes', checks: SCOPES },
    {
      ...{ name: 'expiresAt', label: 'Expires', type: 'datetime-local' },
      hint: 'Your local time. Leave empty for no expiry.',
    },
  ];
  const send = async (values: Values): Promise<void> => {
    onMade(ofToken(await post<TokenCreated>('/admin/tokens', values)));
    onChange();
  };
  return html`<${FormDialog} title="New token" action="Create token" fields=${fields} send=${send} onClose=${onClose} />`;
}

/** A new token, or a new password with the line that a client needs to connect. */
export interface NewSecret {
  readonly title: string;
  readonly text: string;
  readonly advice: string;
}

/** Shows a new secret only one time, because Questlog stores only the SHA-256 hash of a secret. */
export function Secret({ title, text, advice, onClose }: NewSecret & { onClose: () => void }): VNode {
  const [message, setMessage] = useState('');
  const tokenElement = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setMessage('Copied.');
    } catch {
      if (tokenElement.current) getSelection()?.selectAllChildren(tokenElement.current);
      setMessage('The browser does not allow this page to copy. The text is selected: press Ctrl+C.');
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p>${advice}</p>
    <pre ref=${tokenElement} tabindex="0">${text}</pre>
    <form method="dialog" class="actions">
      <button type="button" autofocus onClick=${copy}>Copy</button>
      <button class="plain">Close</button>
      <span role="status">${message}</span>
    </form>
  <//>`;
}

export function RevokeForm(props: FormProps & { token: TokenOutput; name?: string }): VNode {
  const { token, name = '', onClose, onChange } = props;
  const send = async (): Promise<void> => {
    await request('DELETE', `/admin/tokens/${token.id}`);
    onChange();
  };
  return html`<${FormDialog} title="Revoke this token?" action="Revoke" isDangerous send=${send} onClose=${onClose}>
    <p>Within 2 seconds, Questlog rejects requests with the token <code>${token.id}</code> of ${name}. This cannot be undone. You
      can create a new token at any time.</p>
  <//>`;
}

const DAY_HOURS = 24;

export function RotateForm(
  props: FormProps & { token: TokenOutput; onMade: (secret: NewSecret) => void },
): VNode {
  const { token, onMade, onClose, onChange } = props;
  const fields: Field[] = [
    {
      ...{ name: 'overlapSeconds', label: 'Overlap in hours', type: 'number', scale: 3600 },
      ...{ value: DAY_HOURS, isRequired: true },
      hint: 'The old token stays valid for this time, at most 720 hours. With 0, it ends immediately.',
    },
    {
      ...{ name: 'expiresAt', label: 'Expires', type: 'datetime-local' },
      hint: 'Your local time. Leave empty for the lifetime of the old token.',
    },
  ];
  const send = async ({ expiresAt, ...values }: Values): Promise<void> => {
    const body = { ...values, ...(expiresAt !== null && { expiresAt }) };
    onMade(ofToken(await post<TokenCreated>(`/admin/tokens/${token.id}/rotate`, body)));
    onChange();
  };
  return html`<${FormDialog} title="Rotate token" action="Rotate token" fields=${fields} send=${send} onClose=${onClose}>
    <p>The new token has the same project, scopes, and builds as the token <code>${token.id}</code>.</p>
  <//>`;
}
