/** Forms that create, rotate, and drop the accounts of ClickHouse that read the rows of one tenant or project. */
import type { ProjectOutput, ReaderCreated, ReaderOutput, TenantOutput } from '@questlog/schemas/http/admin';
import type { VNode } from 'preact';
import { type Field, FormDialog, type Values } from '../form.ts';
import { html } from '../html.ts';
import { post, request } from '../request.ts';
import type { FormProps } from './entityForm.ts';
import type { NewSecret } from './tokens.ts';

interface ReaderFormProps extends FormProps {
  readonly onMade: (secret: NewSecret) => void;
}

const ofReader = ({ url, database, username, password }: ReaderCreated): NewSecret => ({
  title: 'Reader',
  text: `${url.replace('://', `://${username}:${password}@`)}/?database=${database}`,
  advice: 'The password is shown only once, in this address of ClickHouse. Copy the address now.',
});

export function ReaderForm(
  props: ReaderFormProps & {
    tenants: readonly TenantOutput[];
    projects: readonly ProjectOutput[];
  },
): VNode {
  const { tenants, projects, onMade, onClose, onChange } = props;
  const scopes = tenants.flatMap(({ id, name }) => [
    { id: `${id} `, name: `${name}, all projects` },
    ...projects
      .filter(({ tenantId }) => tenantId === id)
      .map((project) => ({ id: `${id} ${project.id}`, name: `${name}, ${project.name}` })),
  ]);
  const fields: Field[] = [
    { name: 'scope', label: 'Rows', options: scopes },
    { name: 'name', label: 'Name', hint: 'Name of the person or the tool' },
    {
      ...{ name: 'expiresAt', label: 'Expires', type: 'datetime-local' },
      hint: 'Your local time. Leave empty for no expiry.',
    },
  ];
  const send = async ({ scope, name, expiresAt }: Values): Promise<void> => {
    const [tenantId, projectId] = String(scope).split(' ');
    const body = { tenantId, projectId: projectId || null, name: name ?? '', expiresAt };
    onMade(ofReader(await post<ReaderCreated>('/admin/readers', body)));
    onChange();
  };
  return html`<${FormDialog} title="New reader" action="Create reader" fields=${fields} send=${send} onClose=${onClose} />`;
}

export function RotateReaderForm({
  reader,
  onMade,
  ...form
}: ReaderFormProps & { reader: ReaderOutput }): VNode {
  const send = async (): Promise<void> => {
    onMade(ofReader(await post<ReaderCreated>(`/admin/readers/${reader.id}/rotate`)));
    form.onChange();
  };
  return html`<${FormDialog} title="Replace the password?" action="Replace" send=${send} onClose=${form.onClose}>
    <p>The old password of <code>${reader.username}</code> is invalid at once.</p>
  <//>`;
}

export function DropReaderForm({ reader, ...form }: FormProps & { reader: ReaderOutput }): VNode {
  const send = async (): Promise<void> => {
    await request('DELETE', `/admin/readers/${reader.id}`);
    form.onChange();
  };
  return html`<${FormDialog} title="Drop this reader?" action="Drop" isDangerous send=${send} onClose=${form.onClose}>
    <p>ClickHouse then rejects the account <code>${reader.username}</code>. This cannot be undone.</p>
  <//>`;
}
