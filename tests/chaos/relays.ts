import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';

import type { Order, RunOrder } from './relay-process.ts';
import type { Release } from './releases.ts';

const children = new Set<ChildProcess>();

// A stopped process would not notice that its parent is gone.
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

let count = 0;

/** A process that relays when it is told to. */
export class RelayProcess {
  readonly name: string;
  readonly release: Release;
  readonly #child: ChildProcess;
  readonly #ready: Promise<void>;
  readonly #gone: Promise<void>;
  #isAlive = true;

  /** @param log what it writes goes there: a file's descriptor. */
  constructor(file: string, release: Release, log: number | 'inherit' = 'inherit') {
    this.release = release;
    count += 1;
    this.name = `relay-${count}`;
    this.#child = spawn(process.execPath, [file], { stdio: ['ignore', log, log, 'ipc'] });
    this.#child.on('error', () => undefined);
    children.add(this.#child);
    this.#ready = this.#hears('ready');
    this.#gone = new Promise((resolve) => {
      this.#child.once('exit', () => {
        this.#isAlive = false;
        children.delete(this.#child);
        resolve();
      });
    });
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Resolves when the order is given, or the process is gone. */
  async run(order: Omit<RunOrder, 'relay' | 'release'>): Promise<void> {
    await Promise.race([this.#ready, this.#gone]);
    this.#send({ order: 'run', run: { ...order, relay: this.name, release: this.release } });
  }

  /** Ends the run. @returns false when the process had to be killed for it. */
  async rest(withinMs: number): Promise<boolean> {
    if (!this.#isAlive) return false;
    const rested = this.#ready.then(() => this.#hears('resting')).then(() => true);
    await Promise.race([this.#ready, this.#gone]);
    this.#send({ order: 'rest' });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), withinMs)));
    const isResting = await Promise.race([rested, late, this.#gone.then(() => false)]);
    clearTimeout(timer);
    if (!isResting) this.signal('SIGKILL');
    return isResting;
  }

  signal(signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT'): void {
    if (this.#isAlive) this.#child.kill(signal);
  }

  whenGone(then: () => void): void {
    void this.#gone.then(then);
  }

  async #hears(what: string): Promise<void> {
    await new Promise<void>((resolve) => {
      const hear = (message: unknown) => {
        if (message !== what) return;
        this.#child.off('message', hear);
        resolve();
      };
      this.#child.on('message', hear);
    });
  }

  #send(order: Order): void {
    if (this.#isAlive && this.#child.connected) this.#child.send(order, () => undefined);
  }
}

/** As many as a run begins with at most, and one to take the place of one that dies. */
const WARM = 5;

/** Relay processes of one build, some of them started in advance. */
export class RelayPool {
  readonly #file: string;
  readonly #release: Release;
  #idle: RelayProcess[] = [];

  /** @param file what they run. */
  constructor(file: string, release: Release) {
    this.#file = file;
    this.#release = release;
  }

  take(): RelayProcess {
    this.#idle = this.#idle.filter(({ isAlive }) => isAlive);
    return this.#idle.shift() ?? new RelayProcess(this.#file, this.#release);
  }

  giveBack(relay: RelayProcess): void {
    this.#idle.push(relay);
  }

  /** Starts as many as are missing. */
  warm(): void {
    this.#idle = this.#idle.filter(({ isAlive }) => isAlive);
    while (this.#idle.length < WARM) this.#idle.push(new RelayProcess(this.#file, this.#release));
  }

  close(): void {
    for (const relay of this.#idle.splice(0)) relay.signal('SIGKILL');
  }
}
