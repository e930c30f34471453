/** The folder of an export, and the facts about its files. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';

/** Facts about a file of an export. `state` is the state of the chunk when the file was written. */
export interface FileFacts {
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly state: string;
}

export interface ExportFolder {
  readonly path: string;
  isEmpty(): Promise<boolean>;
  read(name: string): Promise<string | undefined>;
  write(name: string, text: string): Promise<void>;
  remove(name: string): Promise<void>;
  /** Ends an export. Removes the file `name`, and the facts about the files of the unfinished export. */
  finish(name: string): Promise<void>;
  /** Returns the facts of a file of the unfinished export. Undefined if the file is missing or differs from the facts. */
  find(name: string): Promise<FileFacts | undefined>;
  /** Lets other exports use the folder. */
  close(): Promise<void>;
  /** Writes a file, which appears under its name only when it is complete. */
  store(name: string, content: MeasuredContent, chunk: Pick<FileFacts, 'rows' | 'state'>): Promise<FileFacts>;
}

/** Content of a file as a stream, which computes the size and the SHA-256 of the content. */
export class MeasuredContent {
  readonly stream: Readable;
  readonly signal: AbortSignal;
  readonly #hash = createHash('sha256');
  #bytes = 0;

  constructor(content: AsyncIterable<Uint8Array>, signal: AbortSignal) {
    this.stream = Readable.from(this.#measure(content));
    this.signal = signal;
  }

  /** Returns the size and the SHA-256. Call this method once, after the end of the stream. */
  measured(): Pick<FileFacts, 'bytes' | 'sha256'> {
    return { bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }

  async *#measure(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of content) {
      this.#hash.update(piece);
      this.#bytes += piece.length;
      yield piece;
    }
  }
}
