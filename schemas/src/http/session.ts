/** Bodies of requests and responses about sessions, including the build and the player of a session. */
import Type, { type Static } from 'typebox';
import { EXAMPLE_SESSION, NextCursor, Nullable, Timestamp, Uuid } from './fields.ts';

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
    description: `The build of the game. Its id is a hash of these fields and the project. Each text has at most ${MAX_TEXT_CHARS} characters; \`channel\` is one of ${CHANNELS.join(', ')}.`,
  },
);

const PlayerInput = Type.Object({
  externalId: optionalText('Id of the player in the game’s own account system.', 'player-4711'),
  deviceId: optionalText('Device as the game names it.', 'Pixel 9'),
});

const BUILD = { version: '1.4.2', platform: 'Web', gitCommit: '5d0c1f7e9a2b', channel: 'dev' };
const METADATA = { currentScene: 'Arena', engineVersion: '4.6-stable (official)', gameName: 'Arena' };

export const SessionInput = Type.Object(
  {
    id: Type.Optional(
      Type.String({
        ...Uuid,
        description:
          'Id that the client creates, different for each session. Omitted: the server creates one.',
      }),
    ),
    startedAt: Type.Optional(Timestamp),
    build: Type.Optional(BuildInput),
    buildId: Type.Optional(
      Type.String({
        ...Uuid,
        description: 'Id of the build. With `build`, it must be the id of that build.',
      }),
    ),
    player: Type.Optional(PlayerInput),
    metadata: Type.Optional(
      Type.Object(
        {},
        { description: `Any object of at most ${MAX_METADATA_BYTES} bytes. Its bytes are kept unchanged.` },
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
  id: Type.String({ ...Uuid, description: 'The same as `sessionId`.' }),
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

export const ListedSession = Type.Object(LISTED, { examples: [LISTED_EXAMPLE] });
export type ListedSession = Static<typeof ListedSession>;

export const MAX_GAPS = 1_000;

/**
 * Range of sequence numbers. The schema is an array of two numbers. It is not a tuple, because TypeBox writes a tuple in a
 * form that OpenAPI 3.1 does not allow.
 */
const pair = Type.Array(Type.Integer(), { minItems: 2, maxItems: 2 });
const sequenceOutput = Type.Object({
  received: Type.Integer({ description: 'Count of distinct numbers that were received.' }),
  highest: Type.Integer(),
  missing: Type.Array(pair, {
    maxItems: MAX_GAPS,
    description: 'First and last number of each gap below `highest`. A late event closes its gap.',
  }),
  missingTruncated: Type.Optional(
    Type.Boolean({ description: `True: the list contains only the lowest ${MAX_GAPS} gaps.` }),
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

export const SessionSequence = Type.Union([sequenceOutput, Type.Null()], {
  description:
    'Completeness of the session’s events by the client’s `sequence` numbers. Null if no event has a `sequence`, or if all events have expired.',
});

export const SessionOutput = Type.Object(
  {
    ...LISTED,
    sequence: SessionSequence,
    metadata: Type.Object({}, { description: 'Metadata as sent; `{}` if none was sent.' }),
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
  Type.String({ description: 'Null if the build was registered without this field, or only by its id.' }),
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
    firstSeenAt: Type.String({ description: 'Registration time of the first session.' }),
    lastSeenAt: Type.String({ description: 'Registration time of the latest session.' }),
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
