/** Forms. An error message appears next to its field and contains the label of the field. */
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type LabelledField, problemInWords } from './format.ts';
import { Failure, html } from './html.ts';
import { errorOf, Rejected } from './request.ts';

export interface Field extends LabelledField {
  readonly hint?: string;
  readonly type?: 'text' | 'number' | 'date' | 'datetime-local' | 'search';
  readonly value?: string | number | null | undefined;
  readonly options?: readonly (string | { readonly id: string; readonly name: string })[];
  /** Checkboxes of the field. The user can select any number of checkboxes. A field with checkboxes ignores `value`. */
  readonly checks?: readonly {
    readonly value: string;
    readonly label: string;
    readonly isChecked: boolean;
  }[];
  readonly placeholder?: string;
  readonly isWide?: boolean;
  readonly isRequired?: boolean;
}

/** Values of a form, by field name. They have the types that the API expects. An empty number, time, or option is null. */
export type Values = Readonly<Record<string, unknown>>;

/** A modal dialog. When the dialog closes, the focus returns to the element that opened the dialog. */
export function Dialog(props: { title: string; onClose: () => void; children?: ComponentChildren }): VNode {
  const { title, onClose, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return html`<dialog ref=${dialog} onClose=${onClose} aria-label=${title}><h2>${title}</h2>${children}</dialog>`;
}

/** A dialog with a button that closes the dialog. */
export function ShowDialog(props: {
  title: string;
  onClose: () => void;
  children?: ComponentChildren;
}): VNode {
  const { children, ...dialog } = props;
  return html`<${Dialog} ...${dialog}>
    ${children}
    <form method="dialog" class="actions"><button class="plain" autofocus>Close</button></form>
  <//>`;
}

/** A dialog with a form. The dialog closes after `send` succeeds, and stays open if `send` throws. */
export function FormDialog(props: {
  title: string;
  action: string;
  fields?: readonly Field[];
  isDangerous?: boolean;
  send: (values: Values) => Promise<unknown>;
  onClose: () => void;
  children?: ComponentChildren;
}): VNode {
  const { title, action, fields = [], isDangerous = false, send, onClose, children } = props;
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const problems = error instanceof Rejected ? error.fields : new Map<string, string>();
  // Closes the dialog before its removal, because otherwise the browser does not restore the focus.
  const close = () => form.current?.closest('dialog')?.close();
  const onSubmit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      const data = new FormData(event.target as HTMLFormElement);
      await send(Object.fromEntries(fields.map((field) => [field.name, valueOfField(data, field)])));
      close();
    } catch (thrown) {
      setError(errorOf(thrown));
      setBusy(false);
    }
  };
  useEffect(() => form.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus(), [error]);
  const isOfField = (problem: string) =>
    fields.some(({ name }) => name === problem || name.startsWith(`${problem}/`));
  const areAllOfFields = problems.size > 0 && [...problems.keys()].every(isOfField);
  const formError = error && !areAllOfFields ? new Error(problemInWords(error.message, fields)) : undefined;
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form class="fields" ref=${form} onSubmit=${onSubmit}>
      ${children}
      ${fields.map((field) => html`<${FieldInput} key=${field.name} field=${field} problem=${problemInWords(problems.get(field.name) ?? '', fields)} />`)}
      <${Failure} error=${formError} />
      <p class="actions">
        <button class=${isDangerous ? 'danger' : ''} disabled=${isBusy}>${action}</button>
        <button type="button" class="plain" autofocus=${isDangerous} onClick=${close}>Cancel</button>
      </p>
    </form>
  <//>`;
}

function valueOfField(form: FormData, { name, type, scale, options, checks }: Field): unknown {
  if (checks !== undefined) return form.getAll(name);
  const text = String(form.get(name)).trim();
  const isText = options === undefined && (type === undefined || type === 'text');
  if (isText || (options !== undefined && text !== '')) return text;
  if (text === '') return null;
  if (type === 'date') return text;
  if (type === 'datetime-local') return new Date(text).toISOString();
  return scale === undefined ? Number(text) : Math.round(Number(text) * scale);
}

function FieldInput({ field, problem }: { field: Field; problem: string }): VNode {
  const { name, label, hint, checks } = field;
  const id = `field-${name.replace('/', '-')}`;
  const notes = html`${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}
    ${problem && html`<strong class="problem" id=${`${id}-problem`} role="alert">${problem}</strong>`}`;
  const described = [hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(' ') || undefined;
  if (checks !== undefined) {
    return html`<fieldset aria-describedby=${described}><legend>${label}</legend>
      ${checks.map((check) => html`<label><input type="checkbox" name=${name} value=${check.value} defaultChecked=${check.isChecked} />${check.label}</label>`)}
      ${notes}
    </fieldset>`;
  }
  const attributes = { id, 'aria-describedby': described, 'aria-invalid': problem ? 'true' : undefined };
  return html`<div class="field"><label for=${id}>${label}</label>${control(field, attributes)}${notes}</div>`;
}

function control(field: Field, attributes: object): VNode {
  const { name, type = 'text', value, options, placeholder, isRequired } = field;
  if (options === undefined)
    return html`<input ...${attributes} name=${name} type=${type} step="any" autocomplete="off" placeholder=${placeholder} required=${isRequired} defaultValue=${value ?? ''} />`;
  const entities = options.map((option) =>
    typeof option === 'string' ? { id: option, name: option } : option,
  );
  return html`<select ...${attributes} name=${name}>${entities.map(({ id, name: text }) => html`<option value=${id} selected=${id === (value ?? '')}>${text}</option>`)}</select>`;
}

/**
 * The filters above a list. Without `action`, calls `onFilter` after each input. With `action`, calls `onFilter` when the
 * operator submits the form. With `submitsOnChange`, also calls `onFilter` when the operator leaves a changed field.
 */
export function Filters(props: {
  fields: readonly Field[];
  action?: string;
  submitsOnChange?: boolean;
  onFilter: (texts: Readonly<Record<string, string>>) => void;
  children?: ComponentChildren;
}): VNode {
  const { fields, action, submitsOnChange = false, onFilter, children } = props;
  const apply = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    onFilter(Object.fromEntries([...form].map(([name, text]) => [name, String(text).trim()])));
  };
  return html`<form class="filters" onSubmit=${apply} onInput=${action ? undefined : apply} onChange=${submitsOnChange ? apply : undefined}>
    ${fields.map((field) => html`<label class=${field.isWide ? 'wide' : ''}>${field.label}${control(field, {})}</label>`)}
    ${action && html`<button>${action}</button>`}
    ${children}
  </form>`;
}

/** Returns only the changed fields, because an unchanged field could overwrite the change of another operator. */
export function changesOf(body: Values, opened: object): Values {
  const isChanged = (name: string, value: unknown) =>
    JSON.stringify(value) !== JSON.stringify(Reflect.get(opened, name));
  return Object.fromEntries(Object.entries(body).filter(([name, value]) => isChanged(name, value)));
}
