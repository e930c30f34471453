/** Sessions: registered once by a game, named by its events; the builds and players that they tell of. */
import Type, { type Static } from 'typebox';
import { EXAMPLE_SESSION, NextCursor, Nullable, Timestamp, Uuid } from './fields.ts';

/** Of each text of a build or a player. */
const MAX_TEXT_CHARS = 255;
export const MAX_METADATA_BYTES = 64 * 1024;

const CHANNELS = ['dev', 'qa', 'alpha', 'beta', 'staging', 'prod'] as const;

const optionalText = (description: string, example: string) =>
  Type.Optional(Type.String({ maxLength: MAX_TEXT_CHARS, description, examples: [example] }));
const neededText = (example: string) =>
  Type.String({ minLength: 1, maxLength: MAX_TEXT_CHARS, examples: [example] });

const BuildInput = Type.Object(
  {
    version: neededText('1.4.2'),
    platform: neededText('Web'),
    gitCommit: optionalText('The commit that was built.', '5d0c1f7e9a2b'),
    channel: Type.Optional(Type.Enum([...CHANNELS])),
  },
  {
    description: `What the game runs as; its id is made from all of it and the project. Up to ${MAX_TEXT_CHARS} characters each; \`channel\` is one of ${CHANNELS.join(', ')}.`,
  },
);

const PlayerInput = Type.Object({
  externalId: optionalText('The player’s id in the game’s own accounts.', 'player-4711'),
  deviceId: optionalText('What the game says of the device.', 'Pixel 9'),
});

const BUILD = { version: '1.4.2', platform: 'Web', gitCommit: '5d0c1f7e9a2b', channel: 'dev' };
const METADATA = { currentScene: 'Arena', engineVersion: '4.6-stable (official)', gameName: 'Arena' };

export const SessionInput = Type.Object(
  {
    id: Type.Optional(
      Type.String({
        ...Uuid,
        description: 'Made by the client, another one for each session. Omitted: made here.',
      }),
    ),
    startedAt: Type.Optional(Timestamp),
    build: Type.Optional(BuildInput),
    buildId: Type.Optional(
      Type.String({
        ...Uuid,
        description: 'Where no `build` is given; beside one it must be that build’s id.',
      }),
    ),
    player: Type.Optional(PlayerInput),
    metadata: Type.Optional(
      Type.Object(
        {},
        { description: `Any object of at most ${MAX_METADATA_BYTES} bytes, which stay as they are.` },
      ),
    ),
  },
  {
    examples: [
      {
        id: EXAMPLE_SESSION,
        build: BUILD,
        player: { externalId: 'player-4711' },
        metadata: METADATA,
      },
    ],
  },
);
export type SessionInput = Static<typeof SessionInput>;

const CREATED_EXAMPLE = {
  sessionId: EXAMPLE_SESSION,
  id: EXAMPLE_SESSION,
  buildId: '74cfa6a7-bf22-8fde-ad8c-b9a9e8750976',
  startedAt: '2026-11-21T18:30:00.000Z',
};
const LISTED_EXAMPLE = {
  ...CREATED_EXAMPLE,
  build: BUILD,
  player: { externalId: 'player-4711', deviceId: null },
};

const CREATED = {
  sessionId: Uuid,
  id: Type.String({ ...Uuid, description: 'The same.' }),
  buildId: Nullable(Uuid),
  startedAt: Timestamp,
};
export const SessionCreated = Type.Object(CREATED, { examples: [CREATED_EXAMPLE] });
export type SessionCreated = Static<typeof SessionCreated>;

const LISTED = {
  ...CREATED,
  build: Nullable(
    Type.Object({
      version: Type.String(),
      platform: Type.String(),
      gitCommit: Nullable(Type.String()),
      channel: Nullable(Type.String()),
    }),
  ),
  player: Nullable(Type.Object({ externalId: Nullable(Type.String()), deviceId: Nullable(Type.String()) })),
};

/** Without its metadata, which may have 64 KiB. */
export const ListedSession = Type.Object(LISTED, { examples: [LISTED_EXAMPLE] });
export type ListedSession = Static<typeof ListedSession>;

/** Of one answer. */
export const MAX_GAPS = 1_000;

/** Not a tuple: TypeBox writes those as JSON Schema had them before OpenAPI 3.1. */
const pair = Type.Array(Type.Integer(), { minItems: 2, maxItems: 2 });
const sequenceOutput = Type.Object({
  received: Type.Integer({ description: 'How many numbers have come; a repeated one counts once.' }),
  highest: Type.Integer(),
  missing: Type.Array(pair, {
    maxItems: MAX_GAPS,
    description: 'The first and the last number of each gap below `highest`. A late event fills its gap.',
  }),
  missingTruncated: Type.Optional(
    Type.Boolean({ description: `True: there are more gaps than these ${MAX_GAPS}, which are the lowest.` }),
  ),
  expired: Type.Optional(
    Type.Array(pair, {
      maxItems: 1,
      description:
        'Numbers below the lowest stored number, if the session began before the time up to which the project’s events have expired. `missing` does not contain these numbers.',
    }),
  ),
});
export type SequenceOutput = Static<typeof sequenceOutput>;

/** Of a session, and of a report with a session. */
export const SessionSequence = Type.Union([sequenceOutput, Type.Null()], {
  description:
    'Completeness of the session’s events by the numbers that the client gave them; null if no event has a `sequence`, or if all events have expired.',
});

export const SessionOutput = Type.Object(
  {
    ...LISTED,
    sequence: SessionSequence,
    metadata: Type.Object({}, { description: 'As it was sent; `{}` where none was.' }),
  },
  {
    examples: [
      {
        ...LISTED_EXAMPLE,
        sequence: {
          received: 6,
          highest: 10,
          missing: [
            [4, 6],
            [9, 9],
          ],
        },
        metadata: METADATA,
      },
    ],
  },
);

export const SessionPage = Type.Object(
  { sessions: Type.Array(ListedSession), next: NextCursor },
  { examples: [{ sessions: [LISTED_EXAMPLE], next: null }] },
);
export type SessionPage = Static<typeof SessionPage>;

const optionalOfBuild = Nullable(
  Type.String({ description: 'Null where it was not sent, or no session told more than the id.' }),
);
const BUILD_EXAMPLE = {
  id: CREATED_EXAMPLE.buildId,
  ...BUILD,
  firstSeenAt: CREATED_EXAMPLE.startedAt,
  lastSeenAt: '2026-11-22T09:12:00.000Z',
  sessions: 12,
};

export const BuildOutput = Type.Object(
  {
    id: Uuid,
    version: optionalOfBuild,
    platform: optionalOfBuild,
    gitCommit: optionalOfBuild,
    channel: optionalOfBuild,
    firstSeenAt: Type.String({ description: 'When its first session was registered.' }),
    lastSeenAt: Type.String({ description: 'When its latest session was registered.' }),
    sessions: Type.Integer({ minimum: 1 }),
  },
  { examples: [BUILD_EXAMPLE] },
);
export type BuildOutput = Static<typeof BuildOutput>;

export const BuildPage = Type.Object(
  { builds: Type.Array(BuildOutput), next: NextCursor },
  { examples: [{ builds: [BUILD_EXAMPLE], next: null }] },
);
export type BuildPage = Static<typeof BuildPage>;
