// Calls over HTTP: one POST per call, the answer a message per line.

import type { Method, Methods } from "../protocol";
import {
  CANCELLED,
  CallError,
  type CallOptions,
  DROPPED,
  failure,
  LOST,
  nextId,
  REFUSED,
  settle,
  type Transport,
} from "./transport";

const RESTART = "Start it again with `ensue studio` and open the link that it prints.";

export class HttpTransport implements Transport {
  readonly revive = RESTART;

  constructor(private readonly token: string) {}

  call<M extends Method>(
    method: M,
    params: Methods[M]["takes"],
    options?: CallOptions,
  ): Promise<Methods[M]["gives"]> {
    const id = nextId();
    const { signal } = options ?? {};
    // A closed connection ends a call as well, and gives it more time to end by itself.
    signal?.addEventListener("abort", () => {
      if (signal.reason !== DROPPED) void this.cancel(id);
    });
    return this.ask({ id, method, params }, options);
  }

  private async ask(message: object, options?: CallOptions): Promise<never> {
    let response: Response;
    try {
      response = await this.post("/api/call", message, options?.signal);
      if (!response.ok || !response.body) throw await refusal(response);
      return await lines(response.body, options);
    } catch (error) {
      if (options?.signal?.aborted) throw failure(CANCELLED, "The call was cancelled.");
      if (error instanceof CallError) throw error;
      throw failure(
        LOST,
        "The server does not answer. What you typed is kept in this browser.",
        RESTART,
      );
    }
  }

  private async cancel(id: string): Promise<void> {
    // A server that is gone has nothing left to cancel.
    await this.post("/api/cancel", { id }).catch(() => undefined);
  }

  private post(path: string, message: object, signal?: AbortSignal): Promise<Response> {
    return fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${this.token}` },
      body: JSON.stringify(message),
      ...(signal ? { signal } : {}),
    });
  }
}

async function refusal(response: Response): Promise<CallError> {
  const body = await response.json().catch(() => null);
  const told = body?.error;
  if (response.status === 401) {
    return failure(
      REFUSED,
      told?.message ?? "The token of this page was refused.",
      told?.remedy || "Open the link that `ensue studio` printed: it holds the token.",
    );
  }
  if (told) return new CallError({ remedy: "", place: null, ...told });
  return failure("Internal", `The server answered ${response.status} ${response.statusText}.`);
}

async function lines(body: ReadableStream<Uint8Array>, options?: CallOptions): Promise<never> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let held = "";
  let answer: { result: never } | { error: CallError } | undefined;
  while (answer === undefined) {
    const { done, value } = await reader.read();
    held += done ? decoder.decode() : decoder.decode(value, { stream: true });
    const parts = held.split("\n");
    held = done ? "" : (parts.pop() ?? "");
    for (const line of parts) {
      if (!line.trim()) continue;
      settle(
        JSON.parse(line),
        options,
        (result) => {
          answer = { result };
        },
        (error) => {
          answer = { error };
        },
      );
    }
    if (done) break;
  }
  if (answer === undefined) {
    throw failure(LOST, "The answer broke off: the server has stopped.", RESTART);
  }
  if ("error" in answer) throw answer.error;
  return answer.result;
}
