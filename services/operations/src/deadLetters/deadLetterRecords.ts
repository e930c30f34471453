/** Decodes the records in dead letters, and leaves out erased data. */
import { Invalid } from '@questlog/runtime/process/errors';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import type { DeadLetter } from '@questlog/schemas/topics/deadLetter';
import { type EventsRecord, eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import type { Visibility } from '@questlog/schemas/visibility';

export type DeadLetterRecord =
  | { readonly state: 'hidden' | 'unreadable' }
  | { readonly state: 'read'; readonly message: unknown; readonly isUnchanged: boolean };

export interface DeadLetterRecords {
  isReplayable(topic: string): boolean;
  /** Returns the record without erased data. The state is `hidden` if all data of the record is erased. */
  read(visibility: Visibility, deadLetter: DeadLetter): Promise<DeadLetterRecord>;
}

export async function openDeadLetterRecords(registry: SchemaRegistry): Promise<DeadLetterRecords> {
  const readers = new Map<
    string,
    (visibility: Visibility, value: Buffer | null) => Promise<DeadLetterRecord>
  >();
  const add = async <T>(
    contract: MessageContract<T>,
    visibleIn: (visibility: Visibility, message: T) => T | undefined,
    shown: (message: T) => unknown = (message) => message,
  ): Promise<void> => {
    const codec = await createCodec(registry, contract);
    readers.set(contract.topic, async (visibility, value) => {
      const message = await codec.decode(value);
      const remaining = visibleIn(visibility, message);
      if (remaining === undefined) return { state: 'hidden' };
      return { state: 'read', message: shown(remaining), isUnchanged: remaining === message };
    });
  };
  // A record can contain events of several sessions. The state is `hidden` only if all events of the record are erased.
  const visibleEvents = (visibility: Visibility, record: EventsRecord): EventsRecord | undefined => {
    const remaining = visibility.visibleEvents(record);
    return remaining !== record && remaining.count === 0 ? undefined : remaining;
  };
  await add(eventsInBytes, visibleEvents, (record) => record.message());
  await add(sessionRegistered, (of, message) => (of.isVisibleSession(message) ? message : undefined));
  await add(reportLinks, (of, message) => (of.isVisibleEntity(message) ? message : undefined));
  await add(linkedEvents, (of, message) => (of.isVisibleLink(message) ? message : undefined));
  return {
    isReplayable: (topic) => readers.has(topic),
    read: async (visibility, deadLetter) => {
      const { key, deadAt } = deadLetter;
      if (key !== null && !visibility.isVisibleTenant(key, deadAt)) return { state: 'hidden' };
      try {
        return (
          (await readers.get(deadLetter.sourceTopic)?.(visibility, deadLetter.value)) ?? {
            state: 'unreadable',
          }
        );
      } catch (error) {
        if (!(error instanceof Invalid)) throw error;
        return { state: 'unreadable' };
      }
    },
  };
}
