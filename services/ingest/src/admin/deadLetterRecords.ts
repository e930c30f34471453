/** The records of dead letters, as far as they were not erased. */
import { Invalid } from '@questlog/runtime/process/errors';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { type ErasedData, excludeErased, isErasedLink, isErasedReport } from '@questlog/schemas/erased';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import type { DeadLetter } from '@questlog/schemas/topics/deadLetter';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';

/** `unreadable`: whose it is, only its key says. */
export type DeadLetterRecord =
  | { readonly state: 'erased' | 'unreadable' }
  /** `isWhole`: nothing of it was erased. */
  | { readonly state: 'read'; readonly message: unknown; readonly isUnchanged: boolean };

export interface DeadLetterRecords {
  /** Whether it is a topic whose records are replayed. */
  isReplayable(topic: string): boolean;
  /** What is left of the letter's record: `erased` where that is nothing. */
  read(erased: ErasedData, deadLetter: DeadLetter): Promise<DeadLetterRecord>;
}

export async function openDeadLetterRecords(registry: SchemaRegistry): Promise<DeadLetterRecords> {
  const readers = new Map<string, (erased: ErasedData, value: Buffer | null) => Promise<DeadLetterRecord>>();
  const add = async <T>(
    contract: MessageContract<T>,
    excludeErasedFrom: (erased: ErasedData, message: T) => T | undefined,
  ): Promise<void> => {
    const codec = await createCodec(registry, contract);
    readers.set(contract.topic, async (erased, value) => {
      const message = await codec.decode(value);
      const remaining = excludeErasedFrom(erased, message);
      if (remaining === undefined) return { state: 'erased' };
      return { state: 'read', message: remaining, isUnchanged: remaining === message };
    });
  };
  await add(eventsAccepted, (erased, message) => {
    // Of others too: a replay brings theirs, and leaves out the erased ones.
    const remaining = excludeErased(erased, message);
    return remaining !== message && remaining.events.length === 0 ? undefined : remaining;
  });
  await add(sessionRegistered, (erased, message) =>
    erased.erasureOf({ ...message, receivedAt: message.registeredAt }) === undefined ? message : undefined,
  );
  await add(reportLinks, (erased, message) => (isErasedReport(erased, message) ? undefined : message));
  await add(linkedEvents, (erased, message) => (isErasedLink(erased, message) ? undefined : message));
  return {
    isReplayable: (topic) => readers.has(topic),
    read: async (erased, deadLetter) => {
      // A letter of a tenant that is erased as a whole is of it whatever it holds.
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
