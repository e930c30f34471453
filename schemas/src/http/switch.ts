/** The switches of a project, as operators set and see them: `GET` and `PUT /admin/projects/{id}/switches`. */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp, Uuid } from './fields.ts';

/** Of one project: each event of it is held against them. */
export const MAX_SWITCHES = 32;

/** An operator's misspelt field would turn off more than was meant. */
const only = { additionalProperties: false };
const all = 'null or left out: all.';
const share = { exclusiveMinimum: 0, maximum: 1 };

const fields = {
  eventType: Type.Optional(
    Nullable(Type.String({ maxLength: 1000, description: `Of this type, to the letter; ${all}` })),
  ),
  buildId: Type.Optional(Nullable({ ...Uuid, description: `Of this build; ${all}` })),
  playerShare: Type.Optional(
    Nullable(
      Type.Number({ ...share, description: `Of this share of the players, always the same ones; ${all}` }),
    ),
  ),
  action: Type.Enum(['reject', 'sample']),
  sampleRate: Type.Optional(
    Nullable(Type.Number({ ...share, description: 'The share of the sessions that `sample` keeps, whole.' })),
  ),
  until: Type.Optional(
    Nullable({ ...Timestamp, description: 'When it ends by itself; null or left out: never.' }),
  ),
  reason: Type.String({ minLength: 1, maxLength: 500, description: 'Told to whoever is refused.' }),
};

export const SwitchInput = Type.Object(fields, only);

export const SwitchesInput = Type.Array(SwitchInput, {
  maxItems: MAX_SWITCHES,
  description: 'All of them: the first that an event meets decides. An empty list lifts them.',
  examples: [
    [{ eventType: 'physics_debug', action: 'sample', sampleRate: 0.05, reason: 'floods since 1.4.2' }],
  ],
});

export const SwitchOutput = Type.Required(SwitchInput);

export type SwitchInput = Static<typeof SwitchInput>;
export type SwitchesInput = Static<typeof SwitchesInput>;
export type SwitchOutput = Static<typeof SwitchOutput>;
