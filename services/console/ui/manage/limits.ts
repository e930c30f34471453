/** Forms for the rate limits and the suspension of a tenant or project, and for the retention of a project. */
import type { ProjectOutput, TenantOutput } from '@questlog/schemas/http/admin';
import type { VNode } from 'preact';
import type { Field, Values } from '../form.ts';
import { count } from '../format.ts';
import { html } from '../html.ts';
import { EntityForm, type FormProps } from './entityForm.ts';

type Limits = Pick<TenantOutput, 'limits' | 'suspended'>;

const RATES = [
  ['eventsPerSecond', 'Events per second', 'events/s'],
  ['requestsPerSecond', 'Requests per second', 'requests/s'],
  ['bytesPerSecond', 'Bytes per second', 'bytes/s'],
] as const;
const KINDS = [
  ['events', 'Events'],
  ['sessions', 'Sessions'],
  ['reports', 'Bug reports'],
  ['links', 'Links'],
  ['uploads', 'Files'],
] as const;

export function limitsText({ limits }: Limits): string {
  const texts = RATES.flatMap(([name, , unit]) => {
    const rate = limits?.[name];
    return rate == null ? [] : [`${count(rate)} ${unit}`];
  });
  return texts.join(', ') || 'no limits';
}

export function retentionText({ retentionDays }: Pick<ProjectOutput, 'retentionDays'>): string {
  const texts = KINDS.flatMap(([name, label]) => {
    const days = retentionDays?.[name];
    return days == null ? [] : [`${label.toLowerCase()} ${count(days)} days`];
  });
  return texts.length === 0 ? 'keeps all data' : `keeps ${texts.join(', ')}`;
}

export function LimitsForm(
  props: FormProps & { path: string; of: Limits & { readonly id: string; readonly name: string } },
): VNode {
  const { path, of, ...form } = props;
  const { limits, suspended } = of;
  const fields: Field[] = [
    ...RATES.map(([name, label]): Field => {
      return { name: `limits/${name}`, label, type: 'number', value: limits?.[name] };
    }),
    {
      ...{ name: 'limits/burstSeconds', label: 'Burst in seconds', type: 'number' },
      value: limits?.burstSeconds,
      hint: 'After a pause of this time, the burst is this many times the rate. An empty rate is unlimited.',
    },
    {
      ...{ name: 'suspended', label: 'Suspension' },
      checks: [
        { value: 'suspended', label: 'Suspended: tokens can read but not write', isChecked: suspended },
      ],
    },
  ];
  const bodyOf = (values: Values) => {
    const { limits: changed } = nested(values);
    const hasRate = RATES.some(([name]) => changed?.[name] != null);
    return { limits: hasRate ? changed : null, suspended: Object(values['suspended']).length > 0 };
  };
  return html`<${EntityForm} ...${form} path=${path} name=${`limits of ${of.name}`} opened=${of} fields=${fields} bodyOf=${bodyOf} />`;
}

export function RetentionForm({ project, ...form }: FormProps & { project: ProjectOutput }): VNode {
  const fields = KINDS.map(([name, label], i): Field => {
    const hint = i === 0 && {
      hint: 'Days after receipt until Questlog removes the data. Leave a field empty to keep the data forever.',
    };
    const value = project.retentionDays?.[name];
    return { name: `retentionDays/${name}`, label: `${label}, days`, type: 'number', value, ...hint };
  });
  const bodyOf = (values: Values) => {
    const { retentionDays } = nested(values);
    const isLimited = KINDS.some(([name]) => retentionDays?.[name] != null);
    return { retentionDays: isLimited ? retentionDays : null };
  };
  return html`<${EntityForm} ...${form} path="/admin/projects" name=${`retention of ${project.name}`} opened=${project} fields=${fields} bodyOf=${bodyOf} />`;
}

/** Converts values with the names `<object>/<field>` to objects. */
function nested(values: Values): Record<string, Record<string, unknown>> {
  const objects: Record<string, Record<string, unknown>> = {};
  for (const [path, value] of Object.entries(values)) {
    const [name = '', field] = path.split('/');
    if (field !== undefined) objects[name] = { ...objects[name], [field]: value };
  }
  return objects;
}
