// What carries the messages: HTTP from `ensue studio`, or a notebook's channel.

import type { Method, Methods, Problem, Progress } from "../protocol";

export interface CallOptions {
  signal?: AbortSignal;
  progress?: (progress: Progress) => void;
}

export interface Transport {
  call<M extends Method>(
    method: M,
    params: Methods[M]["takes"],
    options?: CallOptions,
  ): Promise<Methods[M]["gives"]>;
  /** Says what to do when the session is gone. */
  readonly revive: string;
}

/** An error that the session told, or that the way to it met. */
export class CallError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
  }
}

export const LOST = "SessionLost";
export const CANCELLED = "Cancelled";
/** Why a call is aborted that nobody waits for any more, and that nobody cancelled. */
export const DROPPED = "dropped";
export const REFUSED = "Refused";

export function failure(name: string, message: string, remedy = ""): CallError {
  return new CallError({ class: name, message, remedy, place: null });
}

export function problemOf(error: unknown): Problem {
  if (error instanceof CallError) return error.problem;
  const message = error instanceof Error ? error.message : String(error);
  return { class: "Internal", message, remedy: "", place: null };
}

const page = Math.random().toString(36).slice(2, 8);
let calls = 0;

/** A name for a call that no other call of any page has. */
export function nextId(): string {
  calls += 1;
  return `${page}-${calls}`;
}

interface Answer {
  id?: string;
  progress?: Progress;
  result?: unknown;
  error?: Problem;
}

/** Reads one message of a call; true when it was the last. */
export function settle(
  answer: Answer,
  options: CallOptions | undefined,
  resolve: (result: never) => void,
  reject: (error: CallError) => void,
): boolean {
  if (answer.progress) {
    options?.progress?.(answer.progress);
    return false;
  }
  if (answer.error) reject(new CallError({ ...answer.error, place: answer.error.place ?? null }));
  else resolve(answer.result as never);
  return true;
}
