/** A form that creates an entity or changes an opened entity. */
import type { VNode } from 'preact';
import { changesOf, type Field, FormDialog, type Values } from '../form.ts';
import { html } from '../html.ts';
import { request } from '../request.ts';

export interface FormProps {
  readonly onClose: () => void;
  readonly onChange: () => void;
}

export function EntityForm(
  props: FormProps & {
    path: string;
    /** Title of the form, for example `project` or `rate limits`. */
    name: string;
    opened: { readonly id: string } | undefined;
    fields: readonly Field[];
    bodyOf: (values: Values) => Values;
  },
): VNode {
  const { path, name, opened, fields, bodyOf, onClose, onChange } = props;
  const send = async (values: Values): Promise<void> => {
    const body = bodyOf(values);
    if (opened === undefined) await request('POST', path, body);
    else await request('PATCH', `${path}/${opened.id}`, changesOf(body, opened));
    onChange();
  };
  const [title, action] = opened ? [`Edit ${name}`, 'Save'] : [`New ${name}`, `Create ${name}`];
  return html`<${FormDialog} title=${title} action=${action} fields=${fields} send=${send} onClose=${onClose} />`;
}
