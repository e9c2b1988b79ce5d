// Calls that run: one per slot (a new one ends the one before), with progress, to be cancelled.

import { computed, signal } from "@preact/signals";
import type { Method, Methods, Problem, Progress } from "../protocol";
import {
  CANCELLED,
  DROPPED,
  LOST,
  problemOf,
  REFUSED,
  type Transport,
} from "../transport/transport";

export interface Task {
  slot: string;
  method: Method;
  progress: Progress | null;
  since: number;
  abort: AbortController;
  ended: () => void;
}

const PATIENCE = 2500; // ms that a call nobody waits for may go on
const QUICK = new Set<Method>([
  "hello",
  "open",
  "read",
  "complete",
  "copy",
  "keys",
  "row",
  "match",
]);

export type Outcome<T> = { result: T } | { problem: Problem } | null;

export class Tasks {
  readonly running = signal<readonly Task[]>([]);
  readonly lost = signal<Problem | null>(null);
  readonly busy = computed(() => this.running.value.length > 0);

  constructor(private readonly transport: Transport) {}

  /** Asks, and ends what the slot asked before; null where a later call took the slot. */
  async ask<M extends Method>(
    slot: string,
    method: M,
    params: Methods[M]["takes"],
  ): Promise<Outcome<Methods[M]["gives"]>> {
    this.drop(slot);
    const abort = new AbortController();
    const task: Task = {
      slot,
      method,
      progress: null,
      since: performance.now(),
      abort,
      ended: () => undefined,
    };
    this.running.value = [...this.running.value, task];
    const progress = (told: Progress): void => {
      task.progress = told;
      this.running.value = [...this.running.value];
    };
    try {
      const result = await this.transport.call(method, params, { signal: abort.signal, progress });
      this.lost.value = null;
      return this.holds(abort) ? { result } : null;
    } catch (error) {
      const problem = problemOf(error);
      if (!this.holds(abort)) return null;
      if (problem.class === LOST || problem.class === REFUSED) this.lost.value = problem;
      return { problem };
    } finally {
      task.ended();
      this.running.value = this.running.value.filter((one) => one.abort !== abort);
    }
  }

  /** Ends a slot's call; nobody waits for its answer any more. */
  drop(slot: string): void {
    const task = this.running.value.find((one) => one.slot === slot);
    if (!task) return;
    this.running.value = this.running.value.filter((one) => one !== task);
    // A short call may end by itself: to break it off costs the session more than its answer.
    if (QUICK.has(task.method)) return;
    const timer = setTimeout(() => task.abort.abort(DROPPED), PATIENCE);
    task.ended = () => clearTimeout(timer);
  }

  /** Ends all calls; each answers that it was cancelled. */
  cancel(): void {
    for (const task of this.running.value) task.abort.abort();
  }

  private holds(abort: AbortController): boolean {
    return this.running.value.some((one) => one.abort === abort);
  }
}

export function wasCancelled(problem: Problem | null): boolean {
  return problem?.class === CANCELLED;
}
