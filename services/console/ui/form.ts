/** Forms in dialogs. An error message appears next to its field and contains the label of the field. */
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type LabelledField, problemInWords } from './format.ts';
import { Failure, html } from './html.ts';
import { errorOf, Rejected } from './request.ts';

export interface Field extends LabelledField {
  readonly hint?: string;
  readonly type?: 'text' | 'number' | 'datetime-local';
  readonly value?: string | number | null;
  readonly options?: readonly Option[];
  /** Checkboxes of the field. The user can select any number of checkboxes. A field with checkboxes ignores `value`. */
  readonly checks?: readonly (Option & { readonly isChecked: boolean })[];
}

interface Option {
  readonly value: string;
  readonly label: string;
}

/** A modal dialog. When the dialog closes, the focus returns to the element that opened the dialog. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children?: ComponentChildren;
}): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return html`<dialog ref=${dialog} onClose=${onClose} aria-label=${title}><h2>${title}</h2>${children}</dialog>`;
}

/** A dialog with a form. The dialog closes after `send` succeeds, and stays open if `send` throws. */
export function FormDialog({
  title,
  action,
  fields = [],
  isDangerous = false,
  send,
  onClose,
  children,
}: {
  title: string;
  action: string;
  fields?: readonly Field[];
  isDangerous?: boolean;
  send: (form: FormData) => Promise<unknown>;
  onClose: () => void;
  children?: ComponentChildren;
}): VNode {
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const problems = error instanceof Rejected ? error.fields : new Map<string, string>();
  const problemOf = ({ name }: Field) => {
    const detail = problems.get(name);
    return detail && problemInWords(detail, fields);
  };
  // The browser restores the focus only if the dialog is closed before it is removed.
  const close = () => form.current?.closest('dialog')?.close();
  const onSubmit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await send(new FormData(event.target as HTMLFormElement));
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
      ${fields.map((field) => html`<${FieldInput} key=${field.name} field=${field} problem=${problemOf(field)} />`)}
      <${Failure} error=${formError} />
      <p class="actions">
        <button class=${isDangerous ? 'danger' : ''} disabled=${isBusy}>${action}</button>
        <button type="button" class="plain" autofocus=${isDangerous} onClick=${close}>Cancel</button>
      </p>
    </form>
  <//>`;
}

function FieldInput({ field, problem }: { field: Field; problem: string | undefined }): VNode {
  const { name, label, hint, type = 'text', value, options, checks } = field;
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
  const common = { id, name, 'aria-describedby': described, 'aria-invalid': problem ? 'true' : undefined };
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${
      options === undefined
        ? html`<input ...${common} type=${type} step="any" autocomplete="off" defaultValue=${value ?? ''} />`
        : html`<select ...${common}>${options.map((option) => html`<option value=${option.value} selected=${option.value === value}>${option.label}</option>`)}</select>`
    }
    ${notes}
  </div>`;
}

/** Returns only the changed fields, because an unchanged field could overwrite the change of another operator. */
export function changesOf<Body extends object>(body: Body, opened: Partial<Body>): Partial<Body> {
  const isChanged = (name: string, value: unknown) =>
    JSON.stringify(value) !== JSON.stringify(opened[name as keyof Body]);
  return Object.fromEntries(
    Object.entries(body).filter(([name, value]) => isChanged(name, value)),
  ) as Partial<Body>;
}

export function numberOf(form: FormData, name: string): number | null {
  const text = String(form.get(name) ?? '').trim();
  return text === '' ? null : Number(text);
}
