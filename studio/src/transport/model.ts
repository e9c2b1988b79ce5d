// Calls over a notebook's channel: custom messages of anywidget.

import type { Method, Methods } from "../protocol";
import { CANCELLED, type CallOptions, failure, nextId, settle, type Transport } from "./transport";

/** The part of anywidget's model that is used here. */
export interface Model {
  send(message: unknown): void;
  on(event: "msg:custom", listener: (message: never) => void): void;
  off(event: "msg:custom", listener: (message: never) => void): void;
}

export class ModelTransport implements Transport {
  readonly revive = "Run the cell again.";
  private readonly waiting = new Map<string, (message: never) => boolean>();
  private readonly listener = (message: { id?: string }): void => {
    const read = this.waiting.get(message?.id ?? "");
    if (read?.(message as never)) this.waiting.delete(message.id ?? "");
  };

  constructor(private readonly model: Model) {
    model.on("msg:custom", this.listener);
  }

  call<M extends Method>(
    method: M,
    params: Methods[M]["takes"],
    options?: CallOptions,
  ): Promise<Methods[M]["gives"]> {
    const id = nextId();
    return new Promise((resolve, reject) => {
      this.waiting.set(id, (message) => settle(message, options, resolve, reject));
      options?.signal?.addEventListener("abort", () => {
        this.waiting.delete(id);
        this.model.send({ id, cancel: true });
        reject(failure(CANCELLED, "The call was cancelled."));
      });
      this.model.send({ id, method, params });
    });
  }

  close(): void {
    this.model.off("msg:custom", this.listener);
    this.waiting.clear();
  }
}
