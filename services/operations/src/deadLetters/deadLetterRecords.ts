/** Decodes the records inside dead letters and leaves out the data that an erasure covers. */
import { Invalid } from '@questlog/runtime/process/errors';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { type ErasedData, excludeErased, isErasedLink, isErasedReport } from '@questlog/schemas/erased';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import type { DeadLetter } from '@questlog/schemas/topics/deadLetter';
import { type EventsRecord, eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';

export type DeadLetterRecord =
  | { readonly state: 'erased' | 'unreadable' }
  | { readonly state: 'read'; readonly message: unknown; readonly isUnchanged: boolean };

export interface DeadLetterRecords {
  isReplayable(topic: string): boolean;
  /** Returns the record without erased data. The state is `erased` if all data of the record was erased. */
  read(erased: ErasedData, deadLetter: DeadLetter): Promise<DeadLetterRecord>;
}

export async function openDeadLetterRecords(registry: SchemaRegistry): Promise<DeadLetterRecords> {
  const readers = new Map<string, (erased: ErasedData, value: Buffer | null) => Promise<DeadLetterRecord>>();
  const add = async <T>(
    contract: MessageContract<T>,
    excludeErasedFrom: (erased: ErasedData, message: T) => T | undefined,
    shown: (message: T) => unknown = (message) => message,
  ): Promise<void> => {
    const codec = await createCodec(registry, contract);
    readers.set(contract.topic, async (erased, value) => {
      const message = await codec.decode(value);
      const remaining = excludeErasedFrom(erased, message);
      if (remaining === undefined) return { state: 'erased' };
      return { state: 'read', message: shown(remaining), isUnchanged: remaining === message };
    });
  };
  // A record can contain events of several sessions. A dead letter has the state `erased` only if all events of its record
  // are erased.
  const excludeErasedFrom = (erased: ErasedData, record: EventsRecord): EventsRecord | undefined => {
    const remaining = excludeErased(erased, record);
    return remaining !== record && remaining.count === 0 ? undefined : remaining;
  };
  await add(eventsInBytes, excludeErasedFrom, (record) => record.message());
  await add(sessionRegistered, (erased, message) =>
    erased.erasureOf({ ...message, receivedAt: message.registeredAt }) === undefined ? message : undefined,
  );
  await add(reportLinks, (erased, message) => (isErasedReport(erased, message) ? undefined : message));
  await add(linkedEvents, (erased, message) => (isErasedLink(erased, message) ? undefined : message));
  return {
    isReplayable: (topic) => readers.has(topic),
    read: async (erased, deadLetter) => {
      if (isOfErasedTenant(erased, deadLetter)) return { state: 'erased' };
      try {
        return (
          (await readers.get(deadLetter.sourceTopic)?.(erased, deadLetter.value)) ?? { state: 'unreadable' }
        );
      } catch (error) {
        if (!(error instanceof Invalid)) throw error;
        return { state: 'unreadable' };
      }
    },
  };
}

function isOfErasedTenant(erased: ErasedData, { key, deadAt }: DeadLetter): boolean {
  const all = { projectId: '', sessionId: null, receivedAt: deadAt };
  return key !== null && erased.erasureOf({ tenantId: key, ...all }) !== undefined;
}
