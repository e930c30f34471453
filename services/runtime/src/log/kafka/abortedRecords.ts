/**
 * Leaves out what aborted transactions wrote (KIP-98): brokers send it all the same, with a list of those transactions.
 * kafkajs's own filter takes the list to be sorted and steps into one transaction a record, so that with several at
 * once it lets records through.
 */

export interface AbortedTransaction {
  readonly producerId: string;
  /** Of its first record in this partition; it ends with the producer's next abort marker. */
  readonly firstOffset: string;
}

interface Message {
  readonly offset: string;
  readonly key: Buffer | null;
  readonly isControlRecord: boolean;
  readonly batchContext: { readonly producerId: string; readonly inTransaction: boolean };
}

/** `messages` in offset order, whole record batches; markers stay. */
export function dropAborted<T extends Message>(
  messages: readonly T[],
  transactions: readonly AbortedTransaction[],
): readonly T[] {
  if (transactions.length === 0) return messages;
  const ahead = transactions
    .map(({ producerId, firstOffset }) => ({ producerId, firstOffset: Number(firstOffset) }))
    .sort((a, b) => b.firstOffset - a.firstOffset);
  const aborting = new Set<string>();
  return messages.filter((message) => {
    const offset = Number(message.offset);
    for (let next = ahead.at(-1); next !== undefined && next.firstOffset <= offset; next = ahead.at(-1)) {
      aborting.add(next.producerId);
      ahead.pop();
    }
    const { producerId, inTransaction } = message.batchContext;
    if (isAbortMarker(message)) aborting.delete(producerId);
    return message.isControlRecord || !inTransaction || !aborting.has(producerId);
  });
}

/** A marker's key is its version and its type, each two bytes; type 0 aborts, type 1 commits. */
function isAbortMarker({ key, isControlRecord }: Message): boolean {
  return isControlRecord && key !== null && key.length >= 4 && key.readInt16BE(2) === 0;
}
